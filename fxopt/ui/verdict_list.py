"""The verdicts of all passes on the selected node: sites with their code, near misses, or the reason for silence."""

from __future__ import annotations

import streamlit as st

from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.session import Session
from fxopt.ui.site_evidence import site_evidence
from fxopt.ui.site_list import EXACTNESS_WORDS, told_of_miss
from fxopt.workbench import SiteState
from fxopt.workbench.site_code import site_code
from fxopt.workbench.verdicts import Verdict, verdicts_of


def verdict_list(session: Session, name: str) -> None:
    """Draw the verdicts, sites and near misses first. A search finds the verdict of one pass."""
    key = (session.workbench.choices, name)
    verdicts = session.memo.remember("verdicts", key, lambda: verdicts_of(session.workbench, name))
    st.markdown("**What the passes say**")
    wanted = st.text_input(
        "Why does nothing happen here?",
        key="asked pass",
        placeholder="Why nothing here? Type a pass",
        label_visibility="collapsed",
    ).strip()
    found = [one for one in verdicts if wanted.lower() in f"{one.state.name} {one.state.pass_.label}".lower()]
    if not found:
        st.caption(f"No pass is called {escaped(wanted)}.")
    silent = [verdict for verdict in found if verdict.kind == "silent"]
    for verdict in found:
        if verdict.kind != "silent":
            _verdict(session, name, verdict)
    if wanted:
        _silence(session, silent)
    elif silent:
        rest = st.expander(f"Why nothing from {counted(len(silent), 'pass', 'passes')}", key="why nothing")
        with rest:
            _silence(session, silent)


def _silence(session: Session, verdicts: list[Verdict]) -> None:
    said(session, *((verdict.state.name, f"nothing here: {escaped(verdict.reason)}.") for verdict in verdicts))


def _verdict(session: Session, name: str, verdict: Verdict) -> None:
    pass_name = verdict.state.name
    if verdict.miss is not None:
        said(session, (pass_name, f"**near miss**: {told_of_miss(verdict.miss)}"))
    elif verdict.site is not None:
        site = verdict.site
        at = "here" if site.site == name else f"at {code(site.site)}"
        done = "applied" if verdict.kind == "applied" else "matches"
        _, color = EXACTNESS_WORDS[site.exactness]
        told = f"{escaped(site.explanation.rstrip('.'))}. Exactness: :{color}[{site.exactness.value}]."
        said(session, (pass_name, f"**{done} {at}**: {told}"))
        _code(session, verdict.state.name, site)
        site_evidence(session, verdict.state.name, site.site)


def _code(session: Session, pass_name: str, site: SiteState) -> None:
    """Draw the site's lines of generated code, computed only where they are asked for."""
    lines = st.expander("Code before and after", key=f"code of {pass_name} at {site.site}", on_change="rerun")
    if not lines.open:
        return
    bench = session.workbench
    key = (bench.choices, pass_name, site.site)
    told = session.memo.remember("site code", key, lambda: site_code(bench, pass_name, site.site))
    with lines:
        for label, text in (("Before", told.before), ("After", told.after)):
            st.caption(label if text else f"{label}: no line")
            if text:
                st.code(text, language="python", wrap_lines=True)
        if told.before == told.after:
            st.caption("The lines are the same: only weights change.")


def said(session: Session, *lines: tuple[str, str]) -> None:
    """Draw lines on passes or edits as one element: each pass by its name, with its text as Markdown, all escaped.

    A line has the letter of the pass, its name in words, the text, and, last, its class small.
    """
    if lines:
        # The letter alone is HTML: in an escaped text, none is read as such.
        st.markdown("\n\n".join(_line(session, *line) for line in lines), unsafe_allow_html=True)


def _line(session: Session, pass_name: str, text: str) -> str:
    style = session.styles[pass_name]
    kind = f" :small[:gray[{code(pass_name)}]]" if style.name != pass_name and not session.is_edit(pass_name) else ""
    letter = f'<span class="letter" style="--pass: {style.color}">{style.letter}</span>'
    return f"{letter} {escaped(style.name)} {text}{kind}"
