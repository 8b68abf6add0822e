"""Of a run of some panels alone, Streamlit's AppTest sees these panels alone.

So here the whole page is drawn each time; that panels alone show the same is for the tests in a browser.
"""

from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.ui import costs, graph_panel, latency_tab, panel, site_evidence, site_search, waiting, whole_graph
from fxopt.ui.command import PAGE
from fxopt.ui.one_in_line import Line
from tests.ui.visitor import assert_usable


@pytest.fixture(autouse=True)
def whole_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn_with_the_page(draw: Callable[..., None], key: str) -> Callable[..., None]:
        return draw

    def whole_page_again(panels: Any = None) -> None:
        """The run that follows a callback anyway."""

    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(graph_panel, "HEAD_START_SECONDS", 0)
    monkeypatch.setattr(panel, "fragment", drawn_with_the_page)
    monkeypatch.setattr(panel, "rerun", whole_page_again)


@pytest.fixture(autouse=True)
def own_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test waits for no measurement that another one of this process has left running."""
    line = Line()
    for module in (whole_graph, costs, latency_tab, site_search, site_evidence):
        monkeypatch.setattr(module, "MEASUREMENTS", line)


@pytest.fixture
def app() -> AppTest:
    """The page as it opens."""
    opened = AppTest.from_file(str(PAGE), default_timeout=120).run()
    assert_usable(opened)
    return opened
