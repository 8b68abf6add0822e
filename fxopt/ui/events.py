"""Validation of the values that components send: a browser may send any JSON, of any size.

A message is ``{"session": identity, "acts": [[number, kind, name], ...]}``. It names the session that the visitor saw
when they acted (`Session.identity`): another model may have opened meanwhile, in which the same names are others.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import streamlit as st

MOST_ACTS = 64
"""Acts of one message that are obeyed. The components keep at most so many unanswered (`MOST_WAITING` in pane.js and
keys.js), so only a client of another make sends more."""
MOST_TEXT = 5000
"""Characters of a name in a message; also of the parameters of an address."""
FURTHEST = 2**31
"""The furthest that the number of an act may lie beyond that of the act before. JavaScript counts exactly up to 2**53,
so a single message is far from using the numbers up."""


class Act(NamedTuple):
    """One act of the visitor: its number, its kind or key, and the name it is about."""

    number: int
    kind: str
    name: str = ""


@dataclass(frozen=True)
class News:
    """The acts of a message that are new, well formed, and of this session."""

    acts: tuple[Act, ...]
    last: int
    """The number of the last act of the message: those up to it are answered, also where they were left or refused."""
    refused: int = 0
    """The number of entries that are not acts, or exceed the limit."""

    @property
    def complaint(self) -> str:
        """The sentence to show if a part of the message was refused; empty otherwise."""
        if not self.refused:
            return ""
        return f"{self.refused:,} entries of a message from the browser were ignored: they are no acts, or too many."


@dataclass
class Heard:
    """The acts in a component that were obeyed."""

    number: int = 0
    """The number of the last one."""
    complaint: str = ""
    """The complaint about the message that the browser sent last; it is made once."""

    def end(self, told: News) -> str:
        """Record that the message is obeyed to its end; return the complaint about it, if it is to be made now."""
        self.number = told.last
        before, self.complaint = self.complaint, told.complaint
        return told.complaint if told.complaint != before else ""


def sent_by(key: str, entry: str) -> Any:
    """Return the `entry` of the component `key` as the browser sent it; None if it is missing."""
    state = st.session_state.get(key)
    return state.get(entry) if isinstance(state, Mapping) else None


def news(message: Any, heard: int, session: str, everywhere: Container[str] = ()) -> News:
    """Return the acts in a message beyond the number `heard`. Those of another session than `session` are left.

    `everywhere` are the kinds that do not depend on the session: they are obeyed in any.

    >>> acts = [[1, "fold", "a"], [2, "select", None], [3, 4, "b"], "x"]
    >>> news({"session": "s", "acts": acts}, heard=1, session="s")
    News(acts=(Act(number=2, kind='select', name=''),), last=2, refused=2)
    >>> news({"session": "s", "acts": acts}, heard=1, session="t")
    News(acts=(), last=2, refused=2)
    """
    if message is None:
        return News((), heard)
    of, sent = (message.get("session"), message.get("acts")) if isinstance(message, Mapping) else (None, None)
    if not isinstance(sent, list | tuple):
        return News((), heard, refused=1)
    acts: list[Act] = []
    refused, last = 0, heard
    for entry in islice(sent, 2 * MOST_ACTS):
        act = _act(entry)
        if act is None or act.number > heard + FURTHEST:
            refused += 1
        elif act.number > last:
            last = act.number
            acts.append(act)
    left, end = len(sent) - 2 * MOST_ACTS, _act(sent[-1]) if sent else None
    if left > 0 and end is not None and last < end.number <= heard + FURTHEST:
        last = end.number
    elif end is not None and end.number <= heard:
        left = 0  # they were answered before; the browser still has to hear of it
    more = max(len(acts) - MOST_ACTS, 0) + max(left, 0)
    here = tuple(act for act in acts[:MOST_ACTS] if of == session or act.kind in everywhere)
    return News(here, last, refused + more)


def _act(entry: Any) -> Act | None:
    if not isinstance(entry, list | tuple) or not 2 <= len(entry) <= 3:
        return None
    number, kind, name = (*entry, None)[:3]
    if type(number) is not int or number <= 0:
        return None
    if not isinstance(kind, str) or not isinstance(name, str | None) or len(kind) + len(name or "") > MOST_TEXT:
        return None
    return Act(number, kind, name or "")
