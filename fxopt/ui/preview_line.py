"""What a pass or a site would do, told and shown in the graph while the visitor points at it. Nothing is applied."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from fxopt.copies import families_of
from fxopt.core import Ledger
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.session import Session
from fxopt.view import Mark
from fxopt.view.marks import MarkKind
from fxopt.workbench import PassState, Sites, Workbench

KEY = "hover"
_ROW = re.compile(r"(pass|sites?) ([A-Z]\d*) ?(.*)")
"""A row as hover.js names it: what it is, the letter of its pass, and its place as it stands in a class."""
_hover = st.components.v2.component(
    "fxopt_hover", js=(Path(__file__).parent / "component" / "hover.js").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Pointed:
    """The row that the visitor points at."""

    row: str
    state: PassState
    sites: Sites

    @property
    def title(self) -> str:
        where = "" if self.sites is None else f" at {counted(len(tuple(self.sites)), 'site')}"
        return self.state.name + where


@dataclass(frozen=True)
class Preview:
    """What would disappear, appear and change, by node names, and by how much parameters and operations would."""

    removed: tuple[str, ...]
    created: tuple[str, ...]
    changed: tuple[str, ...]
    parameters: int
    nodes: int

    @property
    def marks(self) -> list[tuple[str, MarkKind]]:
        kinds: tuple[tuple[MarkKind, tuple[str, ...]], ...] = (
            ("removed", self.removed),
            ("created", self.created),
            ("changed", self.changed),
        )
        return [(name, kind) for kind, names in kinds for name in names]

    def __str__(self) -> str:
        parts = [f"{len(names)} {kind}" for kind, names in (
            ("removed", self.removed), ("changed", self.changed), ("created", self.created),
        ) if names]  # fmt: skip
        weights = f"{_signed(self.parameters)} parameters" if self.parameters else "as many parameters"
        return f"{', '.join(parts) or 'nothing'}; {weights}, {_signed(self.nodes)} nodes"


def _signed(number: int) -> str:
    return f"{number:+,}".replace("-", "−")


def preview_line(session: Session) -> None:
    """Draw the line, and listen for what is pointed at.

    It is no fragment: Streamlit sends what happens at once together, and a click that came with the request of a
    fragment would run that fragment alone.
    """
    pointed = _pointed(session)
    told, marks = "Point at a pass or a site: the graph shows what it would do.", None
    if pointed is not None:
        key = (session.workbench.choices, pointed.state.name, pointed.sites)
        preview = session.remember("preview", key, lambda: preview_of(session.workbench, pointed.state, pointed.sites))
        number = [pass_.name for pass_ in session.workbench.passes].index(pointed.state.name)
        if preview is None:
            told = f"**{escaped(pointed.title)}** is on."
        else:
            told = f"**{escaped(pointed.title)}** would do: {escaped(str(preview))}."
            marks = [[name, Mark(kind, number).kind, number] for name, kind in preview.marks]
    with st.container(gap=None, key="preview"):
        st.caption(told)
        data = {
            "over": pointed.row if pointed is not None else "",
            "marks": marks,
            "styles": [[style.name, style.letter, style.color] for style in session.styles.values()],
        }
        _hover(key=KEY, data=data, on_over_change=lambda: _remember_where(session))


def _remember_where(session: Session) -> None:
    row = (st.session_state.get(KEY) or {}).get("over", "")
    session.pointed_at = (row, session.workbench.choices)


def _pointed(session: Session) -> Pointed | None:
    """What is pointed at; nothing once the graph has changed, until the visitor points anew."""
    row, choices = session.pointed_at
    found = _ROW.fullmatch(row)
    if found is None or choices != session.workbench.choices:
        return None
    what, letter, place = found.groups()
    for state in session.workbench.states:
        if session.styles[state.name].letter != letter:
            continue
        if what == "pass":
            return Pointed(row, state, None) if state.sites else None
        for family in families_of(session.view_of("Original"), state.sites):
            if what == "sites" and _as_class(family.place) == place:
                return Pointed(row, state, family.names)
            for name in family.names:
                if what == "site" and _as_class(name) == place:
                    return Pointed(row, state, (name,))
    return None


def _as_class(name: str) -> str:
    """`name` as it stands in the class of a container with a key."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", name)


def preview_of(wb: Workbench, state: PassState, sites: Sites) -> Preview | None:
    """What switching `state`'s pass on, or some sites of it, would do; None where it is on."""
    choices = wb.with_(state.pass_, sites, on=True)
    if choices == wb.choices:
        return None
    trial = wb.trial(choices)
    before = {entry.id for entry in Ledger.entries_of(wb.current)}
    patches = [entry.patch for entry in Ledger.entries_of(trial) if entry.id not in before]
    return Preview(
        tuple(name for patch in patches for name in patch.removed),
        tuple(name for patch in patches for name in patch.created),
        tuple(name for patch in patches for name in patch.changed),
        sum(p.numel() for p in trial.parameters()) - sum(p.numel() for p in wb.current.parameters()),
        len(trial.graph.nodes) - len(wb.current.graph.nodes),
    )
