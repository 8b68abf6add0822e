"""The play of a rewrite in Diff, in a real Chromium: site by site and both ways."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Open

pytestmark = pytest.mark.browser

GONE = "(view.player.moment?.scene ?? view.scene).boxStates[view.scene.find('truediv~')]"


def test_diff_plays_the_rewrite_site_by_site_both_ways(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")
    visitor.switch("ChangeTrueDivToMulByInverse")
    visitor.sees_badge("2 sites on")
    expect(page.get_by_role("group", name="Play the rewrite")).to_be_hidden()
    page.get_by_role("radio", name="Diff").click()
    play = page.get_by_role("group", name="Play the rewrite")
    expect(play).to_contain_text("After · 2 of 2")

    play.get_by_role("button", name="The graph before").click()
    expect(play).to_contain_text("Before · 0 of 2")
    visitor.wait(f"{GONE} === '' && view.player.moment.boxes.has(view.scene.find('truediv'))")
    play.get_by_role("button", name="One site forward").click()
    expect(play).to_contain_text("1 of 2 · Divide by multiplying at truediv")
    visitor.wait(f"{GONE} === 'removed' && view.isInView(view.scene.find('truediv'))")
    visitor.wait("view.player.moment.boxes.has(view.scene.find('truediv_1'))")

    page.locator(".fx-stage").focus()
    page.keyboard.press("p")
    visitor.wait("view.player.direction === 0 && view.player.moment === null && view.player.done === 2")
    assert page.evaluate("__fxopt.views[0].isInView(__fxopt.views[0].scene.find('truediv_1'))")
    play.get_by_role("button", name="Play from after to before").click()
    expect(play).to_contain_text("Before · 0 of 2")
    visitor.wait(f"view.player.direction === 0 && {GONE} === ''")

    at_work = "((player) => { player.step(1); return player.isAtWork; })(__fxopt.views[0].player)"
    assert not page.evaluate(at_work), "with reduced motion, the camera is at the site at once"
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(at_work)

    visitor.switch("MergeLinears")
    visitor.sees_badge("4 sites on")
    expect(play).to_contain_text("After · 4 of 4")


def test_the_change_stays_in_view_where_the_drawer_opens(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    page.set_viewport_size({"width": 1280, "height": 720})
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    page.get_by_role("radio", name="Diff").click()
    visitor.wait("view.isInView(view.scene.find('query_key_value_merged')) && view.stageSize()[1] > 300")
    page.get_by_role("tab", name="Parameters").click()
    visitor.wait("view.stageSize()[1] < 250")
    visitor.wait("view.isInView(view.scene.find('query_key_value_merged'))")
