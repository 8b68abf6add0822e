"""Of a run of some panels alone, Streamlit's AppTest sees what these draw and nothing else of the page.

So here the whole page is drawn each time; that panels alone show the same is for the tests in a browser.
"""

from collections.abc import Callable
from typing import Any

import pytest

from fxopt.ui import panel, waiting, workplace


@pytest.fixture(autouse=True)
def whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn_with_the_page(draw: Callable[..., None], key: str) -> Callable[..., None]:
        return draw

    def whole_page_again(panels: Any = None) -> None:
        """What follows a callback anyway."""

    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(workplace, "HEAD_START_SECONDS", 0)
    monkeypatch.setattr(panel, "fragment", drawn_with_the_page)
    monkeypatch.setattr(panel, "rerun", whole_page_again)
