"""Visitors who leave: their sessions rest, and their memory goes back to the system, beside the page.

Streamlit keeps the state of a visitor for two minutes after the connection ended, in case it was the network, and that
of up to 128 of them. A session that rests keeps its choices, and lets go of all that can be made from them again. A
graph of torch.fx is full of reference cycles, which only Python's collector finds. A collection holds up every thread,
the longer the more objects there are; so one is made for all who left, and it passes over the imported libraries.
"""

from __future__ import annotations

import ctypes
import gc
import queue
import sys
import threading
import time
import weakref

import streamlit as st
from streamlit.logger import get_logger

from fxopt.ui.folders import is_served_here
from fxopt.ui.guest import is_guest
from fxopt.ui.session import Session
from fxopt.ui.workshop import minutes_until_rest

QUIET_SECONDS = 1.0
"""Visitors who leave within so long of another one are cleared up after together, most of them as a class ends."""
MOST_AT_ONCE = 32
LOOK_SECONDS = 20.0
"""Idle visitors of a server for others are looked for so often."""

_LOG = get_logger(__name__)


class Housekeeping:
    """Clears up after the visitors who left, in a thread of its own; one for the process."""

    def __init__(self) -> None:
        if not is_guest():  # else the present objects are those of someone who may drop them
            gc.freeze()  # they are modules, classes and functions
        self._idle_seconds = 60 * minutes_until_rest()
        self._looked = time.monotonic()
        self._known: weakref.WeakSet[Session] = weakref.WeakSet()
        self._knowing = threading.Lock()
        """Held while sessions are added or listed: pages are drawn in threads of their own."""
        self._left: queue.Queue[weakref.ref[Session]] = queue.Queue()
        threading.Thread(target=self._run, name="housekeeping", daemon=True).start()

    def knows(self, session: Session) -> None:
        """Take note of a session, whose visitor may stop to act without leaving."""
        with self._knowing:
            self._known.add(session)

    def left(self, session: weakref.ref[Session]) -> None:
        """Take note that the visitor of a session has left. Returns at once."""
        self._left.put(session)

    def wait(self) -> None:
        """Wait until all is cleared up."""
        self._left.join()

    def put_away_idle(self, seconds: float) -> int:
        """Let the sessions rest whose visitors are connected and have done nothing for so long; return their number."""
        now = time.monotonic()
        with self._knowing:
            known = list(self._known)
        idle = [one for one in known if not one.rested and now - one.seen > seconds]
        for session in idle:
            with session.at_work:
                if now - session.seen > seconds:  # they may have come back just now
                    _rest(weakref.ref(session))
                    session.rested = True
        if idle:
            give_back_memory()
        return len(idle)

    def _run(self) -> None:
        while True:
            left = self._next()
            try:
                self._clear_up(left)
            except Exception:  # noqa: BLE001 - all later visitors need this thread; the log tells
                _LOG.exception("fxopt: clearing up after visitors failed; it goes on with the next ones")
            for _ in left:
                self._left.task_done()

    def _clear_up(self, left: list[weakref.ref[Session]]) -> None:
        for session in left:
            _rest(session)
        if left:
            give_back_memory()
        if not is_served_here() and time.monotonic() - self._looked >= LOOK_SECONDS:  # who is alone shares no memory
            self._looked = time.monotonic()
            self.put_away_idle(self._idle_seconds)

    def _next(self) -> list[weakref.ref[Session]]:
        """Return the sessions whose visitors left together; none after a while without one."""
        try:
            left = [self._left.get(timeout=LOOK_SECONDS)]
        except queue.Empty:
            return []
        while len(left) < MOST_AT_ONCE:
            try:
                left.append(self._left.get(timeout=QUIET_SECONDS))
            except queue.Empty:
                break
        return left


def _rest(left: weakref.ref[Session]) -> None:
    session = left()
    if session is not None:
        try:
            session.rest()
        except Exception:  # noqa: BLE001 - the thread clears up after others; the log tells
            _LOG.exception("fxopt: a session whose visitor left could not rest")


def give_back_memory() -> None:
    """Collect garbage cycles, and return free memory to the operating system, where it takes it (glibc)."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class _Visit:
    """The connection of one browser tab. Streamlit ends it in the thread that serves everybody."""

    def __init__(self, housekeeping: Housekeeping) -> None:
        self._housekeeping = housekeeping
        self.session: weakref.ref[Session] | None = None

    def end(self) -> None:
        if self.session is not None:
            self._housekeeping.left(self.session)


@st.cache_resource(show_spinner=False)
def housekeeping() -> Housekeeping:
    return Housekeeping()


@st.cache_resource(scope="session", show_spinner=False, on_release=_Visit.end)
def _visit() -> _Visit:
    return _Visit(housekeeping())


def look_after(session: Session) -> None:
    """Let the session of the visitor whose page is being drawn rest once they leave; they may come back."""
    _visit().session = weakref.ref(session)
    housekeeping().knows(session)
