"""The inspector: what the selected node or module is, what happened to it, and what each pass says of it."""

from __future__ import annotations

import streamlit as st
from torch.fx import Node

from fxopt.core.graph import info_of, inputs_of, module_of, nodes_by_name, source_of, target_name
from fxopt.ui.markdown import code, escaped
from fxopt.ui.session import Session, Shown
from fxopt.view import PassStyle, styles_of
from fxopt.workbench import PassState

MANY = 8
"""How many inputs or users are offered as buttons."""


def inspector(session: Session) -> None:
    """Draw what is selected; how to select something, where nothing is."""
    name = session.selected
    if not name:
        st.markdown("**Nothing selected**")
        st.caption("Click a box in the graph, or a site in the list of passes, to read what it is and what each pass "
                   "says of it. A double click opens or folds a module.")  # fmt: skip
    elif name.startswith("@"):
        _module(session, name.partition("#")[0][1:])
    else:
        _node(session, name)


# ---- a folded module


def _module(session: Session, path: str) -> None:
    view = session.view_of(session.shown)
    inside = [node for node in view.nodes if any(path == outer for outer, _ in node.modules)]
    kind = view.module_classes.get(path, "")
    st.markdown(f"**{escaped(path)}**")
    st.caption(f"Module {code(kind)}" if kind else "Module")
    opened = path in session.unfolded
    st.button(
        "Fold the module" if opened else "Open the module", key="fold selected", on_click=session.fold, args=(path,)
    )
    st.markdown(f"{len(inside):,} node{'s' if len(inside) != 1 else ''} in it")
    names = {node.name for node in inside}
    for style, state in _styled(session):
        sites = sum(not names.isdisjoint((site.site, *site.created, *site.changed)) for site in state.sites)
        misses = sum(miss.site in names for miss in state.misses)
        if sites or misses:
            near = f", {misses} near miss{'es' if misses != 1 else ''}" if misses else ""
            _said(style, f"{sites} site{'s' if sites != 1 else ''}{near}")


# ---- a node


def _node(session: Session, name: str) -> None:
    shown, node = _find(session, name)
    st.markdown(f"**{escaped(name)}**")
    if node is None:
        st.caption("No node of this name is in the graph.")
        return
    if shown != session.shown:
        where = "the graph as it is now" if shown == "Now" else "the original graph"
        st.button(f"Only in {where}: show it", key="show where it is", on_click=session.show, args=(shown,))
    _facts(node)
    _source(node)
    for told in session.workbench.story(name):
        st.markdown(f":material/history: {escaped(told)}")
    _passes(session, name)
    _parameters(node)
    _neighbors(session, "Reads", [other.name for other in inputs_of(node)])
    _neighbors(session, "Read by", [user.name for user in node.users])


def _find(session: Session, name: str) -> tuple[Shown, Node | None]:
    """The node in the graph that is shown, else in the other one."""
    other: Shown = "Original" if session.shown == "Now" else "Now"
    for shown in (session.shown, other):
        graph = session.graph_of(shown)
        key = session.workbench.choices if shown == "Now" else None
        names = session.remember(f"names of {shown}", key, lambda graph=graph: nodes_by_name(graph))  # type: ignore[misc]
        if name in names:
            return shown, names[name]
    return session.shown, None


def _facts(node: Node) -> None:
    info = info_of(node)
    module = module_of(node)
    rows = {
        "op": code(node.op),
        "calls": code(target_name(node)) if node.op != "output" else "",
        "class": code(type(module).__name__) if module is not None else "",
        "returns": code(str(info)) if info is not None else "",
        "arguments": code(_arguments(node)),
    }
    st.markdown("  \n".join(f"{label} {value}" for label, value in rows.items() if value))


def _arguments(node: Node) -> str:
    """Arguments as the generated code has them, shortened."""
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
    if not names:
        return
    st.caption(label)
    with st.container(horizontal=True, gap="xsmall"):
        for name in names[:MANY]:
            st.button(code(name), key=f"{label} {name}", type="tertiary", on_click=session.select, args=(name,))
        if len(names) > MANY:
            st.caption(f"and {len(names) - MANY} more")


# ---- what the passes say


def _styled(session: Session) -> list[tuple[PassStyle, PassState]]:
    states = session.workbench.states
    return list(zip(styles_of([state.name for state in states]), states))


def _passes(session: Session, name: str) -> None:
    silent = []
    for style, state in _styled(session):
        told = list(_verdicts(state, name))
        for text in told:
            _said(style, text)
        if not told:
            silent.append(style.letter)
    if silent:
        st.caption(f"Nothing to say here: {', '.join(silent)}")


def _verdicts(state: PassState, name: str) -> list[str]:
    """What a pass says of a node, as Markdown."""
    told = []
    for site in state.sites:
        if name in (site.site, *site.nodes, *site.created, *site.changed, *site.removed):
            done = "applied" if site.on else "matches"
            at = "here" if site.site == name else f"at {code(site.site)}"
            told.append(f"**{done} {at}**: {escaped(site.explanation)}")
    for miss in state.misses:
        if miss.site == name:
            remedy = f" To change that: {escaped(miss.remedy)}." if miss.remedy else ""
            told.append(f"**near miss**: {escaped(miss.reason)}.{remedy}")
    return told


def _said(style: PassStyle, text: str) -> None:
    with st.container(horizontal=True, wrap=False, gap="xsmall", vertical_alignment="top"):
        st.html(f'<span class="letter" style="--pass: {style.color}">{style.letter}</span>', width="content")
        st.markdown(f"{style.name} {text}")
