"""Someone at the page, for the tests: their acts, and their sight."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import FloatRect, Locator, Page, expect

APP = Path(__file__).parents[2] / "app.py"
FOLD = "FuseBatchNorm2dInConv2d"
"""The page opens on a model with seven batch norms. This pass folds four of them, and two are its near misses."""
MOMENT_MS = 250
TOUR_ENDED = "if (location.protocol === 'http:') localStorage.setItem('fxopt tour', 'ended');"
"""Run in each page of a browser: no tour begins by itself there."""


def settled(part: Locator) -> FloatRect:
    """Wait until the box of a part is the same twice, a moment apart, and return it."""
    deadline, before = time.monotonic() + 60, None
    while time.monotonic() < deadline:
        box = part.bounding_box()
        if box is not None and box == before:
            return box
        before = box
        part.page.wait_for_timeout(MOMENT_MS)
    raise AssertionError(f"a part of the page has no place, or still moves after a minute: {before}")


class Visitor:
    """Someone at the page: their acts, and their sight."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        # The graph comes before the rest: the code of the switches, and the keys, which are the last of the page.
        page.wait_for_function("globalThis.__fxopt?.views?.length === 1 && __fxopt.views[0].ready", timeout=120_000)
        expect(page.get_by_role("switch").first).to_be_visible(timeout=120_000)
        page.wait_for_function("__fxopt.keys", timeout=120_000)

    def switch(self, name: str) -> None:
        """Move the switch of a pass, by the name of its class."""
        self.page.locator(f"{switch_of(name)} label").click()

    def is_on(self, name: str) -> Locator:
        return self.page.locator(switch_of(name)).get_by_role("switch")

    def wait(self, condition: str) -> None:
        self.page.wait_for_function(f"(view => view?.ready && ({condition}))(__fxopt.views[0])", timeout=120_000)

    def rests(self) -> None:
        """Wait until no run of the page has gone on for a moment: the run of an act begins a little after the act."""
        self.page.evaluate(f"restsAt = performance.now() + {MOMENT_MS}")
        self.page.wait_for_function(
            f"""(() => {{
                const rests = document.querySelector("[data-testid=stApp]").dataset.testScriptState === "notRunning"
                    && !document.querySelector("[data-stale=true]");
                if (!rests) restsAt = performance.now() + {MOMENT_MS};
                return performance.now() >= restsAt;
            }})()"""
        )

    def wait_for_marks(self, name: str, *kinds: str) -> None:
        """Until the box that shows `name` has marks of just these kinds."""
        self.wait(
            f"JSON.stringify([...new Set((view.marks.get(view.scene.find({name!r})) ?? []).map(m => m[0]))].sort())"
            f" === JSON.stringify({sorted(kinds)!r})"
        )

    def click_node(self, name: str) -> None:
        box = self.page.evaluate(f"__fxopt.views[0].nodeRect({name!r})")
        self.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)

    def sees(self, text: str) -> None:
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=60_000)

    def sees_badge(self, text: str) -> None:
        expect(self.page.locator(".stMarkdownBadge").first).to_have_text(re.compile(f"{text}$"), timeout=60_000)

    def pick(self, title: str) -> None:
        self.page.get_by_role("combobox", name="Model").click()
        self.page.get_by_role("option", name=title, exact=True).click()


def switch_of(name: str) -> str:
    """The selector of the switch of a pass, which may have a number in front; its label has the name in words."""
    return f':is([class$="-on-{name}"], [class*="-on-{name} "])'


Open = Callable[[], Visitor]
"""Opens the page, and gives someone at it."""


def press(visitor: Visitor, *names: str) -> None:
    for name in names:
        visitor.page.keyboard.press(name)
