"""The list of passes as plain data: their rows in the order in which they run, for the browser to draw."""

from __future__ import annotations

from typing import Any

from fxopt.core import Pass
from fxopt.edits import Edit
from fxopt.passes import APPROXIMATE_PASSES, others_installed
from fxopt.ui.edit_list import described_edit
from fxopt.ui.markdown import counted, sendable
from fxopt.ui.pass_line import line_in_signs, line_in_words
from fxopt.ui.question import question_about
from fxopt.ui.session import Session
from fxopt.ui.site_list import FEW, described_sites, described_switch
from fxopt.ui.switches import as_class
from fxopt.view import PassStyle
from fxopt.workbench import PassState
from fxopt.workbench.standing import Standing, standing_of
from fxopt.workbench.takeover import taken_over


def described_list(session: Session) -> dict[str, Any]:
    """Return a row for each pass and edit, the sites of the one in focus, and the passes without a row.

    Those find nothing here, or are approximate and not asked for.
    """
    styles, states = session.styles, session.workbench.states
    idle = [state for state in states if _is_idle(state) and state.name != session.view.looked_at]
    rows = [
        described_edit(session, styles[state.name], state)
        if isinstance(state.pass_, Edit)
        else _row(session, styles[state.name], state)
        for state in states
        if state not in idle
    ]
    asked = {state.name for state in states}
    return {
        "rows": rows,
        "idle": [_idle(styles[state.name], state) for state in idle],
        "approximate": [_on_request(kind()) for kind in APPROXIMATE_PASSES if kind.__name__ not in asked],
    }


def _is_idle(state: PassState) -> bool:
    return not (state.sites or state.misses or state.error or state.on or isinstance(state.pass_, Edit))


def _idle(style: PassStyle, state: PassState) -> dict[str, Any]:
    """Return a pass that finds nothing here: it tells its needs, and opens as a row."""
    return {
        "key": as_class(f"idle {state.name}"),
        "letter": style.letter,
        "name": sendable(state.pass_.label),
        "told": f"{state.name} finds no site. {_need_of(state)}",
    }


def _on_request(pass_: Pass[Any]) -> dict[str, str]:
    """Return an approximate pass that the list takes when it is asked for."""
    return {
        "key": as_class(f"add {pass_.name}"),
        "class": pass_.name,
        "name": sendable(pass_.label),
        "told": sendable(f"Put {pass_.name} into the list, off at first: {pass_.summary}"),
    }


def _need_of(state: PassState) -> str:
    needs = state.pass_.needs
    return f"It needs {sendable(needs)}." if needs else "It finds nothing in this model."


def _row(session: Session, style: PassStyle, state: PassState) -> dict[str, Any]:
    is_open = session.view.looked_at == state.name
    elsewhere = {session.called(name): count for name, count in taken_over(session.workbench.states, state).items()}
    words, label = line_in_words(state, elsewhere), sendable(state.pass_.label)
    return {
        "key": as_class(f"pass {style.letter} {'looked at' if is_open else 'row'}"),
        "class": as_class(state.name),
        "letter": style.letter,
        "color": style.color,
        "name": label,
        "about": sendable(f"{state.name}: {state.pass_.summary} — {words}"),
        "words": words,
        "signs": line_in_signs(state, elsewhere),
        "switch": described_switch(session, state, "", label, on=state.on, disabled=not state.sites and not state.on),
        "error": sendable(state.error),
        "failed at": state.failed_at if state.error else "",
        "question": question_about(session, state.name),
        "focus": _in_focus(session, state, elsewhere) if is_open else None,
    }


def _in_focus(session: Session, state: PassState, elsewhere: dict[str, int]) -> dict[str, Any]:
    """Return the rest of the row of the pass in focus: its place in the order, notes, its sites and near misses."""
    names = [other.name for other in session.workbench.states]
    at = names.index(state.name)
    notes = [f"{name} is on, and rewrites {count} of these sites instead." for name, count in elsewhere.items()]
    if _is_idle(state):
        notes.append(_need_of(state))
    if package := others_installed().package_of(state.pass_):
        notes.append(f"brought by the installed package {package}")
    return {
        "order": f"runs {_ordinal(at + 1)} of {len(names)}",
        "earlier": at > 0,
        "later": at + 1 < len(names),
        "before edits": _before_edits(session, state),
        "notes": notes,
        **described_sites(session, state),
    }


def standing_in(session: Session, state: PassState) -> Standing | None:
    """Return the sites that a pass would have behind the edits that run after it, if there are such edits."""
    bench = session.workbench
    key = (bench.choices, state.name)
    return session.memo.remember("standing", key, lambda: standing_of(bench, state.name))


def _before_edits(session: Session, state: PassState) -> dict[str, str] | None:
    """Return the effect of moving a pass behind the edits, and the sites for which that is worth a button."""
    standing = standing_in(session, state)
    if standing is None:
        return None
    parts = [(standing.more, "more"), (standing.fewer, "fewer")]
    told = " and ".join(f"{counted(len(sites), 'site')} {word}" for sites, word in parts if sites)
    edits = counted(len(standing.edits), "edit by hand", "edits by hand")
    behind = "it" if len(standing.edits) == 1 else "them"
    return {
        "told": f"It runs before {edits}; after {behind}, the pass would find {told or 'the same sites'}.",
        "sites": ", ".join((*standing.more, *standing.fewer)[:FEW]),
    }


def _ordinal(number: int) -> str:
    """Return a place in words.

    >>> [_ordinal(number) for number in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
