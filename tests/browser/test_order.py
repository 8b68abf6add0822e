"""Passes get another place in the order: by buttons, by keys, and dragged by their letters."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.visitor import Open, Visitor, press

pytestmark = pytest.mark.browser


def test_a_pass_is_moved_keeps_the_focus_and_comes_back_with_undo(visit: Open) -> None:
    visitor = visit()
    later = visitor.page.get_by_role("button", name="Run later: Fold BatchNorm2d")
    later.click()
    visitor.sees("runs 3rd of")
    expect(later).to_be_focused()
    visitor.page.get_by_role("button", name="Undo").click()
    visitor.sees("runs 2nd of")


def grips(visitor: Visitor) -> Locator:
    return visitor.page.locator(".st-key-passes .grip")


def order(visitor: Visitor) -> list[str]:
    """The letters of the passes that have a row, as they are listed."""
    return grips(visitor).all_text_contents()


def drag(visitor: Visitor, letter: str, *, to: float, of: str, drop: bool = True) -> None:
    """Drag a pass by its letter to a height of the row of another one: 0 is its top, 1 its bottom."""
    mouse = visitor.page.mouse
    grip = grips(visitor).filter(has_text=letter).bounding_box()
    row = visitor.page.locator(f"[class*=st-key-pass-{of}-]").bounding_box()
    assert grip
    assert row
    mouse.move(grip["x"] + 5, grip["y"] + 5)
    mouse.down()
    mouse.move(row["x"] + 40, row["y"] + row["height"] * to, steps=5)
    expect(visitor.page.locator(".drop-line")).to_be_visible()
    if drop:
        mouse.up()
        expect(visitor.page.locator(".drop-line")).to_have_count(0)


def test_a_pass_is_dragged_to_another_place_and_comes_back_with_undo(visit: Open) -> None:
    visitor = visit()
    visitor.page.get_by_role("button", name="Sites of Fold BatchNorm2d").click()  # so that all rows are low
    expect(visitor.page.locator("[class*=st-key-pass-][class*=looked-at]")).to_have_count(0)
    first, second, third, fourth, *rest = letters = order(visitor)
    drag(visitor, third, to=0.1, of=first)
    expect(grips(visitor)).to_have_text([third, first, second, fourth, *rest])
    drag(visitor, first, to=0.9, of=fourth)
    expect(grips(visitor)).to_have_text([third, second, fourth, first, *rest])
    press(visitor, "Control+z", "Control+z")
    expect(grips(visitor)).to_have_text(letters)


def test_a_drag_is_left_with_escape_and_to_the_end_it_makes_a_pass_the_last(visit: Open) -> None:
    visitor = visit()
    visitor.page.get_by_role("button", name="Sites of Fold BatchNorm2d").click()
    expect(visitor.page.locator("[class*=st-key-pass-][class*=looked-at]")).to_have_count(0)
    first, second, third, *rest = order(visitor)
    drag(visitor, first, to=0.9, of=third, drop=False)
    press(visitor, "Escape")
    visitor.page.mouse.up()
    expect(visitor.page.locator(".drop-line")).to_have_count(0)
    drag(visitor, second, to=0.9, of=rest[-1])
    expect(grips(visitor)).to_have_text([first, third, *rest, second])


def test_keys_let_a_pass_run_earlier_and_later(visit: Open) -> None:
    visitor = visit()
    press(visitor, "Alt+ArrowDown", "Alt+ArrowDown")
    visitor.sees("runs 4th of")
    press(visitor, "Alt+ArrowUp")
    visitor.sees("runs 3rd of")
