"""The report on a model that could not be opened: its failing line, remedies, and the graph up to there."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st
from torch.fx import GraphModule

from fxopt.errors import FxoptError, ModelError
from fxopt.tracing import CaptureError
from fxopt.ui.graph_component import graph_component
from fxopt.ui.markdown import code, counted, escaped
from fxopt.view import GraphView, Layout, default_unfolded, layout, pack, visible

HEIGHT = 340


@dataclass(frozen=True, eq=False)
class Problem:
    """A failed request and its error."""

    title: str
    error: Exception
    picture: Layout | None = None
    """The picture of the graph up to the failing line."""

    @classmethod
    def of(cls, title: str, error: Exception) -> Problem:
        partial = error.partial if isinstance(error, CaptureError) else None
        return cls(title, error, _picture(partial) if partial is not None else None)

    @property
    def told(self) -> str:
        if isinstance(self.error, CaptureError):
            reasons = (self.error.subject, *(rung.reason for rung in self.error.rungs[-1:]))
            return " ".join(reasons)
        known = isinstance(self.error, FxoptError)
        return str(self.error) if known else f"{type(self.error).__name__}: {self.error}"


def _picture(partial: GraphModule) -> Layout:
    view = GraphView.of(partial)
    return layout(visible(view, default_unfolded(view)))


def show_problem(problem: Problem, still_open: str) -> None:
    """Draw it, and name the model that is still open, if any."""
    still = f"\n\nStill open: **{escaped(still_open)}**, as it was." if still_open else ""
    named = isinstance(problem.error, ModelError) or problem.title in problem.told
    heading = "" if named else f"**{escaped(problem.title)}**: "
    with st.container(horizontal=True, key="problem"):
        st.error(f"{heading}{escaped(problem.told)}{still}", icon=":material/error:")
        st.button(
            "Dismiss", icon=":material/close:", key="icon dismiss", help="Dismiss", on_click=_dismiss, type="tertiary"
        )
    if isinstance(problem.error, CaptureError):
        _capture_failed(problem, problem.error)


def _dismiss() -> None:
    st.session_state.pop("problem", None)


def _capture_failed(problem: Problem, error: CaptureError) -> None:
    words, picture = st.columns([4, 5]) if problem.picture is not None else (st.container(), None)
    with words:
        if error.line is not None:
            st.markdown("**The line of the model**")
            if error.line.text:
                st.code(error.line.text, language="python", wrap_lines=True)
            file = "/".join(error.line.file.replace("\\", "/").split("/")[-2:])
            st.caption(f"{escaped(file)}, line {error.line.line}, in {code(error.line.function)}")
        if error.remedies:
            st.markdown("\n".join(["**What to try**", "", *(f"- {escaped(remedy)}" for remedy in error.remedies)]))
        ways = st.expander(f"{counted(len(error.rungs), 'way')} tried", key="ways tried")
        ways.markdown("\n".join(f"- **{escaped(rung.rung)}**: {escaped(rung.reason)}" for rung in error.rungs))
    if picture is not None and problem.picture is not None:
        with picture:
            st.markdown("**The graph up to there**")
            graph_component(
                pack(problem.picture),
                problem.picture.id,
                key="partial graph",
                height=HEIGHT,
                title=f"Graph of {problem.title}, up to the line that failed",
                subject=f"partial {problem.title}",
                foldable=False,
            )
