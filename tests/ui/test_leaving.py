"""Visitors who leave: what was made for them alone goes, and they find all they chose where they come back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from fxopt import fingerprint
from fxopt.models import ZOO
from fxopt.ui import panel
from fxopt.ui.leaving import housekeeping
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from tests.ui.visitor import FOLD, assert_usable, badge, session, switch


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_a_session_that_nobody_holds_is_gone_at_once() -> None:
    one = Session(captured(ZOO[0].key, "", 2, None, ZOO[0]))
    panel._drawn(one, "passes", lambda _: None, lambda session: session.workbench.choices)
    one.listen("graph", lambda session: session.select("stem_relu"))
    one.turn(FOLD, None, on=True)
    one.obey()
    assert one.drawn.stale == ["passes"]
    left = weakref.ref(one)
    del one
    assert left() is None


def leave(app: AppTest) -> None:
    """Do what Streamlit does when the connection of a tab ends, and wait until it is cleared up."""
    clear_session_resource_cache("test session id")
    housekeeping().wait()


def test_who_leaves_lets_go_of_the_graph_and_finds_everything_on_coming_back(app: AppTest) -> None:
    switch(app, FOLD, True)
    before, told = fingerprint(session(app).workbench.current), badge(app)
    graph = weakref.ref(session(app).workbench.current)
    leave(app)
    assert graph() is None
    app.run()
    assert_usable(app)
    assert badge(app) == told
    assert fingerprint(session(app).workbench.current) == before
    switch(app, FOLD, False)
    assert "restored" in badge(app)


def test_who_leaves_and_stays_away_leaves_the_others_as_they_are(app: AppTest) -> None:
    switch(app, FOLD, True)
    one = Session(session(app).opened)
    one.turn(FOLD, None, on=True)
    one.rest()
    assert one.workbench.is_changed
    app.run()
    assert "4 sites on" in badge(app)
    one.undo()
    assert one.is_restored
