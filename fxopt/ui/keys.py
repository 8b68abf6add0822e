"""The keys of the page: the act of each, and the sheet that lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from fxopt.ui import events
from fxopt.ui.acts import move, place, redo, switch_current, undo
from fxopt.ui.address import step_to
from fxopt.ui.events import news, sent_by
from fxopt.ui.fault import complain
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.going import step_site
from fxopt.ui.modules import joined
from fxopt.ui.panel import panel, redraw
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.viewing import step_pass

KEY = "keys"

_keys = st.components.v2.component("fxopt_keys", js=joined("keys"))

_ACTS: dict[str, Callable[[Session], None]] = {
    "ArrowUp": partial(step_pass, by=-1),
    "ArrowDown": partial(step_pass, by=1),
    "ArrowLeft": partial(step_site, by=-1),
    "ArrowRight": partial(step_site, by=1),
    "f": partial(step_pass, by=1, acting=True),
    "r": partial(step_pass, by=-1, acting=True),
    "Enter": switch_current,
    "undo": undo,
    "redo": redo,
    "earlier": lambda session: move(session, session.view.looked_at, -1),
    "later": lambda session: move(session, session.view.looked_at, 1),
}
_EVERYWHERE = ("?", "step")
"""The acts on the page as a whole, whichever model is open."""

SHEETS = {
    "Passes": (
        ("↑ ↓", "previous, next pass"),
        ("← →", "previous, next site of the pass, then its near misses"),
        ("f  r", "next, previous pass that acts here"),
        ("Enter", "switch the selected site, or the pass where none is selected"),
        ("Alt+↑  Alt+↓", "let the pass run earlier, later; or drag it by its letter"),
        ("Ctrl+Z  Ctrl+Y", "undo, redo"),
    ),
    "In the graph, once it has the focus": (
        ("↑ ↓", "follow the data to an input, to a user"),
        ("← →", "along a row"),
        ("Enter", "open a module; Shift+Enter folds the one around"),
        ("+ − 0", "closer, farther, first view"),
        ("wheel  drag", "move the picture; two fingers do as well"),
        ("Ctrl+wheel  pinch", "closer, farther, at the pointer"),
        ("Delete", "delete the selected node; its users read its input"),
        ("Shift+F10", "the edits of the node or edge, as the right button does"),
        ("e  E", "next, previous edge of the selected node; Enter opens its menu, ↑ ↓ go to its ends"),
        ("y", "copy the name of the selected node"),
        ("p , .", "in Diff: play the rewrite or pause, one site back, one site forward"),
        ("Esc", "select nothing"),
    ),
    "Everywhere": (
        ("Tab", "first the links to the graph, the passes, the inspector and the evidence"),
        ("/", "find nodes; Enter goes to the next, Shift+Enter to the previous"),
        ("Space", "the whole graph"),
        ("g", "the generated code, and back to the graph"),
        ("?", "this sheet"),
    ),
}


@dataclass
class Heard(events.Heard):
    """The keys heard so far, and how often the sheet was asked for, and shown."""

    sheets: int = 0
    shown: int = 0


def keys_panel(session: Session) -> None:
    """Listen for keys, and show the sheet if it was asked for."""
    panel(session, "keys panel", _draw, lambda session: (_heard().number, _heard().sheets))


def _draw(session: Session) -> None:
    session.listen("keys", _obey)
    heard = _heard()
    data = {"session": session.identity, "heard": heard.number}
    _keys(key=KEY, data=data, on_pressed_change=partial(redraw, session))
    if heard.shown != heard.sheets:
        heard.shown = heard.sheets
        _sheet()


def ask_for_sheet() -> None:
    _heard().sheets += 1


def _heard() -> Heard:
    heard: Heard = st.session_state.setdefault("heard", Heard())
    return heard


def _obey(session: Session) -> None:
    """Apply the presses since the last run."""
    complain(act(session, _heard(), sent_by(KEY, "pressed"), presence(grace=0)))


def act(session: Session, heard: Heard, message: Any, is_here: Callable[[], bool] = lambda: True) -> str:
    """Apply the unheard presses in a message, ``[number, key]``, for as long as the visitor `is_here`.

    An act ``[number, "step", search]`` tells of a step back or forward, to an address with these parameters.

    Returns:
        the complaint about refused presses; empty if all were applied.
    """
    told = news(message, heard.number, session.identity, _EVERYWHERE)
    for number, key, about in told.acts:
        if not is_here():
            return ""
        heard.number = number
        if key == "?":
            heard.sheets += 1
        elif key in _ACTS:
            _ACTS[key](session)
        elif key == "step":
            step_to(about)
        elif key.startswith("move "):
            _place(session, *key.split()[1:3])
    return heard.end(told)


def _place(session: Session, letter: str = "", before: str = "") -> None:
    """Move a pass that was dragged by its letter to before another one, or to the end of the list."""
    names = {style.letter: name for name, style in session.styles.items()}
    if letter in names and (not before or before in names):
        place(session, names[letter], names.get(before, ""))


@st.dialog("Keys and words", width="large")
def _sheet() -> None:
    st.html(f'<div class="key-sheet">{"".join(map(_section, SHEETS))}{_words()}</div>')
    if st.button("Take the tour of this page", key="tour again"):  # the browser, which hears the click, begins it
        st.rerun()


def _words() -> str:
    lines = "".join(f"<dt>{word}</dt><dd>{told}</dd>" for word, told in GLOSSARY.items())
    return f'<section class="words"><h3>Words of this page</h3><dl>{lines}</dl></section>'


def _section(title: str) -> str:
    lines = "".join(
        f"<dt>{' '.join(f'<kbd>{key}</kbd>' for key in names.split())}</dt><dd>{told}</dd>"
        for names, told in SHEETS[title]
    )
    return f"<section><h3>{title}</h3><dl>{lines}</dl></section>"
