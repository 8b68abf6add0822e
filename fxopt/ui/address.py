"""The address of the page: it holds the visitor's view, and a reload, back, forward or a sent link restores it.

``model``, ``folder``, ``batch`` and ``sequence`` are texts, ``state`` is a `fxopt.recipes.link.Link`, ``lesson`` a
bookmark of the lessons, open or closed, with the visitor's answers (`fxopt.lessons.bookmark`), and ``browser`` a hash
of the mark of the browser that wrote the bookmark. All that is as it is when the model opens is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from fxopt.lessons import LessonError
from fxopt.models import LocalFolder
from fxopt.models.local_folder import name_of
from fxopt.recipes import RecipeError
from fxopt.recipes.link import Link, same_steps
from fxopt.recipes.replay import Problem
from fxopt.ui.browser_mark import browser_mark
from fxopt.ui.comparison_link import replay_comparison, with_comparison
from fxopt.ui.fault import MOST_TOLD, all_or_nothing, complain
from fxopt.ui.folders import MOST_TEXT
from fxopt.ui.learning import bookmark, come_back
from fxopt.ui.markdown import escaped
from fxopt.ui.own_rule import missing_pass, problem_in_words
from fxopt.ui.session import Session
from fxopt.ui.upload import is_uploaded, uploaded
from fxopt.ui.uploaded_files import UPLOAD
from fxopt.ui.view_state import ViewState

MOST_ADDRESS = 4_000
"""Characters of an address that mail and chat programs leave whole."""
MOST_DIGITS = 9
TOO_LONG = (
    "The address cannot hold all of this, so it leads to the model alone. The button Recipe saves the work as a file."
)
_WRITTEN, _ASKED = "address", "asked by the address"
_OF_STREAMLIT = ("embed", "embed_options")
"""Parameters that Streamlit keeps for itself."""
_TOLD, _FOLLOWED = "step that the browser told of", "step that was followed"
_GRAPHS = ("Original", "Now", "Side by side", "Diff")
_LISTED = 5


@dataclass(frozen=True)
class Asked:
    """All that an address asks for."""

    model: str = ""
    folder: str = ""
    batch: int | None = None
    sequence: int | None = None
    state: str = ""
    lesson: str = ""
    browser: str = ""
    """A hash of the mark of the browser that wrote the bookmark in ``lesson``."""
    is_step: bool = False
    """Whether the visitor came by back or forward, so that the address is a step of the history already."""

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Asked:
        """Return it of the parameters, which may come from anyone. Parts that cannot be read are told and left out."""
        if "folder" in parameters and len(parameters["folder"]) > MOST_TEXT:
            complain("The folder in the address is too long to be one.")
            return cls()
        sizes = {axis: _size(axis, parameters[axis]) for axis in ("batch", "sequence") if axis in parameters}
        texts = {
            name: parameters[name] for name in ("model", "folder", "state", "lesson", "browser") if name in parameters
        }
        return cls(**texts, **sizes)  # type: ignore[arg-type]


def _size(axis: str, text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS:
        return int(text)
    complain(f"The address asks for the {axis} {escaped(text[:MOST_DIGITS])}, which is no whole number that fits.")
    return None


def newly_asked() -> Asked | None:
    """Return the wish of the address, as the page opens or the visitor goes back or forward; None at other times."""
    context = get_script_run_ctx(suppress_warning=True)
    is_of_streamlit = context is not None and context.is_history_navigation
    told: dict[str, str] | None = st.session_state.pop(_TOLD, None)
    is_step = is_of_streamlit or told is not None
    if _WRITTEN in st.session_state and not is_step:
        return None
    st.session_state.setdefault(_WRITTEN, {})
    parameters = st.query_params.to_dict() if told is None or is_of_streamlit else told
    if is_step:
        st.session_state[_FOLLOWED] = parameters
    asked = st.session_state[_ASKED] = replace(Asked.of(parameters), is_step=is_step)
    return asked


def step_to(search: str) -> None:
    """Let the next whole run follow the address that the browser came to by back or forward, unless one has done so.

    Streamlit asks for such a run itself, but a run that the page asks for at the same moment takes its place.
    """
    told = {name: value for name, value in parse_qsl(search, keep_blank_values=True) if name not in _OF_STREAMLIT}
    if told != st.session_state.get(_FOLLOWED):
        st.session_state[_TOLD] = told


def awaits_step() -> bool:
    """Return whether a step back or forward is still to be followed, by a whole run."""
    return _TOLD in st.session_state


def forget() -> None:
    """Forget the wish of the address: its model is not here."""
    del st.session_state[_ASKED]


def awaits_upload() -> bool:
    """Return whether the wish of the address is about an upload that is not here yet."""
    asked: Asked | None = st.session_state.get(_ASKED)
    return asked is not None and asked.model == UPLOAD and uploaded() is None


def honor(session: Session | None) -> None:
    """Bring the session to the wish of the address, once its model is open."""
    asked: Asked | None = st.session_state.get(_ASKED)
    if asked is None or "request" in st.session_state:
        return
    if awaits_upload():
        if st.session_state["model"] != UPLOAD:  # the visitor has chosen another model
            forget()
        return
    del st.session_state[_ASKED]
    if session is None or "problem" in st.session_state:
        return
    with session.at_work, all_or_nothing(session):  # no act of the visitor's, whose acts the browser counts
        is_read = _go(session, asked.state)
        _come_back(asked)
    # A state that cannot be read gives way to the one that is shown; in the history it stays, or back would end there.
    st.session_state[_WRITTEN] = address_of(session) if is_read or asked.is_step else {"state": asked.state}


def _come_back(asked: Asked) -> None:
    is_own = asked.browser == browser_mark() != ""  # browsers without cookies cannot be told apart
    try:
        come_back(asked.lesson, is_own=is_own, is_step=asked.is_step)
    except LessonError as error:
        complain(f"**The lesson in the address could not be opened.** {escaped(str(error))[:MOST_TOLD]}")


def _go(session: Session, state: str) -> bool:
    """Bring passes and view to a state, an empty one to that in which the model opens; return whether it is one."""
    if not state:
        if session.workbench.choices != session.begun[0]:
            session.workbench.choose(session.begun[0])
        session.view = session.begun[1]
        _choose_beside({})
        return True
    try:
        link = Link.from_text(state)
        compared, left_out = None, list[Problem]()
        if link.since is not None:
            compared, left_out = replay_comparison(session, link)
        elif not same_steps(link.steps, Link.of(session.workbench).steps):
            left_out += link.replay(session.workbench).problems
    except RecipeError as error:
        complain(f"**The address could not be followed.** {escaped(str(error))[:MOST_TOLD]}")
        return False
    _choose_beside(link.view)
    session.view = replace(session.begun[1], compared=compared)
    session.view, missing = _viewed(session, link.view)
    problems = [*map(problem_in_words, left_out), *missing]
    if problems:
        more = [f"and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
        told = "\n".join(f"- {escaped(one)[:MOST_TOLD]}" for one in [*problems[:_LISTED], *more])
        complain(f"**The address asks for things that are not here:**\n\n{told}")
    return True


def _viewed(session: Session, view: Mapping[str, Any]) -> tuple[ViewState, list[str]]:
    """Return the view that a link asks for, and the parts of it that are missing here, in words.

    Parts that a link does not hold are as in the present view.
    """
    missing: list[str] = []
    texts = {name: value if isinstance(value := view.get(name, ""), str) else "" for name in _TEXTS}
    lists = {name: value if isinstance(value := view.get(name, ()), tuple) else () for name in ("open", "shut")}
    nodes = session.view_of("Original").by_name.keys() | session.view_of("Now").by_name.keys()
    modules = session.opened.view.module_classes.keys() | session.view_of("Now").module_classes.keys()
    if texts["looked_at"] not in ["", *(state.name for state in session.workbench.states)]:
        missing.append(missing_pass(texts["looked_at"]))
        texts["looked_at"] = session.begun[1].looked_at
    selected = texts["selected"]
    if selected and (selected[1:] not in modules if selected.startswith("@") else selected not in nodes):
        missing.append(f"the node {selected}")
        texts["selected"] = ""
    missing += [f"the module {path}" for path in lists["open"] if path not in modules]
    if texts["graph"] not in ("", *_GRAPHS):
        missing.append(f"the view {texts['graph']}")
    is_one, graph = texts["graph"] in _GRAPHS[:2], texts["graph"]
    return (
        replace(
            session.view,
            looked_at=texts["looked_at"],
            selected=texts["selected"],
            shown=graph if is_one else "Original" if texts["side"] == "Original" else "Now",  # type: ignore[arg-type]
            together=graph if graph in _GRAPHS[2:] else None,  # type: ignore[arg-type]
            unfolded=(session.opened.blocks | modules.intersection(lists["open"])) - set(lists["shut"]),
        ),
        missing,
    )


_BESIDE = {"tab": ("evidence", "Parameters"), "cost": ("cost", "Cost: none")}
"""Choices beside the view by their names in an address: the keys of their widgets, and their first values.

The widgets drop a value that they do not have.
"""


def _chosen_beside() -> dict[str, str]:
    chosen = {name: st.session_state.get(key, first) for name, (key, first) in _BESIDE.items()}
    return {name: value for name, value in chosen.items() if isinstance(value, str) and value != _BESIDE[name][1]}


def _choose_beside(view: Mapping[str, Any]) -> None:
    """Choose the tab of the evidence and the cost as a link does; to be called before their widgets are drawn."""
    for name, (key, first) in _BESIDE.items():
        value = view.get(name, first)
        if name in view or key in st.session_state:
            st.session_state[key] = value if isinstance(value, str) else first


_TEXTS = ("looked_at", "selected", "graph", "side")


def _as_data(view: ViewState, blocks: frozenset[str]) -> dict[str, str | tuple[str, ...]]:
    opened = view.unfolded | view.revealed
    content: dict[str, str | tuple[str, ...]] = {
        "looked_at": view.looked_at,
        "selected": view.selected,
        "graph": view.together or view.shown,
        "side": "Original" if view.together and view.shown == "Original" else "",
        "open": tuple(sorted(opened - blocks)),
        "shut": tuple(sorted(blocks - opened)),
    }
    return {name: value for name, value in content.items() if value}


def address_of(session: Session) -> dict[str, str]:
    """Return the parameters of the address of a session as it is now."""
    opened = session.opened
    source = opened.source
    found = {"model": str(source.key)}
    if is_uploaded(source):
        found = {"model": UPLOAD}
    elif isinstance(source, LocalFolder):
        found = {"model": "folder", "folder": name_of(source)}
    default = source.sizes.checked(source.title, None, None)
    for axis, size, usual in (("batch", opened.batch, default[0]), ("sequence", opened.sequence, default[1])):
        if size is not None and size != usual:
            found[axis] = str(size)
    choices, view = session.begun
    shown = {**_as_data(session.view, opened.blocks), **_chosen_beside()}
    is_as_begun = session.workbench.choices == choices and session.compared_acts is None
    if not is_as_begun or shown != _as_data(view, opened.blocks):
        try:
            state = with_comparison(session, Link.of(session.workbench, shown)).to_text()
        except RecipeError:  # a pass or an edit has an argument that no text can hold
            state = " " * MOST_ADDRESS
        found["state"] = state
    if lesson := bookmark():
        found["lesson"] = lesson
        if mark := browser_mark():
            found["browser"] = mark
    return found


def write_address(session: Session) -> None:
    """Let the address hold the present view; it becomes a step of the browser's history."""
    shown = session.workbench.choices, session.view, tuple(_chosen_beside().items()), bookmark()
    address = session.memo.remember("address", shown, lambda: address_of(session))
    if sum(map(len, address.values())) > MOST_ADDRESS:
        address = {name: value for name, value in address.items() if name != "state"}
        if not st.session_state.get("address is too long"):
            complain(TOO_LONG)
        st.session_state["address is too long"] = True
    else:
        st.session_state["address is too long"] = False
    if st.session_state.get(_WRITTEN) not in (None, address):
        st.session_state[_WRITTEN] = address
        st.session_state.pop(_FOLLOWED, None)
        st.query_params.from_dict(address)
