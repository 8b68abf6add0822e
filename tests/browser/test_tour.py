"""The tour of a visitor's first page: five stops on real controls, by keys as well, and never again once it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.test_passes_on_the_page import serious
from tests.browser.visitor import APP, Visitor

pytestmark = pytest.mark.browser

FRAMES = "(n) => new Promise((done) => { const next = () => (n-- ? requestAnimationFrame(next) : done()); next(); })"
"""Resolves after n pictures of the screen."""


@pytest.fixture
def newcomer(browser: Browser) -> Iterator[Page]:
    """A page of a browser that was never here, dark, and small."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, reduced_motion="reduce", color_scheme="dark")
    yield context.new_page()
    context.close()


def apart(card: Locator, control: str) -> bool:
    """Whether a card leaves free the control that it speaks of."""
    told: bool = card.evaluate(
        """(card, control) => {
            const [a, b] = [card, document.querySelector(control)].map((one) => one.getBoundingClientRect());
            return a.left >= b.right || a.right <= b.left || a.top >= b.bottom || a.bottom <= b.top;
        }""",
        control,
    )
    return told


def test_the_tour_leads_to_five_controls_and_ends_for_good(newcomer: Page, serve: Callable[..., str]) -> None:
    page = newcomer
    visitor = Visitor(page, serve(APP))
    card, stage = page.locator(".tour"), page.locator(".fx-stage")
    expect(card).to_contain_text("1 of 5")
    expect(card.get_by_role("status")).to_contain_text("Tour, stop 1 of 5. Passes")
    expect(page.locator(".lesson-outline")).to_be_visible()
    page.get_by_role("button", name="What would each bring?").wait_for()  # the inspector is there as a whole
    assert serious(page) == []
    page.get_by_role("separator", name="Width of the inspector").click()
    page.get_by_role("button", name="Go to the evidence").focus()
    for _ in range(3):  # over its first two buttons, and the one that leads back has nowhere to lead yet
        page.keyboard.press("Tab")
        if card.get_by_role("button", name="Next").evaluate("(one) => one === document.activeElement"):
            break
    expect(card.get_by_role("button", name="Next")).to_be_focused()
    for number, control in enumerate(
        ("", ".fx-stage", ".st-key-shown", ".st-key-inspected", '.st-key-drawer [role="tablist"]')
    ):
        expect(card).to_contain_text(f"{number + 1} of 5")
        if number == 1:
            outlined, drawn = page.locator(".lesson-outline").bounding_box(), page.locator(".fx-stage").bounding_box()
            assert outlined is not None
            assert drawn is not None
            assert outlined["x"] == pytest.approx(drawn["x"], abs=6)
            assert outlined["height"] == pytest.approx(drawn["height"], abs=12)
        elif control:
            assert apart(card, control), control
        if number < 4:
            page.keyboard.press("ArrowRight")
    expect(page.locator(".st-key-inspected")).to_be_visible()
    page.keyboard.press("Enter")
    expect(card).to_have_count(0)
    page.wait_for_function("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")
    page.reload()
    expect(page.get_by_role("switch").first).to_be_visible(timeout=120_000)
    page.wait_for_function("__fxopt.keys && __fxopt.views[0]?.ready")
    page.evaluate(FRAMES, 40)
    expect(card).to_have_count(0)
    stage.focus()
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Take the tour of this page").click()
    expect(card).to_contain_text("1 of 5")
    expect(page.get_by_role("dialog", name="Keys and words")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(card).to_have_count(0)
    visitor.switch("FoldBatchNorm")
    visitor.sees_badge("5 sites on")
