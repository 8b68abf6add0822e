"""Keys and search in a graph, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.graph import OpenGraph

pytestmark = pytest.mark.browser


def test_held_arrow_keys_are_told_once_they_rest(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.focus()
    for _ in range(4):
        graph.page.keyboard.press("ArrowDown")
    name = graph.get("selectedName")
    graph.says("selected", name)
    graph.says("heard", f"select {name}")
    graph.page.keyboard.press("ArrowUp")
    assert graph.get("selectedName") != name


def test_keys_fold_fit_and_let_go(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.click("@encoder.layer.0")
    graph.says("selected", "@encoder.layer.0")
    graph.page.keyboard.press("Enter")
    graph.wait(f"view.layoutId !== {start!r}")
    expect(graph.page.get_by_role("option")).to_have_text("layer.0 · BertLayer, open")
    graph.page.keyboard.press("Enter")
    graph.wait(f"view.layoutId === {start!r}")
    graph.page.keyboard.press("Escape")
    graph.says("selected", "None")
    graph.page.keyboard.press("Space")
    graph.settle()
    assert graph.get("isInView(0)")


def test_the_letters_that_streamlit_binds_do_nothing_here(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.focus()
    for key in ("r", "c", "R", "C"):
        graph.page.keyboard.press(key)
    graph.page.keyboard.press("/")
    for key in ("r", "c"):
        graph.page.keyboard.press(key)
    expect(graph.page.get_by_role("dialog")).to_have_count(0)
    graph.says("runs", "1")


def test_search_finds_names_operations_shapes_and_what_is_folded(open_graph: OpenGraph) -> None:
    graph = open_graph("encoder")
    graph.focus()
    graph.page.keyboard.press("/")
    graph.page.keyboard.type("embedding")
    status = graph.page.get_by_role("status").filter(has_text="found")
    expect(status).to_have_text("1 found")
    box = graph.page.get_by_role("searchbox")
    box.fill("layer_7_attention_self_query")
    box.press("Enter")
    graph.says("selected", "encoder_layer_7_attention_self_query")
    expect(graph.page.get_by_text("1 of 1 · inside: encoder_layer_7_attention_self_query")).to_be_visible()
    assert graph.get("isInView(__fxopt.views[0].selected)")
    box.fill(r"layer\.\d$")
    expect(status).to_have_text("10 found")
    box.fill("×sequence")
    expect(status).not_to_have_text("nothing found")
    box.fill("(")
    expect(graph.page.get_by_text("nothing found")).to_be_visible()
    box.press("Escape")
    assert graph.page.evaluate("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")


def test_search_goes_around_in_both_directions(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    box = graph.page.get_by_role("searchbox")
    box.fill("truediv")
    for key, name in (("Enter", "truediv"), ("Enter", "truediv_1"), ("Enter", "truediv"), ("Shift+Enter", "truediv_1")):
        box.press(key)
        assert graph.get("selectedName") == name
