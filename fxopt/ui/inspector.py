"""The inspector of the selected node or module: its facts, its story, and the verdict of each pass."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

import streamlit as st
from torch.fx import Node

from fxopt.edits import Probe
from fxopt.graph.nodes import info_of, inputs_of, module_of, nodes_by_name, source_of, target_name
from fxopt.ui.edit_form import edit_form, outcome_of_edit
from fxopt.ui.example import run_example
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.going import go_to
from fxopt.ui.learning import learning
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.panel import acting, panel
from fxopt.ui.session import Session
from fxopt.ui.verdict_list import said, verdict_list
from fxopt.ui.view_state import Shown
from fxopt.ui.viewing import fold, show
from fxopt.ui.whole_graph import ASKED, whole_graph
from fxopt.view.node_view import PART

MANY = 8
"""The most inputs or users that are offered as buttons."""


def inspector_panel(session: Session) -> None:
    """Draw the selected node or module; if the selection is empty, the ways to select."""
    panel(session, "inspector panel", _inspector, _shown_by_inspector)


def _shown_by_inspector(session: Session) -> Hashable:
    name = session.view.selected
    is_open = name.startswith("@") and name.partition("#")[0][1:] in session.open_modules
    asked = None if name else (st.session_state.get(ASKED), learning().is_open)
    form = st.session_state.get("edit form"), st.session_state.get(f"edit act {name}")
    return session.workbench.choices, name, is_open, asked, session.view.shown, session.outcome_of_edit, form


def _inspector(session: Session) -> None:
    name = session.view.selected
    with st.container(key=f"lines of {name}"):  # or the browser would move the lines of what was selected before
        if not name:
            whole_graph(session)
        elif name.startswith("@"):
            _module(session, name.partition("#")[0][1:])
        else:
            _node(session, name)


# ---- a folded module


def _module(session: Session, path: str) -> None:
    view = session.view_of(session.view.shown)
    inside = [node for node in view.nodes if any(path == outer for outer, _ in node.modules)]
    kind = view.module_classes.get(path, "")
    st.markdown(f"**{escaped(path)}**")
    st.caption(_kind_of_box(path, kind))
    opened = path in session.open_modules
    st.button(
        "Fold the module" if opened else "Open the module",
        key="fold selected",
        on_click=acting(session, partial(fold, session)),
        args=(path,),
    )
    st.markdown(f"{counted(len(inside), 'node')} in it")
    names = {node.name for node in inside}
    for state in session.workbench.states:
        sites = [site.site for site in state.sites if not names.isdisjoint((site.site, *site.created, *site.changed))]
        misses = [miss.site for miss in state.misses if miss.site in names]
        if sites or misses:
            near = f", {counted(len(misses), 'near miss', 'near misses')}" if misses else ""
            said(session, (state.name, f"{counted(len(sites), 'site')}{near}"))
            _links(session, f"{state.name} in {path}", [*sites, *misses])


def _kind_of_box(path: str, kind: str) -> str:
    """Return the kind of a folded box: a module, or calls that fxopt itself has put into one box."""
    if kind != PART:
        return f"Module {code(kind)}" if kind else "Module"
    word = "index arithmetic"
    told = GLOSSARY[word] if path.rpartition("[")[2].startswith(word) else "A part of a module with many calls."
    return f"No module of the model. {told}"


# ---- a node


def _node(session: Session, name: str) -> None:
    shown, node = _find(session, name)
    st.code(name, language=None, wrap_lines=True)  # with a button to copy it
    outcome_of_edit(session, name, from_graph=True)
    if node is None:
        st.info(
            "No node of this name is in either graph: the pass that made it is off now.", icon=":material/search_off:"
        )
        return
    if shown != session.view.shown:
        here = "the original" if shown == "Now" else "the graph as it is now"
        where = "the graph as it is now" if shown == "Now" else "the original graph"
        st.caption(f"It has no counterpart in {here}.")
        st.button(
            f"Only in {where}: show it",
            key="show where it is",
            on_click=acting(session, partial(show, session)),
            args=(shown,),
        )
    _facts(session, shown, node)
    _descent(session, shown, name)
    _source(node)
    for told in session.workbench.story(name, named=session.called):
        st.markdown(f":material/history: {escaped(told)}")
    _probe(session, node)
    edit_form(session, name)
    verdict_list(session, name)
    _parameters(node)
    _neighbors(session, "Reads", [other.name for other in inputs_of(node)])
    _neighbors(session, "Read by", [user.name for user in node.users])


def _find(session: Session, name: str) -> tuple[Shown, Node | None]:
    """Return the node in the graph that is shown, else in the other one."""
    for shown in (session.view.shown, _other(session.view.shown)):
        node = _node_in(session, shown, name)
        if node is not None:
            return shown, node
    return session.view.shown, None


def _other(shown: Shown) -> Shown:
    return "Original" if shown == "Now" else "Now"


def _node_in(session: Session, shown: Shown, name: str) -> Node | None:
    graph = session.graph_of(shown) if shown == "Now" else session.graph_before
    key = session.workbench.choices if shown == "Now" else session.since
    return session.memo.remember(f"names of {shown}", key, lambda: nodes_by_name(graph)).get(name)


def _facts(session: Session, shown: Shown, node: Node) -> None:
    """Draw the facts of a node; where they are others in the other graph, those before and now."""
    rows = _rows(node)
    other = _node_in(session, _other(shown), node.name)
    others = _rows(other) if other is not None else rows
    before, now = (rows, others) if shown == "Original" else (others, rows)
    told = {label: f"{old or 'none'} → **{new or 'none'}**" if old != new else new
            for (label, old), new in zip(before.items(), now.values())}  # fmt: skip
    st.markdown("  \n".join(f"{label} {value}" for label, value in told.items() if value))


def _rows(node: Node) -> dict[str, str]:
    info = info_of(node)
    module = module_of(node)
    return {
        "op": code(node.op),
        "calls": code(target_name(node)) if node.op != "output" else "",
        "class": code(type(module).__name__) if module is not None else "",
        "returns": code(str(info)) if info is not None else "",
        "arguments": code(_arguments(node)),
    }


def _descent(session: Session, shown: Shown, name: str) -> None:
    """Draw the nodes that an original node became, or those that a node of now was made from."""
    if shown == "Original":
        _neighbors(session, "Became", [new for old, new in session.descent if old == name])
    else:
        _neighbors(session, "Made from", [old for old, new in session.descent if new == name and old != name])


def _probe(session: Session, node: Node) -> None:
    """Draw the last observation of a probe, and a button that runs the graph."""
    probe = module_of(node)
    if isinstance(probe, Probe):
        told = str(probe.seen) if probe.seen is not None else "nothing yet"
        st.markdown(f":material/sensors: Saw {escaped(told)}")
        st.button("Run the example through it", key="run example", on_click=run_example, args=(session,))


def _arguments(node: Node) -> str:
    """Return the arguments as in the generated code, shortened."""
    parts = [repr(value) for value in node.args] + [f"{key}={value!r}" for key, value in node.kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= 120 else f"{text[:117]}…"


def _source(node: Node) -> None:
    source = source_of(node)
    if source is None:
        return
    if source.text:
        st.code(source.text, language="python", wrap_lines=True)
    file = source.file.replace("\\", "/").split("/")
    st.caption(f"{escaped('/'.join(file[-2:]))}, line {source.line}, in {code(source.function)}")


def _parameters(node: Node) -> None:
    module = module_of(node)
    if module is None:
        return
    held = [*module.named_parameters(), *module.named_buffers()]
    if held:
        rows = [
            f"| {code(path)} | {'×'.join(map(str, tensor.shape)) or 'scalar'} | "
            f"{str(tensor.dtype).removeprefix('torch.')} |"
            for path, tensor in held[:12]
        ]
        more = [f"| and {len(held) - 12} more | | |"] if len(held) > 12 else []
        st.markdown("\n".join(["| tensor | shape | dtype |", "|:--|:--|:--|", *rows, *more]))


def _neighbors(session: Session, label: str, names: list[str]) -> None:
    if names:
        st.caption(label)
        _links(session, label, names)


def _links(session: Session, label: str, names: list[str]) -> None:
    """Draw a button for each of the first nodes, which leads to it."""
    with st.container(horizontal=True, gap="xsmall"):
        for name in names[:MANY]:
            st.button(
                code(name),
                key=f"{label} {name}",
                type="tertiary",
                on_click=acting(session, go_to),
                args=(session, name),
            )
        if len(names) > MANY:
            st.caption(f"and {len(names) - MANY} more")
