"""Faults: an act that fails leaves the session as it was, and a panel that fails is a message in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.logger import get_logger

from fxopt.errors import FxoptError
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session
from fxopt.ui.unreadable import drop_unreadable

_LOG = get_logger(__name__)
_COMPLAINTS = "complaints"
MOST_TOLD = 500
FAULT = "could not be drawn"
_rerun: Callable[[], None] = st.rerun  # outside of a run it returns
UNREADABLE = "**Values from the browser could not be read, and were ignored.** All is as it was."


@contextmanager
def all_or_nothing(session: Session) -> Iterator[None]:
    """Restore the view state, and tell the visitor why, if the act in the block fails.

    The passes are all or nothing by themselves.
    """
    before = session.view
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the next run of the page tells of any failure of an act
        session.view = before
        complain(f"**That failed, and nothing was changed.** {_said('an act', error)}")


@contextmanager
def told_in_place(panel: str) -> Iterator[None]:
    """Draw a message where a part of the page fails; the parts after it are drawn as ever."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the message is in place of Streamlit's, which ends the page
        redraw_if_unreadable(error)
        st.error(f"**The {panel} {FAULT}.** {_said(panel, error)}", icon=":material/error:")


def redraw_if_unreadable(error: Exception) -> bool:
    """Ignore values that could not be read, tell the visitor and draw the page again; return whether there were any.

    Streamlit calls this for each error that ends a run, and shows the error itself where the answer is False.
    """
    if not drop_unreadable():
        return False
    _LOG.warning("fxopt: a browser sent values that could not be read: %s: %s", type(error).__name__, error)
    complain(UNREADABLE)
    _rerun()
    return True


def complain(message: str) -> None:
    """Keep a message for the page to show as soon as it is drawn; the same one is shown once."""
    if message:
        st.session_state.setdefault(_COMPLAINTS, {})[message] = None


def show_complaints() -> None:
    """Show the messages that were kept; where a newer act ends this run before, the next one shows them."""
    kept = st.session_state.get(_COMPLAINTS, {})
    for message in list(kept):
        st.toast(message, icon=":material/error:", duration="long")
        kept.pop(message, None)


def _said(panel: str, error: Exception) -> str:
    _LOG.error("fxopt: %s failed", panel, exc_info=error)
    told = str(error) if isinstance(error, FxoptError) else f"{type(error).__name__}: {error}"
    return escaped(told[:MOST_TOLD])
