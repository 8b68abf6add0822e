"""Visitors who leave: all that was made for them alone goes, and they find their choices where they come back."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from fxopt import fingerprint
from fxopt.errors import FxoptError
from fxopt.models import ZOO
from fxopt.ui import command, leaving, panel
from fxopt.ui.acts import obey, turn, undo
from fxopt.ui.leaving import Housekeeping, housekeeping
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from fxopt.ui.viewing import select
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
    one.listen("graph", lambda session: select(session, "stem_relu"))
    turn(one, FOLD, None, on=True)
    obey(one)
    assert one.drawn.stale == ["passes"]
    left = weakref.ref(one)
    del one
    assert left() is None


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Housekeeping]:
    """Makes a housekeeping of its own, which looks for idle visitors often."""
    monkeypatch.setattr(leaving, "is_guest", lambda: True)  # the objects of the other tests are left alone
    monkeypatch.setattr(leaving, "is_served_here", lambda: True)  # unless the test says otherwise
    monkeypatch.setattr(leaving, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(leaving, "QUIET_SECONDS", 0.01)
    return Housekeeping


def test_a_failure_ends_nothing_for_the_later_visitors(
    one_thread: Callable[[], Housekeeping], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[float] = []

    def fail(self: Housekeeping, seconds: float) -> int:
        failed.append(seconds)
        raise RuntimeError("Set changed size during iteration")

    monkeypatch.setattr(leaving, "is_served_here", lambda: False)
    monkeypatch.setattr(Housekeeping, "put_away_idle", fail)
    made = one_thread()
    until = time.monotonic() + 30
    while len(failed) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(failed) >= 2, "it looked again"
    one = Session(captured(ZOO[0].key, "", 2, None, ZOO[0]))
    ended: list[str] = []
    one.at_rest["test"] = lambda: ended.append("rests")
    made.left(weakref.ref(one))
    made.wait()
    assert ended == ["rests"]


def test_only_a_server_for_others_lets_idle_sessions_rest(
    one_thread: Callable[[], Housekeeping], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[float] = []
    asked: list[bool] = []

    def is_served_here() -> bool:
        asked.append(True)
        return True

    monkeypatch.setattr(leaving, "is_served_here", is_served_here)
    monkeypatch.setattr(Housekeeping, "put_away_idle", lambda self, seconds: looked.append(seconds))
    one_thread()
    until = time.monotonic() + 30
    while len(asked) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(asked) >= 3
    assert not looked


class Visitor:
    """Stands in for a session that rests."""

    rested, seen = True, 0.0


def test_a_session_that_comes_while_idle_ones_are_looked_for_waits_until_they_are_listed(
    one_thread: Callable[[], Housekeeping],
) -> None:
    made, first, second = one_thread(), Visitor(), Visitor()
    coming = threading.Thread(target=made.knows, args=(second,))

    class Listed(weakref.WeakSet[Visitor]):
        """Lets the second visitor come as the first one is listed."""

        def __iter__(self) -> Iterator[Visitor]:
            for one in super().__iter__():
                if one is first:
                    coming.start()
                    coming.join(0.2)
                yield one

    known = Listed([first])
    made._known = known  # type: ignore[assignment]
    assert made.put_away_idle(1200) == 0
    coming.join(10)
    assert second in known


@pytest.mark.parametrize("text", ["abc", "", "0", "-5", "nan"])
def test_minutes_that_are_none_are_refused_as_the_server_starts(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXOPT_AWAY_MINUTES", text)
    with pytest.raises(FxoptError, match=f"FXOPT_AWAY_MINUTES is '{text}'; give a number of minutes above 0"):
        command.serve(command.Serving(headless=True))


def leave(app: AppTest) -> None:
    """Act as Streamlit where the connection of a tab ends, and wait until it is cleared up."""
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
    turn(one, FOLD, None, on=True)
    one.rest()
    assert one.workbench.is_changed
    app.run()
    assert "4 sites on" in badge(app)
    undo(one)
    assert one.is_restored
