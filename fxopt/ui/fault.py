"""Faults: an act that fails leaves the session as it was, and a panel that fails is a message in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.logger import get_logger

from fxopt.errors import FxoptError
from fxopt.ui.markdown import escaped

if TYPE_CHECKING:
    from fxopt.ui.session import Session

_LOG = get_logger(__name__)
_LOOK = (
    "looked_at", "selected", "shown", "together", "unfolded", "revealed", "closed", "gone_to", "gone_at",
    "only_acting", "pointed_at", "listed", "question",
)  # fmt: skip
_COMPLAINTS = "complaints"
MOST_TOLD = 500
FAULT = "could not be drawn"

Look = tuple[object, ...]


def look_of(session: Session) -> Look:
    """Return the state of the page apart from the passes, which are all or nothing by themselves."""
    return tuple(getattr(session, name) for name in _LOOK)


def look_back(session: Session, look: Look) -> bool:
    """Let the visitor look at `look` again; return whether that is another one."""
    changed = look_of(session) != look
    for name, value in zip(_LOOK, look):
        setattr(session, name, value)
    return changed


@contextmanager
def all_or_nothing(session: Session) -> Iterator[None]:
    """Restore the look of the page, and tell the visitor why, if the act in the block fails."""
    look = look_of(session)
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the next run of the page tells of any failure of an act
        look_back(session, look)
        complain(f"**That failed, and nothing was changed.** {_said('an act', error)}")


@contextmanager
def told_in_place(panel: str) -> Iterator[None]:
    """Draw a message where a part of the page fails; the parts after it are drawn as ever."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the message is in place of Streamlit's, which ends the page
        st.error(f"**The {panel} {FAULT}.** {_said(panel, error)}", icon=":material/error:")


def complain(message: str) -> None:
    """Keep a message for the page to show as soon as it is drawn; the same one is shown once."""
    if message:
        st.session_state.setdefault(_COMPLAINTS, {})[message] = None


def show_complaints() -> None:
    """Show the messages that were kept."""
    for message in st.session_state.pop(_COMPLAINTS, ()):
        st.toast(message, icon=":material/error:", duration="long")


def _said(panel: str, error: Exception) -> str:
    _LOG.error("fxopt: %s failed", panel, exc_info=error)
    told = str(error) if isinstance(error, FxoptError) else f"{type(error).__name__}: {error}"
    return escaped(told[:MOST_TOLD])
