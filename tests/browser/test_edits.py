"""Edits by hand as a visitor makes them: the real app.py, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_passes_on_the_page import serious
from tests.browser.visitor import APP, Visitor

pytestmark = pytest.mark.browser


def at_truediv(page: Page, serve: Callable[..., str]) -> Visitor:
    """The small transformer, with the division selected and the form open."""
    visitor = Visitor(page, serve(APP))
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.scene.find('truediv') >= 0")
    page.evaluate("__fxopt.views[0].select(__fxopt.views[0].scene.find('truediv'), 'now')")
    visitor.sees("What the passes say")
    page.get_by_text("Edit by hand").click()
    visitor.rests()  # a field that is filled while its form is drawn loses what was typed
    return visitor


def test_a_constant_is_edited_seen_in_the_outputs_undone_and_restored_bit_for_bit(
    page: Page, serve: Callable[..., str]
) -> None:
    visitor = at_truediv(page, serve)
    field = page.get_by_role("textbox", name="args[1], other")
    expect(field).to_have_value("3.4641016151377544", timeout=60_000)
    field.fill("2.0")
    page.get_by_role("button", name="Apply").click()
    visitor.sees("Undo with Ctrl+Z")
    visitor.sees_badge("1 site on")
    visitor.wait_for_marks("truediv", "applied", "changed", "matched")
    expect(page.get_by_role("switch", name="Set args[1] of truediv to 2.0")).to_be_checked(timeout=60_000)
    page.get_by_role("tab", name="Numerics").click()
    verdict = page.get_by_role("alert").filter(has_text=re.compile("differ|larger|beyond|not explained"))
    expect(verdict.first).to_be_visible(timeout=60_000)
    expect(page.locator(".summary [data-evidence=Numerics]")).to_have_text(re.compile(r"error \d"))
    page.keyboard.press("Control+z")
    visitor.sees_badge("restored, bit for bit")
    expect(page.get_by_role("switch", name="Set args[1] of truediv to 2.0")).to_have_count(0, timeout=60_000)
    expect(page.get_by_role("textbox", name="args[1], other")).to_have_value("3.4641016151377544", timeout=60_000)
    page.keyboard.press("Control+y")
    visitor.sees_badge("1 site on")
    page.get_by_role("button", name="Remove", exact=True).click()
    visitor.sees_badge("restored, bit for bit")


def test_a_refused_edit_says_why_below_the_button_and_keeps_what_was_typed(
    page: Page, serve: Callable[..., str]
) -> None:
    visitor = at_truediv(page, serve)
    field = page.get_by_role("textbox", name="args[1], other")
    field.fill("'four'")
    field.press("Enter")
    visitor.sees("Not applied.")
    expect(field).to_have_value("'four'")
    visitor.sees_badge("original")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_form(page: Page, serve: Callable[..., str], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visitor = at_truediv(page, serve)
    page.get_by_role("textbox", name="args[1], other").fill("2.0")
    page.get_by_role("button", name="Apply").click()
    visitor.sees("Undo with Ctrl+Z")
    page.mouse.move(700, 5)
    assert serious(page) == []
