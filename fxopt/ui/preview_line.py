"""Preview of a pass or site, in words and in the graph, while the visitor points at it; the graph stays as it is."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

import streamlit as st

from fxopt.edits import Edit
from fxopt.ui.events import MOST_TEXT, sent_by
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.modules import joined
from fxopt.ui.panel import acting, panel
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class
from fxopt.view import Mark
from fxopt.view.marks import MarkKind
from fxopt.workbench import PassState, Sites
from fxopt.workbench.copies import families_of
from fxopt.workbench.preview import Preview, preview
from fxopt.workbench.timeline import Act

KEY = "hover"
_ACT = re.compile(r"act (\d{1,9})")
"""A line of the time line, as hover.js names it."""
_ROW = re.compile(r"(pass|sites?) ([A-Z]\d*) ?(.*)")
"""A row as hover.js names it: its kind, the letter of its pass, and its place, as in a class name."""
_hover = st.components.v2.component("fxopt_hover", js=joined("hover"))


@dataclass(frozen=True)
class Pointed:
    """The row that the visitor points at."""

    row: str
    state: PassState
    sites: Sites

    @property
    def title(self) -> str:
        where = "" if self.sites is None else f" at {counted(len(tuple(self.sites)), 'site')}"
        return (self.state.name if isinstance(self.state.pass_, Edit) else self.state.pass_.label) + where


def _marks_of(preview: Preview | Act) -> list[tuple[str, MarkKind]]:
    kinds: tuple[tuple[MarkKind, tuple[str, ...]], ...] = (
        ("removed", preview.removed),
        ("created", preview.created),
        ("changed", preview.changed),
    )
    return [(name, kind) for kind, names in kinds for name in names]


def preview_line(session: Session) -> None:
    """Draw the line, and listen for the row under the pointer."""
    panel(session, "preview panel", _draw, lambda session: (session.view.pointed_at, session.workbench.choices))


def _draw(session: Session) -> None:
    pointed = _pointed(session)
    told, marks = "Point at a pass or a site: the graph shows what it would do.", None
    if pointed is not None:
        key = (session.workbench.choices, pointed.state.name, pointed.sites)
        shown = session.memo.remember(
            "preview", key, lambda: preview(session.workbench, pointed.state.pass_, pointed.sites)
        )
        number = list(session.styles).index(pointed.state.name)
        act = "would change nothing" if shown.is_empty else escaped(_sentence(shown))
        told = f"**{escaped(pointed.title)}** {act if shown.turns_on else f'is on; turned off, it {act}'}."
        marks = [[name, Mark(kind, number).kind, number] for name, kind in _marks_of(shown)]
    past, word = _act_pointed(session), "PREVIEW"
    if past is not None:
        row = session.view.pointed_at[0]
        kinds = _marks_of(past)
        number = min((list(session.styles).index(name) for name, _ in (*past.came, *past.went)), default=0)
        told, word = f"**{row.capitalize()}** {escaped(past.sentence)}: {_counts(kinds)}.", row.upper()
        marks = [[name, kind, number] for name, kind in kinds]
    with st.container(gap=None, key="preview"):
        st.caption(told)
        data = {
            "over": session.view.pointed_at[0] if pointed is not None or past is not None else "",
            "word": word,
            "marks": marks,
            "styles": [[style.name, style.letter, style.color] for style in session.styles.values()],
        }
        _hover(key=KEY, data=data, on_over_change=acting(session, partial(_remember_where, session)))


def _sentence(shown: Preview) -> str:
    """Return the effect of a switch as the rest of a sentence.

    >>> _sentence(Preview("FoldBatchNorm", None, True, removed=("a", "b"), changed=("c",), ops_delta=-2))
    'would remove 2 nodes and change 1: −2 operations'
    """
    kinds = [("remove", shown.removed), ("create", shown.created), ("change", shown.changed)]
    acts = [f"{verb} {len(names):,}" for verb, names in kinds if names]
    acts[0] += " node" if acts[0].endswith(" 1") else " nodes"
    told = f"would {' and '.join(filter(None, (', '.join(acts[:-1]), acts[-1])))}"
    return ": ".join(filter(None, (told, shown.sizes)))


def _remember_where(session: Session) -> None:
    sent = sent_by(KEY, "over")
    row = sent if isinstance(sent, str) and len(sent) <= MOST_TEXT else ""
    session.view = replace(session.view, pointed_at=(row, session.workbench.choices))


def _act_pointed(session: Session) -> Act | None:
    """Return the act of the time line under the pointer."""
    row, choices = session.view.pointed_at
    found, acts = _ACT.fullmatch(row), session.workbench.acts
    if found is None or choices != session.workbench.choices:
        return None
    return next(iter(acts[int(found[1]) - 1 : int(found[1])]), None) if int(found[1]) else None


def _counts(kinds: list[tuple[str, MarkKind]]) -> str:
    """Return the counts of marked nodes in words."""
    found = Counter(kind for _, kind in kinds)
    return ", ".join(f"{count} {kind}" for kind, count in found.items()) or "no node differs by it"


def _pointed(session: Session) -> Pointed | None:
    """Return the row under the pointer; None after a change of the graph, until the visitor points anew."""
    row, choices = session.view.pointed_at
    found = _ROW.fullmatch(row)
    if found is None or choices != session.workbench.choices:
        return None
    scope, letter, place = found.groups()
    for state in session.workbench.states:
        if session.styles[state.name].letter != letter:
            continue
        if scope == "pass":
            return Pointed(row, state, None) if state.sites else None
        for family in families_of(session.opened.view, state.sites):
            if scope == "sites" and as_class(family.place) == place:
                return Pointed(row, state, family.names)
            for name in family.names:
                if scope == "site" and as_class(name) == place:
                    return Pointed(row, state, (name,))
    return None
