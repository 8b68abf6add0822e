"""The inspector of an empty selection: the whole graph, where its parameters are, what each pass would bring."""

from __future__ import annotations

import streamlit as st

from fxopt.evidence.places import parameter_places
from fxopt.ui.job import Job, Progress
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.session import Session
from fxopt.ui.verdict_list import said
from fxopt.ui.waiting import result_soon
from fxopt.workbench import PassState
from fxopt.workbench.preview import preview

ASKED = "asked for prospects"


def whole_graph(session: Session) -> None:
    """Draw the kind of the model, its parameters by part, and the passes with their sites."""
    opened = session.opened
    st.markdown(f"**{escaped(opened.source.title)}**")
    st.caption(_kind(session))
    places = session.opened.once.answer("places", lambda: parameter_places(opened.model))
    if places:
        st.markdown("Where its parameters are")
        rows = [f"| {code(place.path)} | {escaped(place.kind)} | {_share(place.share)} |" for place in places]
        st.markdown("\n".join(["| part | class | share |", "|:--|:--|--:|", *rows]))
    _passes(session)
    st.caption("Click a box in the graph, or a site in the list of passes, to read what each pass says of it. A double "
               "click opens or folds a module; the key ? lists all keys.")  # fmt: skip


def _share(share: float) -> str:
    """Return a share in percent.

    >>> _share(0.48), _share(0.001)
    ('48 %', 'below 1 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.01 else "below 1 %"


def _kind(session: Session) -> str:
    view = session.view_of("Original")
    told = f"{code(type(session.opened.model).__name__)}, {counted(len(view.nodes), 'node')}"
    copies = max(view.alike.items(), key=lambda item: item[1], default=("", 0))
    # Of copies in copies, the outermost says the most.
    outer = next((path for path, count in view.alike.items() if count == copies[1]), "")
    if copies[1] > 1 and view.module_classes[outer]:
        told += f", {copies[1]} times {code(view.module_classes[outer])}"
    return told


def _passes(session: Session) -> None:
    states = [state for state in session.listed_passes if state.sites]
    if not states:
        st.markdown("No pass finds a site here. Open a pass on the left to read how near it comes.")
        return
    brings = _prospects(session, states) if st.session_state.get(ASKED) == session.opened.source.key else {}
    for state in states:
        more = f": {escaped(brings[state.name])}" if state.name in brings else ""
        said(session.styles[state.name], f"{counted(len(state.sites), 'site')}{more}")
    if not brings:
        st.button("What would each bring?", key="ask for prospects", on_click=_ask, args=(session,),
                  help="Tries every pass on a copy of the original graph")  # fmt: skip


def _ask(session: Session) -> None:
    st.session_state[ASKED] = session.opened.source.key


def _prospects(session: Session, states: list[PassState]) -> dict[str, str]:
    """Return the effect of each pass on the original graph in words; empty until it is found."""
    opened, names = session.opened, [state.name for state in states]

    def work(progress: Progress) -> dict[str, str]:
        bench = opened.workbench.another()
        here = {pass_.name for pass_ in bench.passes}
        return {name: str(preview(bench, name)) for name in names if name in here and progress(0)}

    key = tuple(sorted(names))
    return result_soon(session.remember("prospects", key, lambda: Job(work)), "Trying every pass") or {}
