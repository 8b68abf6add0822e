"""The form to change the selected node by hand: the edits that fit it, one button, and their outcome."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st
import torch
from torch.fx import Node

from fxopt.core import FxoptError, GraphIndex
from fxopt.edits import (
    Delete,
    Edit,
    EditError,
    Insert,
    Offers,
    ReplaceModule,
    Retarget,
    Rewire,
    SetArgument,
    SwapInputs,
    offers_at,
)
from fxopt.edits.place import is_same, places_of, value_at
from fxopt.edits.targets import target_of
from fxopt.ui.acts import edit
from fxopt.ui.markdown import code, escaped
from fxopt.ui.outcomes import EditOutcome
from fxopt.ui.panel import acting
from fxopt.ui.session import Session
from fxopt.ui.site_list import told_of_miss
from fxopt.workbench import MissState

NEAR = 200
"""So many nodes are offered to rewire to; any other can be named."""

DTYPES = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "int8", "uint8", "bool")
ALL_USERS = "all that read it"


def edit_form(session: Session, name: str) -> None:
    """Draw it for the node of this name, where it is in the graph as it is now."""
    form = st.expander("Edit by hand", key="edit form", icon=":material/edit:", on_change="rerun")
    if not form.open:
        return
    with form:
        _form(session, name)


def _form(session: Session, name: str) -> None:
    found, acts = offered(session, name), offered_acts(session, name)
    if found is None:
        st.caption("It is in the original graph only. Edits are made in the graph as it is now.")
    elif not acts:
        st.caption("There is nothing to change here by hand.")
    else:
        _act_of_form(session, name, *found)
    outcome_of_edit(session, name, from_graph=False)


def _act_of_form(session: Session, name: str, node: Node, offers: Offers) -> None:
    acts = offered_acts(session, name)
    chosen = st.selectbox("What to change", list(acts), key=f"edit act {name}", label_visibility="collapsed")
    act = acts[chosen]
    with st.form(f"edit {act.title} {name}", border=False):
        read = act.draw(node, offers)
        st.form_submit_button(
            "Apply", type="primary", on_click=acting(session, partial(edit, session)), args=(name, read)
        )


def offered(session: Session, name: str) -> tuple[Node, Offers] | None:
    """Return the node as it is now, and the edits on offer at it; None where it is in the original graph only."""
    return session.memo.remember("offers", (session.workbench.choices, name), lambda: _offered(session, name))


def offered_acts(session: Session, name: str) -> dict[str, _Act]:
    """Return the acts of the form at a node, by their titles."""
    found = offered(session, name)
    return {} if found is None else {act.title: act for act in _ACTS if act.fields_of(found[1])}


def _offered(session: Session, name: str) -> tuple[Node, Offers] | None:
    index = GraphIndex(session.workbench.current)
    node = index.nodes.get(name)
    return None if node is None else (node, offers_at(node, index))


def outcome_of_edit(session: Session, name: str, *, from_graph: bool) -> None:
    """Draw the outcome of the last edits at a node, where they were asked for in the graph or else in the form."""
    answer = session.outcome_of_edit
    if answer is not None and answer.node == name and answer.from_graph == from_graph:
        _answer(answer)


def _answer(answer: EditOutcome) -> None:
    """Draw an outcome: edits made, refused with the reason, or an unchanged form."""
    for one in answer.made:
        st.success(f"{escaped(one.summary)}. Undo with Ctrl+Z.", icon=":material/check:")
    if answer.refusal is None:
        if not answer.made:
            st.info("The form is unchanged, and so is the graph.", icon=":material/info:")
        return
    told = escaped(str(answer.refusal))
    if isinstance(answer.refusal, EditError):
        told = told_of_miss(MissState(answer.refusal.edit.node, answer.refusal.unmet))
    st.error(f"**Not applied.** {told}", icon=":material/block:")


# ---- the acts


class FieldError(FxoptError, ValueError):
    """A field whose text is not a value."""


@dataclass(frozen=True, eq=False)
class _Act:
    """A kind of edit in the form. `draw` draws its fields, and returns a function that reads the edits out of them."""

    title: str
    fields_of: Callable[[Offers], object]
    draw: Callable[[Node, Offers], Callable[[], Sequence[Edit]]]


def _constants(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    keys = [(at, old, _constant(node, at, old)) for at, old in offers.constants]

    def read() -> Sequence[Edit]:
        values = [(at, old, _typed(at, st.session_state[key], old)) for at, old, key in keys]
        return [SetArgument(node.name, at, value) for at, old, value in values if not is_same(old, value)]

    return read


def _constant(node: Node, at: str, old: Any) -> str:
    """Draw a field for a constant. Its key contains the present value, so that an undo shows in the field."""
    key = f"constant {node.name} {at} {old!r}"
    label = code(_place(node, at))
    if isinstance(old, bool):
        st.selectbox(label, (True, False), index=int(not old), key=key)
    elif isinstance(old, torch.dtype):
        names = list(dict.fromkeys((_dtype_name(old), *DTYPES)))
        st.selectbox(label, names, key=key)
    else:
        st.text_input(label, value=old if isinstance(old, str) else repr(old), key=key, max_chars=500)
    return key


def _typed(at: str, given: Any, old: Any) -> Any:
    """Return the value that was typed or chosen for a constant.

    Raises:
        FieldError: the text is not a value.
    """
    if isinstance(old, torch.dtype):
        return getattr(torch, given)
    if isinstance(old, bool | str):
        return given
    try:
        value = ast.literal_eval(str(given).strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        if str(given).strip() in ("inf", "-inf", "nan"):
            return float(given)
        example = repr(old) if old is not None else "1, 0.5, 'text' or None"
        raise FieldError(f"{given!r} at {at} is no value; write it as Python would, such as {example}") from None
    return tuple(value) if isinstance(old, tuple) and isinstance(value, list) else value


def _targets(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    found = target_of(node)
    now = found.name if found is not None else str(node.target)
    key = f"target {node.name} {now}"
    st.selectbox(
        "Calls", (now, *offers.targets), key=key, accept_new_options=True,
        help="What takes the same arguments and gives the same shape. Another can be typed: F.gelu, torch.sub, "
             "torch.Tensor.tanh",
    )  # fmt: skip
    return lambda: [Retarget(node.name, st.session_state[key])] if st.session_state[key] not in (now, None) else []


def _inputs(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    keys = [(at, old, f"input {node.name} {at} {old}") for at, old in offers.inputs]
    for at, old, key in keys:
        near = dict.fromkeys((old, *offers.earlier[:NEAR]))
        st.selectbox(code(_place(node, at)), list(near), key=key, accept_new_options=True,
                     help="A node that comes earlier; those of the same shape come first")  # fmt: skip

    def read() -> Sequence[Edit]:
        chosen = [(at, old, st.session_state[key]) for at, old, key in keys]
        return [Rewire(node.name, at, new) for at, old, new in chosen if new not in (old, None)]

    return read


def _swap(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    places = [at for at, _ in places_of(node)]
    names = {at: f"{_place(node, at)}: {_short(value_at(node, at))}" for at in places}
    keys = [f"swap {which} {node.name}" for which in ("a", "b")]
    for i, (label, key) in enumerate(zip(("This argument", "changes places with"), keys)):
        st.selectbox(label, places, index=i, key=key, format_func=names.__getitem__)
    return lambda: [SwapInputs(node.name, *(st.session_state[key] for key in keys))]


def _delete(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    key = f"take {node.name} {offers.takes}"
    if offers.takes == ("",):
        st.caption("Nobody reads it.")
        return lambda: [Delete(node.name)]
    st.selectbox("Its users take", offers.takes, key=key)
    return lambda: [Delete(node.name, st.session_state[key])]


def _insert(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    module, user = f"insert {node.name}", f"insert into {node.name} {offers.users}"
    st.selectbox("Module", offers.inserted, key=module, accept_new_options=True, help=_CATALOG_HELP)
    places = ("", *offers.users) if len(offers.users) > 1 else ("",)
    if len(places) > 1:
        st.selectbox("Read by", places, key=user, format_func=lambda name: name or ALL_USERS)
    return lambda: [Insert(node.name, st.session_state[module] or "", st.session_state.get(user, ""))]


def _replace(node: Node, offers: Offers) -> Callable[[], Sequence[Edit]]:
    key = f"replace {node.name}"
    st.selectbox("Calls instead", offers.replacements, key=key, accept_new_options=True, help=_CATALOG_HELP)
    return lambda: [ReplaceModule(node.name, st.session_state[key] or "")]


_CATALOG_HELP = "Modules without weights. Values can be typed: Dropout(p=0.3), LayerNorm(64)"

_ACTS = (
    _Act("Change its constants", lambda offers: offers.constants, _constants),
    _Act("Call something else", lambda offers: offers.targets, _targets),
    _Act("Call another module", lambda offers: offers.replacements, _replace),
    _Act("Insert a module behind it", lambda offers: offers.inserted, _insert),
    _Act("Rewire its inputs", lambda offers: offers.inputs, _inputs),
    _Act("Swap two arguments", lambda offers: len(offers.inputs) + len(offers.constants) > 1 and offers.takes, _swap),
    _Act("Delete it", lambda offers: offers.takes, _delete),
)


# ---- words


def _place(node: Node, at: str) -> str:
    """Return a place with the name of its parameter, if that is known: ``args[1], dim``."""
    first, _, inner = at.partition("]")
    step = ast.literal_eval(first.partition("[")[2])
    if isinstance(step, str):
        return f"{step}{inner}"
    target = target_of(node)
    names = target.called_names if target is not None else ()
    return f"{at}, {names[step]}" if step < len(names) and len(node.args) <= len(names) and not inner else at


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 30 else f"{text[:29]}…"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
