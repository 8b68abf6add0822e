"""One graph on a page of its own: its state, and the places to point at."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

SCRIPT = Path(__file__).parent / "graph_script.py"


class Graph:
    """The one graph on the page: its state, and the places to point at."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_function("globalThis.__fxopt?.views?.length === 1 && __fxopt.views[0].ready")

    def get(self, what: str) -> Any:
        return self.page.evaluate(f"__fxopt.views[0].{what}")

    def wait(self, condition: str) -> None:
        self.page.wait_for_function(f"(view => view.ready && ({condition}))(__fxopt.views[0])")

    def point(self, name: str) -> tuple[float, float]:
        box = self.get(f"nodeRect({name!r})")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def control(self, path: str) -> tuple[float, float]:
        box = self.get(f"controlRect({path!r})")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def click(self, name: str) -> None:
        self.page.mouse.click(*self.point(name))

    def camera(self) -> dict[str, float]:
        return self.page.evaluate("(({x, y, zoom}) => ({x, y, zoom}))(__fxopt.views[0].camera)")

    def says(self, what: str, value: str) -> None:
        expect(self.page.get_by_text(re.compile(f"^{re.escape(f'{what} {value}'.strip())}$"))).to_be_visible()

    def focus(self) -> None:
        self.page.evaluate("__fxopt.views[0].stage.focus()")


OpenGraph = Callable[[str], Graph]
"""Opens the graph of a name in `graph_script.py`."""
