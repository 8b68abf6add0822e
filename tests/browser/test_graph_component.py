"""The graph component as a visitor meets it, in a real Chromium on a real Streamlit server."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.graph import SCRIPT, OpenGraph

pytestmark = pytest.mark.browser


FRAME = """(path => {
    const { scene, stage, camera } = __fxopt.views[0];
    const { x, y, w, h } = scene.frames.find((one) => one.path === path);
    const place = stage.getBoundingClientRect();
    const [[left, top], [right, bottom]] = [camera.toScreen([x, y]), camera.toScreen([x + w, y + h])];
    return { left, top, right: place.width - right, bottom: place.height - bottom };
})"""


def test_opening_shows_the_graph_and_sends_nothing(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    assert graph.get("scene.count") == 31
    assert graph.get("selectedName") is None
    graph.says("runs", "1")
    graph.says("heard", "")


def test_a_click_selects_that_very_node(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    for name in ("stem", "layer_0_query", "truediv"):
        graph.click(name)
        graph.says("selected", name)
        assert graph.get("selectedName") == name
    graph.says("heard", "select stem | select layer_0_query | select truediv")
    graph.says("runs", "4")


def test_of_two_quick_clicks_the_second_holds(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    first, second = graph.point("stem"), graph.point("matmul")
    graph.page.mouse.click(*first)
    graph.page.mouse.click(*second)
    graph.says("selected", "matmul")
    assert graph.get("selectedName") == "matmul"


def test_a_click_beside_every_box_selects_nothing(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.click("stem")
    graph.says("selected", "stem")
    x, y = graph.point("stem")
    graph.page.mouse.click(x - 300, y)
    graph.says("selected", "None")
    assert graph.get("selected") == -1


def test_what_python_deselected_can_be_selected_again(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.click("stem")
    graph.says("selected", "stem")
    graph.page.get_by_role("button", name="Forget").click()
    graph.says("selected", "None")
    graph.wait("view.selected === -1")
    graph.click("stem")
    graph.says("selected", "stem")


def test_python_selects_and_the_page_shows_it(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.page.get_by_role("button", name="Select output").click()
    graph.wait("view.selectedName === 'output' && view.isInView(view.selected)")
    graph.says("heard", "")


def test_marks_on_folded_nodes_show_on_their_module(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    graph.page.get_by_text("Marks").click()
    graph.wait("view.marks.size > 0")
    marks = graph.page.evaluate("__fxopt.views[0].marks.get(__fxopt.views[0].scene.index.get('@encoder.layer.3'))")
    assert ["matched", 0, 3] in marks


def test_an_opened_module_is_all_in_view_and_folds_where_it_is_folded(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    folded = graph.get("layoutId")
    for path in ("encoder.layer.1", "encoder.layer.4"):
        graph.page.mouse.click(*graph.control(path))
        graph.wait(f"view.layoutId !== {folded!r}")
        edges = graph.page.evaluate(f"{FRAME}({path!r})")
        assert min(edges.values()) > 10, edges
        assert graph.camera()["zoom"] >= 0.6
        place = graph.control(path)
        graph.page.mouse.click(*place)
        graph.wait(f"view.layoutId === {folded!r}")
        assert graph.control(path) == pytest.approx(place, abs=0.5)


def test_the_selection_survives_folding(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.click("@encoder.layer.0")
    graph.says("selected", "@encoder.layer.0")
    graph.page.mouse.click(*graph.control("encoder.layer.1"))
    graph.wait(f"view.layoutId !== {start!r}")
    assert graph.get("selectedName") == "@encoder.layer.0"
    assert graph.page.evaluate("(v => v.scene.names[v.selected])(__fxopt.views[0])") == "@encoder.layer.0"


def test_a_double_click_opens_a_module_once(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.page.mouse.dblclick(*graph.point("@encoder.layer.2"))
    graph.wait(f"view.layoutId !== {start!r}")
    graph.says("heard", "select @encoder.layer.2 | toggle encoder.layer.2")


def test_colors_follow_the_theme(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.page.emulate_media(color_scheme="light")
    light = "view.theme.back === 'rgb(255, 255, 255)'"
    graph.wait(light)
    camera = graph.camera()
    graph.page.emulate_media(color_scheme="dark")
    graph.wait(f"!({light})")
    assert graph.camera() == camera


def test_labels_of_any_characters_are_drawn_as_text(open_graph: OpenGraph) -> None:
    graph = open_graph("strange")
    assert graph.page.evaluate("document.querySelectorAll('b').length") == 0
    for name in ("p2", "n16"):
        graph.page.evaluate(f"(v => v.select(v.scene.index.get({name!r}), 'now'))(__fxopt.views[0])")
        graph.says("selected", name)
    graph.page.evaluate("(v => v.select(v.scene.index.get('p2'), 'now'))(__fxopt.views[0])")
    assert graph.page.evaluate("__fxopt.views[0].option.textContent").startswith("p2, input")


def test_a_graph_of_3500_nodes_answers_a_click(open_graph: OpenGraph) -> None:
    graph = open_graph("large")
    assert graph.get("scene.count") == 3502
    graph.click("x")
    graph.says("selected", "x")
    assert graph.page.evaluate("__fxopt.views[0].root.querySelectorAll('*').length") < 100
    graph.page.keyboard.press("Space")
    graph.settle()
    assert graph.get("isInView(0)")
    assert graph.get("isInView(__fxopt.views[0].scene.find('output'))")


def test_a_reader_of_the_screen_hears_what_is_selected(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    stage = graph.page.get_by_role("listbox")
    expect(stage).to_have_attribute("aria-label", re.compile("showing 31 of 38 nodes"))
    assert graph.page.locator(".fx-canvas").get_attribute("aria-hidden") == "true"
    graph.click("layer_0_query")
    option = graph.page.get_by_role("option")
    expect(option).to_have_text("query, Linear, in layer.0, 1 inputs, 1 users")
    expect(option).to_have_attribute("aria-selected", "true")


def test_moving_the_pointer_over_the_graph_sends_nothing(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    for name in ("stem", "mul", "layer_0_query", "matmul"):
        graph.page.mouse.move(*graph.point(name))
    graph.page.mouse.wheel(0, 300)
    graph.settle()
    graph.says("runs", "1")


def test_linked_panes_share_their_selection(page: Page, serve: Callable[..., str]) -> None:
    page.goto(serve(SCRIPT.with_name("linked_script.py")))
    page.wait_for_function("globalThis.__fxopt?.views?.length === 2 && __fxopt.views.every((view) => view.ready)")
    box = page.evaluate("__fxopt.views.find((view) => view.key === 'before').nodeRect('layer_0_query')")
    page.mouse.click(box["x"] + 20, box["y"] + 10)
    expect(page.get_by_text("selected layer_0_query")).to_be_visible()
    seen = "(key => (view => view.scene.names[view.selected])(__fxopt.views.find((view) => view.key === key)))"
    assert page.evaluate(f"{seen}('before')") == "layer_0_query"
    assert page.evaluate(f"{seen}('after')") == "@layer.0"


def test_a_page_left_ends_its_graphs(open_graph: OpenGraph, serve: Callable[..., str]) -> None:
    graph = open_graph("tower")
    graph.page.get_by_text("Hide").click()
    graph.page.wait_for_function("__fxopt.views.length === 0")
    graph.page.get_by_text("Hide").click()
    graph.settle()
