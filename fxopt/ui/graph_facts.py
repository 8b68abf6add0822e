"""The line below the graph: the way in which it was captured, and the cost on its boxes."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from fxopt.ui.costs import chosen_costs, cost_controls, costs_of
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session


def shown_by_facts(session: Session) -> Hashable:
    return session.view.shown, chosen_costs(), session.workbench.choices if any(chosen_costs()) else None


def draw_facts(session: Session) -> None:
    """Draw a line with the way in which the graph was captured, and the cost on its boxes."""
    opened = session.opened
    report = opened.report
    rungs = {
        "plain": "traced by torch.fx",
        "symbolic": "captured with free sizes",
        "fixed": "captured at fixed sizes",
        "real": "captured with values of the example in it",
        "given": "given as a graph",
    }
    free = f", free: {', '.join(report.free)}" if report.free else ""
    replayed = ", replayed against the model" if report.verified else ", not replayed"
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="graph facts"):
        cost_controls(session)
        costs = costs_of(session, session.view.shown)
        note = f"  \n{escaped(costs.note[0].upper() + costs.note[1:])}." if costs is not None and costs.note else ""
        told = (
            f"{escaped(opened.source.title)} at {opened.sizes} · {rungs.get(report.rung, report.rung)} "
            f"in {report.seconds:.1f} s{escaped(free)}{replayed}{note}"
        )
        words = "  \n".join(f"*{word}*: {GLOSSARY[word]}" for word in ("free", "replayed"))
        st.caption(told, help=f"{told}  \n{words}")
