"""The inspector of an empty selection: the graph, the places of its parameters, the prospects of each pass."""

from __future__ import annotations

import streamlit as st

from fxopt.core import FxoptError
from fxopt.evidence import NodeTimes, node_times
from fxopt.evidence.places import parameter_places
from fxopt.ui.acts import turn
from fxopt.ui.job import Job, Progress
from fxopt.ui.large import killable
from fxopt.ui.learning import learning
from fxopt.ui.limits import check_demand
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.one_in_line import MEASUREMENTS
from fxopt.ui.open_model import OpenModel
from fxopt.ui.panel import acting
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.verdict_list import said
from fxopt.ui.waiting import result_soon
from fxopt.workbench import Workbench
from fxopt.workbench.ceilings import ceilings
from fxopt.workbench.preview import preview

ASKED = "asked for prospects"
BY_OTHERS = "none of them is in the original graph; passes or edits that are on made them"
SECONDS = 3.0
"""The time that the measurement of the nodes may take."""


def whole_graph(session: Session) -> None:
    """Draw the kind of the model, its parameters by part, and the passes with their sites."""
    opened = session.opened
    if not session.was_changed and not learning().is_open:  # a lesson has other things to do first
        _welcome(session)
    st.markdown(f"**{escaped(opened.source.title)}**")
    st.caption(f"{escaped(opened.source.description)}  \n{_kind(session)}")
    places = session.opened.once.answer("places", lambda: parameter_places(opened.model))
    if places:
        classes = session.opened.view.module_classes  # a captured module is a plain one, and has its class there
        rows = [
            f"| {code(place.path)} | {escaped(classes.get(place.path) or place.kind)} | {_share(place.share)} |"
            for place in places
        ]
        table = ["| part | class | share |", "|:--|:--|--:|", *rows]
        st.markdown("\n".join(["Where its parameters are", "", *table]))
    _passes(session)
    st.caption("Click a box in the graph, or a site in the list of passes, to read what each pass says of it. A double "
               "click opens or folds a module; the key ? lists all keys.")  # fmt: skip


def _welcome(session: Session) -> None:
    """Draw a sentence on the page, and one thing to do: it goes once the visitor has switched anything."""
    st.markdown(
        "fxopt rewrites the graph of a PyTorch model site by site, shows what each rewrite does and costs, and takes "
        "each back to the last bit."
    )
    first = next((state for state in session.listed_passes if state.sites), None)
    if first is not None:
        st.button(
            f"Try it: switch on {escaped(first.pass_.label)}",
            key="try it",
            type="primary",
            help=f"{counted(len(first.sites), 'site')}. {escaped(first.pass_.summary)}",
            on_click=acting(session, turn),
            args=(session, first.name, None, True),
        )


def _share(share: float) -> str:
    """Return a share in percent.

    >>> _share(0.48), _share(0.001)
    ('48 %', '< 1 %')
    """
    return f"{share * 100:.0f} %" if share >= 0.01 else "< 1 %"


def _kind(session: Session) -> str:
    view = session.opened.view
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
    brings = _prospects(session) if st.session_state.get(ASKED) == session.opened.source.key else {}
    if brings and session.workbench.is_changed:
        st.caption("After the colon: each pass alone, on the original graph.")
    counts = ((state.name, counted(len(state.sites), "site")) for state in states)
    said(session, *((name, f"{told}: {escaped(brings[name])}" if name in brings else told) for name, told in counts))
    if not brings:
        st.button("What would each bring?", key="ask for prospects", on_click=_ask, args=(session,),
                  help="Tries every pass on a copy of the original graph, and measures the share of the time that the "
                  "nodes of its sites take: the most that it can save")  # fmt: skip


def _ask(session: Session) -> None:
    st.session_state[ASKED] = session.opened.source.key


def _prospects(session: Session) -> dict[str, str]:
    """Return the effect of each pass on the original graph in words; empty until it is found."""
    opened = session.opened

    def work(progress: Progress) -> dict[str, str]:
        bench = opened.workbench.another()
        most = _ceilings(opened, bench, progress)
        return {
            state.name: f"{preview(bench, state.name)}; {most[state.name]}" if state.sites else BY_OTHERS
            for state in bench.states
            if progress(0)
        }

    job = session.memo.remember("prospects", None, lambda: Job(work, presence(), MEASUREMENTS))
    return result_soon(job, "Trying every pass") or {}


def _ceilings(opened: OpenModel, bench: Workbench, progress: Progress) -> dict[str, str]:
    """Return the share of the time that the sites of each pass take, in words; nothing where a run is too large."""
    args, kwargs = opened.inputs

    def timed(progress: Progress) -> NodeTimes:
        return node_times(bench.pristine, args, kwargs, rounds=5, budget=SECONDS, on_progress=progress)

    try:
        check_demand(f"{opened.source.title} at {opened.sizes}", opened.demand)
        times = killable(timed, [opened.demand])(progress)
    except FxoptError as error:
        return dict.fromkeys((pass_.name for pass_ in bench.passes), f"time not measured: {error}")
    return {name: f"its sites take {most}" for name, most in ceilings(times, bench.states).items()}
