"""The four pictures of one state on the real page, and the cost of going between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.browser.visitor import APP, FOLD, Visitor

pytestmark = pytest.mark.browser


@pytest.fixture
def visitor(page: Page, serve: Callable[..., str]) -> Visitor:
    return Visitor(page, serve(APP))


def see(visitor: Visitor, picture: str, condition: str = "true") -> None:
    page = visitor.page
    panes = 2 if picture == "Side by side" else 1
    bar = page.locator(".st-key-graph-bar")
    bar.get_by_role("radio", name=picture, exact=True).or_(bar.get_by_role("button", name=picture, exact=True)).click()
    page.wait_for_function(
        f"__fxopt.views.length === {panes} && __fxopt.views.every((view) => view.ready) &&"
        f"(view => view && {condition})(__fxopt.views.find((one) => one.key === 'graph'))"
    )


def places(visitor: Visitor) -> dict[str, tuple[float, float]]:
    found = visitor.page.evaluate(
        "(v => v.scene.names.map((n) => [n, v.nodeRect(n)]))(__fxopt.views.find((one) => one.key === 'graph'))"
    )
    return {name: (round(box["x"]), round(box["y"])) for name, box in found}


GONE, THERE = "view.scene.find('stem_norm') < 0", "view.scene.find('stem_norm') >= 0"


def test_what_a_pass_removed_is_in_the_original_and_in_the_difference_at_its_place(visitor: Visitor) -> None:
    before = places(visitor)
    visitor.switch(FOLD)
    visitor.wait(GONE)
    after = places(visitor)
    assert {name: before[name] for name in after} == after, "nothing has moved"
    see(visitor, "Diff", "view.scene.boxStates?.includes('removed')")
    assert places(visitor) == before
    see(visitor, "Original", THERE)
    assert places(visitor) == before


def test_a_ghost_can_be_selected_and_its_story_read(visitor: Visitor) -> None:
    visitor.switch(FOLD)
    visitor.wait(GONE)
    see(visitor, "Diff", THERE)
    visitor.click_node("stem_norm")
    visitor.sees("removed by Fold BatchNorm2d at stem_norm")
    expect(visitor.page.get_by_role("button", name="Only in")).to_have_count(0)


def test_side_by_side_shows_both_graphs_at_one_place(visitor: Visitor) -> None:
    visitor.switch(FOLD)
    visitor.wait(GONE)
    see(visitor, "Side by side", GONE)
    seen = "(key => (view => [view.scene.find('stem_norm') >= 0, view.camera.x, view.camera.y, view.camera.zoom])"
    left, right = (
        visitor.page.evaluate(f"{seen}(__fxopt.views.find((one) => one.key === key)))({key!r})")
        for key in ("graph before", "graph")
    )
    assert (left[0], right[0]) == (True, False)
    assert left[1:] == right[1:]
    see(visitor, "Now", GONE)


def test_going_from_picture_to_picture_sends_no_layout_and_no_code(page: Page, serve: Callable[..., str]) -> None:
    sizes: list[int] = []

    def opened(socket: WebSocket) -> None:
        socket.on("framereceived", lambda frame: sizes.append(len(frame)))

    page.on("websocket", opened)
    visitor = Visitor(page, serve(APP))
    assert max(sizes) > 40_000, "the code comes once"
    visitor.switch(FOLD)
    visitor.wait(GONE)
    see(visitor, "Side by side")
    see(visitor, "Original", THERE)
    known = len(sizes)
    for picture in ("Diff", "Now", "Original"):
        see(visitor, picture)
    assert max(sizes[known:]) < 15_000


def choose_cost(visitor: Visitor, cost: str) -> None:
    visitor.page.wait_for_function("!document.querySelector('[data-stale=true]')")  # a new run closes the list
    visitor.page.get_by_role("combobox", name="Cost").click()
    visitor.page.get_by_role("option", name=f"Cost: {cost}", exact=True).click()


def test_bars_tell_what_boxes_cost_in_words_as_well(visitor: Visitor) -> None:
    told = visitor.page.locator(".fx-spoken").first
    visitor.click_node("stem_conv")
    visitor.sees("matches at")
    for cost, word in (("parameters", "parameters"), ("FLOPs", "FLOP"), ("bytes moved", "kB")):
        choose_cost(visitor, cost)
        visitor.wait(f"/{word}/.test(view.bars[view.scene.numberOf(view.selected)]?.[1])")
        expect(told).to_contain_text(word)
    choose_cost(visitor, "none")
    visitor.wait("Object.keys(view.bars).length === 0")


def test_the_critical_path_is_drawn_told_in_the_legend_and_listed_in_the_table(visitor: Visitor) -> None:
    page = visitor.page
    choose_cost(visitor, "FLOPs")
    visitor.wait("Object.keys(view.bars).length > 0")
    page.locator("label", has_text="Critical path").click()
    visitor.wait("view.path.edges.length > 5")
    on_it = "view.path.boxes.has(view.scene.find({!r}))".format
    visitor.wait(f"{on_it('stem_conv')} && {on_it('output')}")
    ends = "view.path.edges.every((edge, at) => view.scene.ends[2 * edge] === view.path.way[at])"
    visitor.wait(ends)
    expect(page.locator(".fx-legend")).to_contain_text("critical path: ")
    page.get_by_role("button", name="Fold", exact=True).click()
    visitor.wait(f"view.scene.groups.size > 0 && {on_it('@residual')}")
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.wait(f"{on_it('@residual')} && {ends}")
    page.locator("label", has_text="Critical path").click()
    visitor.wait("view.path.boxes.size === 0")


def test_what_is_told_below_the_graph_has_the_costs_of_the_graph_that_was_pointed_at_in_the_difference(
    visitor: Visitor,
) -> None:
    page = visitor.page
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("combobox", name="Cost").click()
    page.get_by_role("option", name="Cost: FLOPs").click()
    visitor.wait("Object.keys(view.bars).length > 0")
    page.get_by_role("radio", name="Diff").click()
    visitor.wait("view.scene.find('stem_norm') >= 0")
    page.evaluate("__fxopt.views[0].select(__fxopt.views[0].scene.find('stem_norm'), 'now')")
    expect(page.locator(".st-key-inspected code").first).to_have_text("stem_norm")
    expect(page.locator(".st-key-graph-facts")).to_contain_text("native_batch_norm", timeout=20_000)
