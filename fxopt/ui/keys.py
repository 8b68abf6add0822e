"""The keys of the page: what each does, and the sheet that lists them."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any

import streamlit as st

from fxopt.ui.session import Session

KEY = "keys"
HEARD = "keys heard"
SHEET = "keys sheet"

_keys = st.components.v2.component(
    "fxopt_keys", js=(Path(__file__).parent / "component" / "keys.js").read_text(encoding="utf-8")
)

_ACTS: dict[str, Callable[[Session], None]] = {
    "ArrowUp": lambda session: session.step_pass(-1),
    "ArrowDown": lambda session: session.step_pass(1),
    "ArrowLeft": lambda session: session.step_site(-1),
    "ArrowRight": lambda session: session.step_site(1),
    "f": lambda session: session.step_pass(1, acting=True),
    "r": lambda session: session.step_pass(-1, acting=True),
    "Enter": Session.switch_current,
    "undo": Session.undo,
    "redo": Session.redo,
}

SHEETS = {
    "Passes": (
        ("↑ ↓", "previous, next pass"),
        ("← →", "previous, next site of the pass, then its near misses"),
        ("f  r", "next, previous pass that acts here"),
        ("Enter", "switch the selected site, or the pass where none is selected"),
        ("Ctrl+Z  Ctrl+Y", "undo, redo"),
    ),
    "In the graph, once it has the focus": (
        ("↑ ↓", "follow the data to an input, to a user"),
        ("← →", "along a row"),
        ("Enter", "open a module; Shift+Enter folds the one around"),
        ("+ − 0", "closer, farther, first view"),
        ("y", "copy the name of the selected node"),
        ("Esc", "select nothing"),
    ),
    "Everywhere": (
        ("/", "find nodes; Enter goes to the next, Shift+Enter to the previous"),
        ("Space", "the whole graph"),
        ("g", "the generated code, and back to the graph"),
        ("?", "this sheet"),
    ),
}


def keys(session: Session) -> None:
    """Listen for keys, and show the sheet where it was asked for. Draws nothing else."""
    _keys(key=KEY, data={"heard": st.session_state.get(HEARD, 0)}, on_pressed_change=_heard(session))
    if st.session_state.pop(SHEET, False):
        _sheet()


def ask_for_sheet() -> None:
    st.session_state[SHEET] = True


def _heard(session: Session) -> Callable[[], None]:
    return lambda: act(session, st.session_state)  # type: ignore[arg-type]


def act(session: Session, state: MutableMapping[str, Any]) -> None:
    """Do what the presses in `state` say that were not heard before."""
    for number, key in (state.get(KEY) or {}).get("pressed") or ():
        if number <= state.get(HEARD, 0):
            continue
        state[HEARD] = number
        if key == "?":
            state[SHEET] = True
        elif key in _ACTS:
            _ACTS[key](session)


@st.dialog("Keys", width="large")
def _sheet() -> None:
    st.html(f'<div class="key-sheet">{"".join(map(_section, SHEETS))}</div>')


def _section(title: str) -> str:
    lines = "".join(
        f"<dt>{' '.join(f'<kbd>{key}</kbd>' for key in names.split())}</dt><dd>{told}</dd>"
        for names, told in SHEETS[title]
    )
    return f"<section><h3>{title}</h3><dl>{lines}</dl></section>"
