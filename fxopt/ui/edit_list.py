"""An edit made by hand, as a row among the passes: its switch, its effect, and a button that removes it."""

from __future__ import annotations

from typing import Any

from fxopt.edits import Edit
from fxopt.ui.question import question_about
from fxopt.ui.session import Session
from fxopt.ui.site_list import EXACTNESS_WORDS, described_switch, parts_of_miss
from fxopt.ui.switches import as_class
from fxopt.view import PassStyle
from fxopt.workbench import PassState


def described_edit(session: Session, style: PassStyle, state: PassState) -> dict[str, Any]:
    """Return the row of an edit, for the browser to draw."""
    edit = state.pass_
    assert isinstance(edit, Edit), f"{state.name} is no edit"
    manner = "looked at" if session.view.looked_at == state.name else "row" if state.sites else "idle"
    return {
        "key": as_class(f"pass {style.letter} {manner}"),
        "class": as_class(state.name),
        "letter": style.letter,
        "color": style.color,
        "name": edit.summary,
        "switch": described_switch(session, state, "", edit.summary, on=state.on),
        "by hand": {"node": edit.node, "told": _told(edit, state), "exactness": _exactness(state)},
        "question": question_about(session, state.name),
    }


def _told(edit: Edit, state: PassState) -> str:
    """Return the details beyond the title: the state before, the change of shapes, or the reason why it fails."""
    if state.error:
        return f"By hand · {state.error}"
    for site in state.sites:
        more = site.explanation.removeprefix(edit.title).removeprefix(";").strip()
        return " · ".join(filter(None, ("By hand", more)))
    for miss in state.misses:
        reason, pairs, remedy = parts_of_miss(miss)
        figures = ", ".join(f"{word} {value}" for word, value in pairs)
        return f"By hand · It does not hold now: {'; '.join(filter(None, (reason, figures, remedy)))}"
    return "By hand · Its node is not in the graph now."


def _exactness(state: PassState) -> tuple[str, str] | None:
    return EXACTNESS_WORDS[state.sites[0].exactness] if state.sites and not state.error else None
