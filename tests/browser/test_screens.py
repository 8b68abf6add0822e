"""The page looks as its kept pictures do (`assets/screens`): a panel that has moved is found, other letters are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser

from tests.browser.screens import FOLDER, picture_of
from tests.browser.states import COMPARED, README, STATES
from tests.browser.visitor import APP

CELL = 8
"""The side in pixels of the cells that are compared by their mean gray, which letters of other shapes hardly change."""
APART = 20
"""Of 255, from which two cells differ."""
MOST = 0.025
"""The largest share of cells that may differ: figures of time are never the same."""


def differing(one: Image.Image, other: Image.Image) -> float:
    """Return the share of cells that differ."""
    size = one.width // CELL, one.height // CELL
    small = [picture.convert("L").resize(size, Image.Resampling.BOX) for picture in (one, other)]
    cells = ImageChops.difference(*small).tobytes()
    return sum(cell > APART for cell in cells) / len(cells)


@pytest.fixture
def kept() -> Image.Image:
    return Image.open(FOLDER / "open-light.png").convert("RGB")


def test_a_panel_that_has_moved_is_a_difference(kept: Image.Image) -> None:
    for left, right, by in ((0, 355, 24), (380, 1060, 16), (1120, 1440, 24)):
        moved = kept.copy()
        moved.paste(kept.crop((left, 50, right, 850)), (left, 50 + by))
        assert differing(kept, moved) > MOST, f"the panel at {left} has moved by {by} pixels"


def test_a_picture_is_like_itself_and_unlike_any_other_state(kept: Image.Image) -> None:
    assert differing(kept, kept) == 0
    for state in set(COMPARED) - {"open"}:
        assert differing(kept, Image.open(FOLDER / f"{state}-light.png").convert("RGB")) > MOST, state


def test_each_state_has_its_pictures() -> None:
    names = {f"{state}-{theme}.png" for state in set(STATES) - {README} for theme in ("light", "dark")}
    assert names <= {file.name for file in FOLDER.iterdir()}


@pytest.mark.browser
@pytest.mark.parametrize(("state", "theme"), [*((state, "light") for state in COMPARED), ("open", "dark")])
def test_the_page_looks_as_it_did(
    browser: Browser, serve: Callable[..., str], state: str, theme: str, tmp_path: Path
) -> None:
    picture = picture_of(browser, serve(APP), state, theme)
    picture.save(tmp_path / "now.png")
    kept = Image.open(FOLDER / f"{state}-{theme}.png").convert("RGB")
    told = f"{state} in {theme}: see {tmp_path / 'now.png'}; where it is meant to look so, make the pictures anew"
    assert differing(kept, picture) <= MOST, told
