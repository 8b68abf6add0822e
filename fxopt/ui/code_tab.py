"""The generated code, before and after."""

from __future__ import annotations

import difflib

import streamlit as st

from fxopt.ui.session import Session
from fxopt.ui.tab import Tab

VIEWS = ("Difference", "Now", "Original")


def _draw(session: Session) -> None:
    bench = session.workbench
    chosen = st.segmented_control(
        "Code", VIEWS, default=VIEWS[0], key="code shown", label_visibility="collapsed", required=True
    )
    if chosen == "Original":
        st.code(bench.pristine.code.strip(), language="python", height=420)
    elif chosen == "Now":
        st.code(bench.current.code.strip(), language="python", height=420)
    elif not bench.is_changed:
        st.markdown("No site is on: the code is that of the original.")
    else:
        difference = session.memo.remember("difference", bench.choices, lambda: _difference(session))
        st.code(difference or "the same code; what changed is in the weights", language="diff", height=420)


def _difference(session: Session) -> str:
    before, after = (gm.code.strip().splitlines() for gm in (session.workbench.pristine, session.workbench.current))
    return "\n".join(difflib.unified_diff(before, after, "original", "now", lineterm=""))


CODE = Tab("Code", _draw)
