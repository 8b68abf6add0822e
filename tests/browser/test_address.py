"""The address in a real browser: reload, back, forward, and a link that is sent to someone else."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.visitor import FOLD, TOUR_ENDED, Open, Visitor

pytestmark = pytest.mark.browser


def without_place(url: str) -> str:
    """The address without the place in the graph, which is written once the camera rests."""
    return url.partition("#at=")[0]


def whole(page: Page) -> str:
    return without_place(page.url)


def test_reload_back_forward_and_a_sent_link_restore_what_is_looked_at(visit: Open, browser: Browser) -> None:
    visitor = visit()
    page = visitor.page
    bare = whole(page)
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.wait_for_url(re.compile("state="))
    on = whole(page)
    page.get_by_role("radio", name="Diff").click()
    page.wait_for_url(lambda url: without_place(url) not in (bare, on))
    in_diff = whole(page)
    visitor.click_node("stem_conv")
    page.wait_for_url(lambda url: without_place(url) not in (bare, on, in_diff))
    selected = whole(page)

    page.reload()
    again = Visitor(page, selected)
    again.sees_badge("4 sites on")
    again.wait("view.selectedName === 'stem_conv'")
    expect(page.get_by_role("radio", name="Diff")).to_be_checked()
    assert whole(page) == selected

    again.switch(FOLD)
    again.sees_badge("restored, bit for bit")
    page.wait_for_url(lambda url: without_place(url) != selected)
    off = whole(page)
    page.go_back()
    again.sees_badge("4 sites on")
    assert whole(page) == selected
    page.go_forward()
    again.sees_badge("restored, bit for bit")
    assert whole(page) == off

    page.get_by_role("tab", name="Nodes").click()
    page.wait_for_url(lambda url: without_place(url) != off)
    page.reload()
    expect(page.get_by_role("tab", name="Nodes")).to_have_attribute("aria-selected", "true", timeout=60_000)
    page.go_back()
    expect(page.get_by_role("tab", name="Parameters")).to_have_attribute("aria-selected", "true", timeout=60_000)

    other = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    other.add_init_script(TOUR_ENDED)
    try:
        there = Visitor(other.new_page(), on)
        there.sees_badge("4 sites on")
        expect(there.page.get_by_role("radio", name="Now", exact=True)).to_be_checked()
    finally:
        other.close()


def test_a_step_in_the_history_that_another_run_overtakes_is_made(page: Page, serve: Callable[..., str]) -> None:
    visitor = Visitor(page, serve(Path(__file__).with_name("overtaken_script.py")))
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.wait_for_url(re.compile("state=[^#]*#at="))
    on = whole(page)
    page.go_back()
    visitor.sees_badge("restored, bit for bit")
    page.go_forward()
    visitor.sees_badge("4 sites on")
    assert whole(page) == on


CAMERA = "(({x, y, zoom}) => [x, y, zoom])(__fxopt.views[0].camera)"
AT = re.compile("#at=\\w+,")


def wait_for_camera(page: Page, looking: list[float]) -> None:
    rounded = "(one => JSON.stringify(one.map(Math.round)))"
    page.wait_for_function(f"{rounded}({CAMERA}) === {rounded}({looking})")


def test_the_place_in_the_graph_is_restored_to_the_pixel_and_a_wrong_one_is_told(visit: Open, browser: Browser) -> None:
    visitor = visit()
    page = visitor.page
    assert "#" not in page.url
    stage = page.locator(".fx-stage").first
    box = stage.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 150)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.mouse.wheel(40, 60)
    page.wait_for_url(AT)
    page.wait_for_timeout(500)
    looking, before = page.evaluate(CAMERA), page.url
    assert len(before.partition("#")[2]) < 80

    page.reload()
    again = Visitor(page, before)
    wait_for_camera(page, looking)
    assert page.evaluate(CAMERA) == pytest.approx(looking, abs=0.01)
    assert page.url == before

    again.switch(FOLD)
    again.sees_badge("4 sites on")
    page.wait_for_url(re.compile("state="))
    page.go_back()
    again.sees_badge("restored, bit for bit")
    wait_for_camera(page, looking)

    other = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    try:
        there = Visitor(other.new_page(), before)
        wait_for_camera(there.page, looking)
        there.page.goto("about:blank")
        wrong = Visitor(there.page, without_place(before) + "#at=here,there")
        wrong.sees("the address asks for a place in the graph that cannot be read")
        there.page.goto("about:blank")
        wrong = Visitor(there.page, re.sub("#at=.", "#at=x", before))
        wrong.sees("the address asks for a place in another picture than this")
    finally:
        other.close()
