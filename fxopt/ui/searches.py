"""Searches beside the page: a button that begins one, its line while it runs, and its answer."""

from __future__ import annotations

from typing import Any

import streamlit as st

from fxopt.ui.job import GraphJob, Job
from fxopt.ui.markdown import escaped
from fxopt.ui.progress import watch
from fxopt.ui.session import Session


def answer_of(session: Session, key: str, running: str, *, of_original: bool = False, **button: Any) -> Any:
    """Draw a search while it runs, else its fault and the button that begins it anew; return its answer.

    It is None where there is no answer, or the sites that are on are others than those that it is about.

    Args:
        running: a few words on its work while it runs.
        of_original: the answer is about the original alone, and holds whatever sites are on.
        button: the arguments of `st.button`.
    """
    found = session.searches.get(key)
    if found is not None and found.job.running:
        watch(found.job, key, running)
        return None
    if found is not None and found.job.error and not found.job.is_cancelled:
        st.error(escaped(found.job.error))
    st.button(key=f"search {key}", **button)
    if found is None or not (of_original or found.choices == session.workbench.choices):
        return None
    return found.job.result


def keep(session: Session, key: str, job: Job[Any]) -> None:
    """Keep the search that was begun at the choices of passes of now."""
    session.searches = {**session.searches, key: GraphJob(session.workbench.choices, job)}
