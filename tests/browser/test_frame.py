"""The page is one screen: nothing scrolls but the panels, which the visitor resizes, and nothing moves by itself."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.visitor import APP, FOLD, Visitor

pytestmark = pytest.mark.browser


def size(of: Locator, name: str) -> float:
    box = of.bounding_box()
    assert box is not None
    return float(box[name])  # type: ignore[literal-required]


@pytest.mark.parametrize("window", [(1280, 720), (1440, 900), (1920, 1080)])
def test_all_panels_are_in_the_window_and_the_page_does_not_scroll(
    page: Page, serve: Callable[..., str], window: tuple[int, int]
) -> None:
    width, height = window
    page.set_viewport_size({"width": width, "height": height})
    Visitor(page, serve(APP))
    for place in ("bar", "history", "passes", "middle", "inspected", "drawer"):
        box = page.locator(f".st-key-{place}").bounding_box()
        assert box is not None
        assert min(box["x"], box["y"]) >= 0, place
        assert max(box["x"] + box["width"] - width, box["y"] + box["height"] - height) <= 0, place
    graph, facts = page.locator(".fx").first, page.locator(".st-key-graph-facts")
    assert size(graph, "y") + size(graph, "height") <= size(facts, "y")
    assert size(facts, "y") + size(facts, "height") <= size(page.locator(".st-key-drawer"), "y")
    assert size(graph, "height") > 0.42 * height
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight <= innerHeight")
    bar = page.locator(".st-key-bar > *, .st-key-history > *")
    ends = [(box["x"], box["x"] + box["width"]) for box in (one.bounding_box() for one in bar.all()) if box]
    ends = sorted(end for end in ends if end[0] != end[1])
    assert all(left[1] <= right[0] for left, right in pairwise(ends)), "nothing in the bar lies over another"


def test_panels_are_resized_and_closed_by_pointer_and_keys_and_stay_so(page: Page, serve: Callable[..., str]) -> None:
    Visitor(page, serve(APP))
    passes, graph, drawer = page.locator(".st-key-passes"), page.locator(".fx").first, page.locator(".st-key-drawer")
    edge = page.get_by_role("separator", name="Width of the list of passes")
    before, room = size(passes, "width"), size(graph, "width")
    edge.focus()
    page.keyboard.press("ArrowRight")
    assert size(passes, "width") == pytest.approx(before + 40, abs=1)
    assert size(graph, "width") == pytest.approx(room - 40, abs=1)
    edge.hover()
    page.mouse.down()
    page.mouse.move(size(passes, "width") + 60, 400)
    page.mouse.up()
    assert size(passes, "width") == pytest.approx(before + 100, abs=8)
    page.get_by_role("separator", name="Width of the inspector").click()
    expect(page.locator(".st-key-inspected")).to_be_hidden()
    closed = size(drawer, "height")
    page.get_by_role("button", name="Open the evidence").click()
    low = size(drawer, "height")
    page.get_by_role("button", name="Open the evidence").click()
    assert closed < low < size(drawer, "height")
    chosen = size(passes, "width"), size(drawer, "height")
    page.reload()
    expect(page.get_by_role("switch").first).to_be_visible(timeout=120_000)
    expect(page.locator(".st-key-inspected")).to_be_hidden()
    assert (size(passes, "width"), size(drawer, "height")) == pytest.approx(chosen, abs=1)


def test_in_a_narrow_window_two_graphs_have_the_room_of_the_inspector_until_it_is_opened(
    page: Page, serve: Callable[..., str]
) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    visitor = Visitor(page, serve(APP))
    inspected, edge = page.locator(".st-key-inspected"), page.get_by_role("separator", name="Width of the inspector")

    def show(graph: str, panes: int) -> None:
        page.get_by_role("radio", name=graph).click()
        page.wait_for_function("number => __fxopt.views.length === number", arg=panes)

    show("Side by side", 2)
    expect(inspected).to_be_hidden()
    assert all(size(pane, "width") >= 400 for pane in page.locator(".fx").all())
    expect(edge).to_have_attribute("aria-valuetext", "closed")
    edge.click()
    expect(inspected).to_be_visible()
    show("Now", 1)
    expect(inspected).to_be_visible()
    show("Side by side", 2)
    expect(inspected).to_be_visible()
    edge.click()
    show("Diff", 1)
    expect(inspected).to_be_visible()
    page.set_viewport_size({"width": 1440, "height": 900})
    show("Side by side", 2)
    visitor.wait("view.stage.clientWidth > 300")
    expect(inspected).to_be_visible()


@pytest.mark.parametrize("width", [1100, 1280])
def test_in_a_narrow_window_nothing_covers_another_thing_in_the_bar_and_two_graphs_are_seen_across(
    page: Page, serve: Callable[..., str], width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 720})
    visitor = Visitor(page, f"{serve(APP)}?model=digits_transformer")
    parts = page.locator(".st-key-bar [data-testid=stNumberInput], .st-key-model, .st-key-history, .st-key-reading")
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    page.get_by_role("radio", name="Side by side").click()
    page.wait_for_function("__fxopt.views.length === 2")
    for pane in (0, 1):
        page.wait_for_function(
            """([pane, width]) => {
                const { ready, scene, camera, stage } = __fxopt.views[pane];
                const [left, right] = [0, scene.width].map((x) => camera.toScreen([x, 0])[0]);
                return ready && stage.clientWidth > width / 4 && left >= 0 && right <= stage.clientWidth;
            }""",
            arg=[pane, width],
        )
    visitor.rests()
    page.keyboard.press("Control+z")
    visitor.sees_badge("restored, bit for bit")
    for is_large in (False, True):
        if is_large:
            page.get_by_role("button", name="Large type").click()
            page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '19px'")
            visitor.rests()
        boxes = sorted((size(part, "x"), size(part, "x") + size(part, "width")) for part in parts.all())
        assert len(boxes) == 4
        assert all(end <= begin for (_, end), (begin, _) in pairwise(boxes)), boxes


def test_what_was_measured_is_in_sight(page: Page, serve: Callable[..., str]) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    visitor = Visitor(page, serve(APP))
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.locator(".summary [data-evidence=Latency]").click()
    page.get_by_role("button", name="Measure").click()
    verdict = page.locator(".st-key-drawer h5")
    expect(verdict).to_be_visible(timeout=120_000)
    assert size(verdict, "y") + size(verdict, "height") <= 720


WATCH = """() => {
    globalThis.moved = [];
    new PerformanceObserver((list) => moved.push(...list.getEntries().map((one) => one.value)))
        .observe({ type: "layout-shift" });
}"""


def test_a_graph_that_was_whole_in_sight_stays_so_above_the_drawer(page: Page, serve: Callable[..., str]) -> None:
    visitor = Visitor(page, f"{serve(APP)}?model=lesson_one_norm")
    whole = "view.camera.showsAll(view.scene, ...view.stageSize())"
    visitor.wait(whole)
    high = size(page.locator(".fx-stage"), "height")
    page.get_by_role("tab", name="Numerics").click()
    visitor.wait(f"view.stageSize()[1] < {high - 100} && {whole}")


def test_an_act_moves_nothing_that_stands_on_the_page(page: Page, serve: Callable[..., str]) -> None:
    visitor = Visitor(page, serve(APP))
    page.get_by_role("tab", name="Latency").click()  # with the drawer, the graph becomes lower: that is asked for
    page.wait_for_timeout(1000)
    page.evaluate(WATCH)

    def shift(act: Callable[[], object]) -> float:
        page.evaluate("moved.length = 0")
        act()
        page.wait_for_timeout(1500)
        return float(page.evaluate("moved.reduce((sum, one) => sum + one, 0)"))

    shifts = {
        "switch": shift(lambda: visitor.switch(FOLD)),
        "select": shift(lambda: visitor.click_node("stem_conv")),
        "diff": shift(lambda: page.get_by_role("radio", name="Diff").click()),
        "tab": shift(lambda: page.get_by_role("tab", name="Nodes").click()),
        "reverse": shift(lambda: page.get_by_role("button", name="Reverse all").click()),
    }
    assert all(moved < 0.02 for moved in shifts.values()), shifts


def test_the_first_stops_of_the_tab_key_lead_to_the_parts_of_the_page(page: Page, serve: Callable[..., str]) -> None:
    Visitor(page, serve(APP))
    reached = {
        "graph": "__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage",
        "passes": "document.activeElement.closest('.st-key-passes') !== null",
        "inspector": "document.activeElement.closest('.st-key-inspected') !== null",
        "evidence": "document.activeElement.getAttribute('role') === 'tab'",
    }
    page.get_by_role("separator", name="Width of the inspector").click()
    for number, (name, condition) in enumerate(reached.items()):
        page.get_by_role("button", name="Go to the graph").focus()
        for _ in range(number):
            page.keyboard.press("Tab")
        link = page.get_by_role("button", name=f"Go to the {name}")
        expect(link).to_be_focused()
        assert size(link, "x") >= 0
        page.keyboard.press("Enter")
        page.wait_for_function(condition)
    expect(page.locator(".st-key-inspected")).to_be_visible()
    first = "document.querySelector(\"a[href], button, input, [tabindex='0']\").textContent"
    assert page.evaluate(first) == "Go to the graph", "they come before everything else that takes the focus"
