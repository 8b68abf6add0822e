"""The time line in a real Chromium: acts are pointed at, gone to and compared, by pointer and by keys."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.visitor import Open

pytestmark = pytest.mark.browser


def test_an_act_is_pointed_at_compared_and_gone_to_by_pointer_and_by_keys(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    visitor.switch("ChangeTrueDivToMulByInverse")
    visitor.sees_badge("4 sites on")
    page.get_by_role("tab", name="Time line").click()
    line = page.locator(".st-key-act-1-done")
    expect(line).to_be_visible()

    line.hover()
    visitor.wait("view.stage.dataset.word === 'ACT 1' && view.ghosts")
    page.mouse.move(700, 5)
    visitor.wait("!('preview' in view.root.dataset)")

    page.get_by_role("button", name="Compare before and after act 2").click()
    visitor.sees("Act 2 alone: Divide by multiplying at 2 sites")
    of = "view.scene.boxStates?.[view.scene.names.findIndex((name) => name.includes('%s'))]"
    visitor.wait(of % "truediv~" + " === 'removed'")
    visitor.wait(of % "merged" + " === ''")

    page.get_by_role("combobox", name="Compare from").click()
    page.get_by_role("option", name="Compare 0 · The model as it was opened").click()
    visitor.sees("From the original to act 2: At once: ")
    visitor.wait(of % "merged" + " === 'created'")
    page.get_by_role("combobox", name="Compare to").click()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    visitor.sees("Act 1 alone: Merge linears at 2 sites")
    page.get_by_role("button", name="End the comparison of act 1").click()
    expect(page.get_by_role("button", name="End the comparison of act 1")).to_have_count(0)
    visitor.sees_badge("4 sites on")
    visitor.rests()  # the entries are drawn anew, and one of before would lose the focus

    page.get_by_role("button", name="0 · The model as it was opened").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="1 · Merge linears")).to_be_focused()
    visitor.wait("view.stage.dataset.word === 'ACT 1'")
    page.keyboard.press("Enter")
    visitor.sees_badge("2 sites on")
    expect(page.locator(".st-key-act-2-undone")).to_be_visible()
    page.get_by_role("button", name="2 · Divide by").focus()
    page.keyboard.press("Enter")
    visitor.sees_badge("4 sites on")

    page.get_by_role("button", name="Compare before and after act 2").click()
    visitor.sees("Act 2 alone: Divide by multiplying at 2 sites")
    visitor.rests()
    page.reload()
    page.wait_for_function("globalThis.__fxopt?.views?.length === 1")
    visitor.wait(of % "truediv~" + " === 'removed'")
    visitor.wait(of % "merged" + " === ''")
    visitor.sees("Act 2 alone: Divide by multiplying at 2 sites")
