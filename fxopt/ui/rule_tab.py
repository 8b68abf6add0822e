"""A rule written in the page: an editor, and its matches, near misses and faults after each pause in typing."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import streamlit as st

from fxopt.errors import FxoptError
from fxopt.ui.going import go_to
from fxopt.ui.kept_rule import come_back_soon, keep_in_browser, rules_that_stood_there
from fxopt.ui.markdown import code, counted, escaped, with_code
from fxopt.ui.modules import joined
from fxopt.ui.own_rule import TAB, OwnRule, is_code_allowed, own_rule, put_into_list
from fxopt.ui.panel import acting, work_ended
from fxopt.ui.session import Session
from fxopt.ui.tab import Tab
from fxopt.ui.waiting import result_soon
from fxopt.writing import TEMPLATES, Answer, Fault, Found, source_of_rules
from fxopt.writing.reading import NAMES
from fxopt.writing.rule_process import MOST_TEXT

_words = st.components.v2.component("fxopt_rule_words", js=joined("rule_words"))
LISTED = 8
"""The most matches, and near misses, that are listed."""
ROWS = 12, 20
BEFORE_THE_LIST = "Check the laws first: a rule that obeys them can stand among the passes"
INTO_THE_LIST = (
    "It stands among the passes then, and is switched, undone, compared and measured like any. "
    "It runs where the page runs, without the limits of this tab."
)
LOST = "A reload takes it out of the list; this tab then offers to put it back."
_NOT_ALLOWED = (
    "A rule that you write is Python, and is run on the machine that serves the page. Start it there with "
    "`fxopt app --allow-code` to write one. These are the rules that come with fxopt, to be read."
)


def _draw(session: Session) -> None:
    if not is_code_allowed():
        _to_read()
        return
    mine = own_rule()
    rules_that_stood_there(session, mine)
    written, told = st.columns([3, 2], gap="medium")
    with written:
        _editor(session, mine)
        keep_in_browser(session, mine)
    with told:
        _answer(session, mine)


def _to_read() -> None:
    texts = source_of_rules()
    st.markdown(_NOT_ALLOWED)
    name = st.selectbox("Rules that come with fxopt", list(texts), key="rules to read", width=300)
    st.code(texts[name], language="python", height=320)


def _editor(session: Session, mine: OwnRule) -> None:
    from streamlit_ace import st_ace  # it brings a page of its own, which most visitors never need

    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        st.selectbox("Begin with", [one.title for one in TEMPLATES], index=None, key="rule template", width=230,
                     placeholder="Begin with a template", label_visibility="collapsed",
                     on_change=acting(session, _take_template))  # fmt: skip
        st.button("Check the laws", key="check rule", on_click=acting(session, _check),
                  disabled=not mine.may_run, help="Runs fxopt.testing.check_pass on the open model")  # fmt: skip
        st.button("Put into the list", key="list rule", on_click=acting(session, put_into_list), args=(session,),
                  disabled=not mine.is_lawful, help=INTO_THE_LIST if mine.is_lawful else BEFORE_THE_LIST)  # fmt: skip
        st.download_button("Save", mine.text, "rule.py", "text/x-python", key="save rule", on_click="ignore",
                           icon=":material/download:")  # fmt: skip
        load = st.popover("Load", key="load rule")
        load.file_uploader("A rule in a file", type=["py"], key="rule file", max_upload_size=1,
                           on_change=acting(session, _take_file))  # fmt: skip
    if listed := [one.name for one in session.workbench.added if one.signature in mine.texts]:
        st.caption(f"{', '.join(map(code, listed))} in the list of passes. {LOST}")
    if mine.text != mine.begun and f"rule editor {mine.edition}" not in st.session_state:
        mine.put(mine.text, may_run=mine.may_run)  # the tab was closed meanwhile, and its editor is a new one
    faults = mine.answer.faults if mine.answer is not None and mine.asked[0] == mine.text else ()
    said = st_ace(
        mine.begun, language="python", auto_update=True, wrap=True, min_lines=ROWS[0], max_lines=ROWS[1],
        theme="tomorrow_night" if st.context.theme.type == "dark" else "chrome", key=f"rule editor {mine.edition}",
        annotations=[_annotation(one) for one in faults if one.line],
    )  # fmt: skip
    if isinstance(said, str):
        mine.write(said[: MOST_TEXT + 1])
    _words(key="rule words", data={"names": NAMES})


def _annotation(fault: Fault) -> dict[str, object]:
    return {"row": fault.line - 1, "column": 0, "type": "error", "text": fault.text}


def _take_template() -> None:
    title = st.session_state.get("rule template")
    chosen = next((one for one in TEMPLATES if one.title == title), None)
    if chosen is not None:
        own_rule().put(chosen.text, may_run=True)
        st.session_state["rule template"] = None


def _take_file() -> None:
    file = st.session_state.get("rule file")
    if file is not None:
        own_rule().put(file.getvalue().decode("utf-8", "replace")[: MOST_TEXT + 1], may_run=False)


def _allow() -> None:
    own_rule().may_run = True


def _check() -> None:
    own_rule().check()


def _answer(session: Session, mine: OwnRule) -> None:
    if come_back_soon(session, mine):
        return
    if not mine.may_run:
        st.warning(f"This text {mine.origin}, and has not been run. Read it first.", icon=":material/block:")
        st.button("Run it", key="run rule", type="primary", on_click=acting(session, _allow))
        return
    try:
        job = mine.ask(session)
        told = "Checking the laws" if mine.asked[1] else "Trying your rule"
        at_once = job.is_cancelled or not mine.asked[1]
        answer = result_soon(job, told, can_cancel=True, at_once=at_once, ended=partial(_answered, session, mine))
    except FxoptError as error:
        mine.wants_check = False
        st.error(escaped(str(error)))
        return
    if answer is None:
        return
    if mine.take_in(answer):
        work_ended(session)  # for the marks in the graph
    _show(session, answer)


def _answered(session: Session, mine: OwnRule) -> None:
    """Take in the answer before the panels that show it are drawn."""
    if mine.job is not None and mine.job.result is not None:
        mine.take_in(mine.job.result)
    work_ended(session)


def _show(session: Session, answer: Answer) -> None:
    for fault in answer.faults:
        _fault(fault)
    for one in answer.found:
        st.markdown(f"**{escaped(one.name)}**: {with_code(one.summary or 'say in a docstring what it replaces')}")
        if one.checked:
            st.success(escaped(one.checked), icon=":material/check:")
        _places(session, one)


def _fault(fault: Fault) -> None:
    st.error(escaped(str(fault)), icon=":material/error:")
    if fault.code:
        st.code(fault.code, language="python", wrap_lines=True)


def _places(session: Session, one: Found) -> None:
    st.markdown(
        f"{counted(len(one.sites), 'match', 'matches')}, {counted(len(one.misses), 'near miss', 'near misses')}"
    )
    for site in one.sites[:LISTED]:
        _line(session, f"{one.name} matches {site.node}", site.node, site.explanation)
    for miss in one.misses[:LISTED]:
        remedy = f" {miss.remedy}" if miss.remedy else ""
        _line(session, f"{one.name} misses {miss.node}", miss.node, f"near miss: {miss.reason}.{remedy}")
    more = max(len(one.sites) - LISTED, 0) + max(len(one.misses) - LISTED, 0) + one.more
    if more:
        st.caption(f"and {more} more")


def _line(session: Session, key: str, node: str, told: str) -> None:
    go: Callable[..., None] = acting(session, go_to)
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        st.button(code(node), key=key, type="tertiary", help="Show this node", on_click=go, args=(session, node))
        st.caption(with_code(told))


def _shown(session: Session) -> Hashable:
    if not is_code_allowed():
        return session.workbench.choices, st.session_state.get("rules to read")
    mine = own_rule()
    mine_now = (mine.edition, mine.text, mine.may_run, mine.wants_check, mine.asked, mine.answer)
    return *mine_now, mine.gone, mine.coming_back, session.workbench.choices


RULE = Tab(TAB, _draw, _shown)
