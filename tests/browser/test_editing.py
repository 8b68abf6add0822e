"""Edits by hand from the graph itself: the menu of a node or an edge, the key Delete, an edge's end that is dragged."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.test_passes_on_the_page import serious
from tests.browser.visitor import Open, press

pytestmark = pytest.mark.browser


def test_the_key_delete_takes_a_node_out_and_undo_brings_it_back(visit: Open) -> None:
    visitor = visit()
    visitor.page.set_viewport_size({"width": 1280, "height": 720})
    visitor.page.get_by_role("tab", name="Code").click()  # the panels are low above the open drawer
    visitor.click_node("stem_norm")
    visitor.wait("view.selectedName === 'stem_norm'")
    press(visitor, "Delete")
    visitor.wait("view.scene.find('stem_norm') < 0")
    visitor.sees_badge("1 site on")
    expect(visitor.page.get_by_text("Undo with Ctrl+Z")).to_be_in_viewport(ratio=1)
    visitor.wait("view.selectedName === 'stem_conv'")  # which its users read now
    press(visitor, "Control+z")
    visitor.wait("view.scene.find('stem_norm') >= 0")
    visitor.sees_badge("restored, bit for bit")


def test_what_cannot_be_deleted_is_refused_with_the_node_and_a_remedy(visit: Open) -> None:
    visitor = visit()
    visitor.click_node("images")
    visitor.wait("view.selectedName === 'images'")
    press(visitor, "Delete")
    visitor.sees("images cannot take this edit (delete it); what can be done at it: insert a module behind it")
    visitor.sees_badge("original")


def test_the_menu_of_a_node_opens_the_form_at_the_act_by_pointer_and_by_keys(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    box = page.evaluate("__fxopt.views[0].nodeRect('stem_relu')")
    page.mouse.click(box["x"] + 20, box["y"] + 10, button="right")
    menu = page.get_by_role("menu", name="Acts on stem_relu")
    expect(menu.get_by_role("menuitem")).to_have_count(7, timeout=60_000)
    assert serious(page) == []
    menu.get_by_role("menuitem", name="Insert a module behind it").click()
    expect(menu).to_be_hidden()
    act = page.locator(".st-key-inspected").get_by_role("combobox", name="What to change")
    expect(act).to_have_value("Insert a module behind it", timeout=60_000)
    page.wait_for_function("!document.querySelector('[data-stale=true]')")
    page.evaluate("__fxopt.views[0].stage.focus()")
    press(visitor, "Shift+F10")
    expect(menu.get_by_role("menuitem").first).to_be_focused(timeout=60_000)
    press(visitor, "ArrowDown", "ArrowDown", "ArrowDown", "Escape")
    expect(menu).to_be_hidden()
    page.wait_for_function("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")
    visitor.sees_badge("original")


def test_the_focus_stays_in_the_graph_where_the_visitor_goes_on_there_before_the_form_of_an_edit_comes(
    visit: Open,
) -> None:
    visitor = visit()
    page = visitor.page
    visitor.click_node("stem_relu")
    visitor.wait("view.selectedName === 'stem_relu'")
    page.evaluate(
        """() => {
            const { menu, stage } = __fxopt.views[0];
            menu.openAtSelected();
            [...menu.root.children].find((one) => one.textContent.startsWith("Insert a module")).click();
            stage.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true, composed: true }));
        }"""
    )
    act = page.locator(".st-key-inspected").get_by_role("combobox", name="What to change")
    expect(act).to_have_value("Insert a module behind it", timeout=60_000)
    visitor.rests()
    assert page.evaluate("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")


def test_a_module_is_put_on_an_edge_by_its_menu_and_the_form_is_opened_where_its_panel_is_closed(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    page.get_by_role("separator", name="Width of the inspector").click()
    middle = page.evaluate("__fxopt.views[0].edgePoints('stem_norm', 'stem_relu')[2]")
    page.mouse.click(middle["x"], middle["y"], button="right")
    menu = page.get_by_role("menu", name="Acts on stem_norm → stem_relu")
    expect(menu.get_by_role("menuitem")).to_have_count(2)
    menu.get_by_role("menuitem", name="Insert a module on it").click()
    act = page.locator(".st-key-inspected").get_by_role("combobox", name="What to change")
    expect(act).to_have_value("Insert a module behind it", timeout=60_000)
    page.get_by_role("button", name="Apply").click()
    visitor.wait("view.scene.inputs[view.scene.find('stem_relu')][0] !== view.scene.find('stem_norm')")
    visitor.sees("Undo with Ctrl+Z")


def test_an_edge_is_reached_by_keys_announced_and_edited_by_its_menu(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.click_node("stem_norm")
    visitor.wait("view.selectedName === 'stem_norm'")
    visitor.sees("What the passes say")
    page.evaluate("__fxopt.views[0].stage.focus()")
    press(visitor, "e")
    spoken = page.locator(".fx-spoken")
    expect(spoken).to_have_text("Edge stem_norm to stem_relu, 1 of 2, Enter opens its menu")
    assert page.evaluate("__fxopt.views[0].stage.getAttribute('aria-activedescendant')") == "fx-option"
    option = "__fxopt.views[0].option"
    assert page.evaluate(f"[{option}.ariaPosInSet, {option}.ariaSetSize]") == ["1", "2"]
    press(visitor, "e")
    expect(spoken).to_have_text("Edge stem_conv to stem_norm, 2 of 2, Enter opens its menu")
    press(visitor, "Shift+E", "Enter")
    menu = page.get_by_role("menu", name="Acts on stem_norm → stem_relu")
    expect(menu.get_by_role("menuitem")).to_have_count(2)
    expect(menu.get_by_role("menuitem").first).to_be_focused()
    press(visitor, "Escape")
    expect(menu).to_be_hidden()
    expect(spoken).to_have_text("Edge stem_norm to stem_relu, 1 of 2, Enter opens its menu")
    press(visitor, "Shift+F10", "ArrowDown", "Enter")
    act = page.locator(".st-key-inspected").get_by_role("combobox", name="What to change")
    expect(act).to_have_value("Rewire its inputs", timeout=60_000)
    expect(act).to_be_focused(timeout=60_000)
    visitor.wait("view.selectedName === 'stem_relu'")


def test_the_keys_go_from_an_edge_to_its_ends_and_back_to_its_node(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.click_node("stem_norm")
    visitor.wait("view.selectedName === 'stem_norm'")
    page.evaluate("__fxopt.views[0].stage.focus()")
    press(visitor, "e", "Escape")
    visitor.wait("view.selectedName === 'stem_norm' && view.edges.focused < 0")
    expect(page.locator(".fx-spoken")).to_have_text(re.compile("^norm, BatchNorm2d"))
    press(visitor, "e")
    visitor.wait("view.edges.focused >= 0")
    visitor.click_node("stem_norm")
    visitor.wait("view.edges.focused < 0")
    expect(page.locator(".fx-spoken")).to_have_text(re.compile("^norm, BatchNorm2d"))
    press(visitor, "e", "ArrowDown")
    visitor.wait("view.selectedName === 'stem_relu' && view.edges.focused < 0")


def test_an_end_of_an_edge_is_dragged_to_another_node_or_refused_with_a_remedy(visit: Open) -> None:
    visitor = visit()
    page = visitor.page

    def drag(source: str, target: str, to: str) -> None:
        """Drag the end at the source of an edge to the node `to`."""
        visitor.wait("!view.edges.held")
        [start, _, middle] = page.evaluate(f"__fxopt.views[0].edgePoints('{source}', '{target}')")
        page.mouse.move(middle["x"], middle["y"])
        page.mouse.move(start["x"], start["y"] + 2)
        page.mouse.down()
        box = page.evaluate(f"__fxopt.views[0].nodeRect('{to}')")
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 12, steps=4)
        visitor.wait("view.edges.held !== null")
        page.mouse.up()

    drag("stem_norm", "stem_relu", "stem_conv")
    visitor.wait("view.scene.inputs[view.scene.find('stem_relu')].includes(view.scene.find('stem_conv'))")
    visitor.wait("view.selectedName === 'stem_relu'")
    visitor.sees("Undo with Ctrl+Z")
    drag("stem_conv", "stem_norm", "stem_relu")
    refusal = page.get_by_role("alert").filter(has_text="Not applied.")
    expect(refusal).to_contain_text("stem_relu comes later in the graph than stem_norm", timeout=60_000)
    expect(refusal).to_contain_text("To change that: ")
