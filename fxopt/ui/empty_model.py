"""The list of passes where none finds a site: the layers that are there, and the next step."""

from __future__ import annotations

from collections import Counter

import streamlit as st

from fxopt.ui.markdown import code, escaped
from fxopt.ui.session import Session

ANOTHER = "digits_transformer"
NAMED = 4
"""The most classes of layers that are named."""


def nothing_to_do(session: Session) -> None:
    """Draw the reason why no pass acts on this model, and the ways to go on."""
    classes = Counter(session.opened.view.module_classes.values())
    layers = ", ".join(f"{count} {code(name)}" for name, count in classes.most_common(NAMED) if name)
    passes = [state.pass_ for state in session.listed_passes if state.pass_.needs]
    needs = [f"- {escaped(pass_.label)} needs {escaped(pass_.needs)}." for pass_ in passes]
    has = f" It has {layers}." if layers else ""
    st.info("\n".join([f"**No pass finds a site in this model.**{has}", "", *needs]), icon=":material/search_off:")
    st.caption("Next: click a node in the graph and edit it by hand, or open a model that passes can rewrite.")
    if st.button("Open the small transformer", key="open another", on_click=_open, args=(ANOTHER,)):
        st.rerun()  # the picker of models stands outside of this panel


def _open(model: str) -> None:
    st.session_state["model"] = model
