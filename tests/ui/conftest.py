"""Of a run of some panels alone, Streamlit's AppTest sees what these draw and nothing else of the page.

So here the whole page is drawn each time; that panels alone show the same is for the tests in a browser.
"""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.ui import graph_panel, panel, waiting
from tests.ui.visitor import APP, assert_usable


@pytest.fixture(autouse=True)
def whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn_with_the_page(draw: Callable[..., None], key: str) -> Callable[..., None]:
        return draw

    def whole_page_again(panels: Any = None) -> None:
        """What follows a callback anyway."""

    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(graph_panel, "HEAD_START_SECONDS", 0)
    monkeypatch.setattr(panel, "fragment", drawn_with_the_page)
    monkeypatch.setattr(panel, "rerun", whole_page_again)


@pytest.fixture
def app() -> AppTest:
    """The page as it opens."""
    opened = AppTest.from_file(str(APP), default_timeout=120).run()
    assert_usable(opened)
    return opened
