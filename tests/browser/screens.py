"""Make the pictures of all states in both themes: ``python -m tests.browser.screens [folder] [states ...]``."""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.browser.chromium import CHROMIUM, CHROMIUM_OPTIONS
from tests.browser.serving import ROOT, served
from tests.browser.states import README, SETTLED_MS, STATES, WINDOW
from tests.browser.visitor import APP, TOUR_ENDED, Visitor

FOLDER = ROOT / "assets" / "screens"
COLORS = 128
"""So many tell the states apart, and make the files small."""


def picture_of(browser: Browser, url: str, state: str, theme: str) -> Image.Image:
    """Return the page in a state, as a new visitor comes to it."""
    context = browser.new_context(viewport=WINDOW, reduced_motion="reduce", color_scheme=theme)  # type: ignore[arg-type]
    try:
        context.add_init_script(TOUR_ENDED)
        page = context.new_page()
        STATES[state](Visitor(page, url))
        page.wait_for_function("!document.querySelector('[data-stale=true]')")
        page.wait_for_function("__fxopt.views.every((view) => view?.ready)")
        page.wait_for_timeout(SETTLED_MS)
        return Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    finally:
        context.close()


def main(folder: str = str(FOLDER), *states: str) -> None:
    """Save a picture of each state, or of these. That of the README is light, and stands beside the folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as logs, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        with served(APP, log=Path(logs) / "log.txt") as url:
            for theme in ("light", "dark"):
                for state in states or STATES:
                    if (state, theme) == (README, "dark"):
                        continue
                    file = f"../{README}.png" if state == README else f"{state}-{theme}.png"
                    picture = picture_of(browser, url, state, theme)
                    picture.quantize(COLORS).save(Path(folder) / file, optimize=True)
                    sys.stdout.write(f"{state}-{theme}\n")
                    sys.stdout.flush()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
