"""Steps to sites and search hits, in a real Chromium: the node itself is opened, seen and selected."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Open, Visitor, press

pytestmark = pytest.mark.browser


@pytest.fixture
def visitor(visit: Open) -> Visitor:
    """Someone at BERT-base, folded as it opens."""
    visitor = visit()
    visitor.pick("BERT-base")
    visitor.wait("view.subject === 'bert-base'")
    visitor.rests()  # the tabs are drawn last
    visitor.page.evaluate("document.activeElement.blur()")
    return visitor


def sees_box_of(visitor: Visitor, name: str) -> None:
    visitor.wait(f"view.selectedName === {name!r} && view.scene.names[view.selected] === {name!r}")
    visitor.wait("view.isInView(view.selected, 10) && view.camera.zoom >= 0.6")
    expect(visitor.page.locator(".st-key-inspected code").first).to_have_text(name)


def test_steps_to_sites_open_one_copy_after_the_other(visitor: Visitor) -> None:
    for number in range(2):
        press(visitor, "ArrowRight")
        sees_box_of(visitor, f"encoder_layer_{number}_attention_self_query")
        expect(visitor.page.get_by_role("status").first).to_have_text(f"site {number + 1} of 12, one of 12 copies")
    visitor.wait("view.scene.index.has('@encoder.layer.0') && !view.scene.index.has('@encoder.layer.1')")


def test_enter_on_a_search_hit_goes_to_the_node_that_a_module_hides(visitor: Visitor) -> None:
    press(visitor, "/")
    visitor.page.keyboard.type("layer_[23]_output_dense")
    press(visitor, "Enter")
    sees_box_of(visitor, "encoder_layer_2_output_dense")
    press(visitor, "Enter")
    sees_box_of(visitor, "encoder_layer_3_output_dense")
    expect(visitor.page.get_by_role("status").first).to_have_text("2 of 2")


def test_a_site_told_of_a_module_leads_to_its_node(visitor: Visitor) -> None:
    visitor.click_node("@encoder.layer.1")
    visitor.page.locator(".st-key-inspected").get_by_role(
        "button", name="encoder_layer_1_attention_self_query"
    ).first.click()
    sees_box_of(visitor, "encoder_layer_1_attention_self_query")


def test_diff_shows_how_three_linears_became_one_and_its_slices(visitor: Visitor) -> None:
    visitor.switch("MergeLinears")
    visitor.sees_badge("12 sites on")
    visitor.page.get_by_role("radio", name="Diff").click()
    layer = "encoder_layer_0_attention_self"
    visitor.wait("view.scene.index.has('query_key_value_merged')")
    for part in ("query", "key", "value"):
        old, new = f"{layer}_{part}~", f"{layer}_{part}"
        visitor.wait_for_marks(old, "applied", "removed")
        visitor.wait_for_marks(new, "applied", "created")
        pair = f"[view.scene.index.get({old!r}), view.scene.index.get('query_key_value_merged')]"
        visitor.wait(f"view.became.some((pair) => JSON.stringify(pair) === JSON.stringify({pair}))")
        visitor.wait(f"view.isInView(view.scene.index.get({old!r})) && view.isInView(view.scene.index.get({new!r}))")
    badge = "view.marks.get(view.scene.index.get('@encoder.layer.1')).find(([kind]) => kind === 'applied')[2]"
    visitor.wait(f"{badge} === 1")
    legends = set()
    for chosen in ("Diff", "Now", "Side by side"):
        visitor.page.get_by_role("radio", name=chosen).click()
        panes = 2 if chosen == "Side by side" else 1
        visitor.page.wait_for_function(f"__fxopt.views.length === {panes} && __fxopt.views.every((one) => one.ready)")
        legends |= set(visitor.page.locator(".fx-legend .fx-entry:has(.fx-sign-applied)").all_inner_texts())
    [legend] = {text.replace("\n", "") for text in legends}
    assert legend.endswith("Merge linears · 48 nodes in 12 sites")


def test_a_figure_above_the_graph_opens_the_tab_of_its_table(visitor: Visitor) -> None:
    visitor.page.get_by_role("button", name="latency ?").click()
    visitor.sees("Times the original and the graph as it is now")
    visitor.page.wait_for_function("document.activeElement.textContent === 'Latency'")
