"""A visitor's rule through a reload: the browser keeps its text, and those of the rules in the list of passes.

A reload begins a new visit, in which the text comes back into the editor. None of it is run until the visitor asks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import streamlit as st

from fxopt.errors import FxoptError
from fxopt.ui.acts import alone
from fxopt.ui.events import sent_by
from fxopt.ui.fault import complain
from fxopt.ui.job import Job, Progress
from fxopt.ui.markdown import escaped
from fxopt.ui.modules import joined
from fxopt.ui.own_rule import OwnRule, add_rules, holds, own_rule
from fxopt.ui.panel import acting
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.waiting import result_soon
from fxopt.writing import Answer
from fxopt.writing.reading import MOST_RULES
from fxopt.writing.rule_process import MOST_TEXT

KEY = "rule keeper"
STOOD_THERE = (
    "**A rule of yours stood in the list of passes before the page was loaded anew.** It has not been run since. One "
    "click checks its laws on this model, and puts it into the list again."
)
_AGAIN = "Put it into the list again"
_keeper = st.components.v2.component("fxopt_rule_keeper", js=joined("rule_keeper"))


def keep_in_browser(session: Session, mine: OwnRule) -> None:
    """Let the browser keep the visitor's rule; in a new visit, ask it for the one that it has kept."""
    kept = None if mine.is_new else json.dumps({"text": mine.text, "listed": [*_listed(session, mine)]})
    data = {"kept": kept, "visit": mine.visit, "heard": mine.has_heard}
    _keeper(key=KEY, data=data, on_found_change=acting(session, _come_back))


def _listed(session: Session, mine: OwnRule) -> dict[str, None]:
    """Return the texts whose rules stand in the list of passes, or did before a reload."""
    here = (mine.texts.get(one.signature) for one in session.workbench.added)
    return dict.fromkeys([*mine.gone, *filter(None, here)])


def _come_back() -> None:
    mine, found = own_rule(), _read(sent_by(KEY, "found"))
    if mine.has_heard:
        return
    mine.has_heard = True
    if found is not None:
        text, listed = found
        mine.gone = tuple(one for one in listed if one not in mine.texts.values())
        if mine.is_new:
            mine.put(text, may_run=False, origin="is as it was before the page was loaded anew")


def _read(sent: object) -> tuple[str, tuple[str, ...]] | None:
    """Return the text and the listed texts of a message, which may be any JSON; None where it is no kept rule."""
    try:
        kept = json.loads(sent) if isinstance(sent, str) and len(sent) <= 8 * MOST_RULES * MOST_TEXT else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or not isinstance(kept.get("listed"), list):
        return None
    texts = [kept.get("text"), *kept["listed"][:MOST_RULES]]
    if not all(isinstance(one, str) and len(one) <= MOST_TEXT + 1 for one in texts):
        return None
    return texts[0], tuple(texts[1:])


def rules_that_stood_there(session: Session, mine: OwnRule) -> None:
    """Draw the offer to put the rules into the list that stood there before a reload."""
    if not mine.gone:
        return
    with st.container(key="rules gone", gap="xsmall"):
        st.info(STOOD_THERE, icon=":material/history:")
        with st.container(horizontal=True, gap="xsmall"):
            st.button(_AGAIN, key="list again", type="primary", on_click=acting(session, partial(_begin, session)))
            st.popover("Read it", key="read gone").code("\n\n".join(mine.gone), language="python")
            st.button("Leave it out", key="leave gone", type="tertiary", on_click=acting(session, _leave))


def _leave() -> None:
    own_rule().gone = ()


def _begin(session: Session) -> None:
    """Check the laws of the rules that stood in the list: the visitor asked for them to be run."""
    mine = own_rule()
    mine.rest()
    mine.may_run = mine.may_run or mine.text in mine.gone
    process, texts = mine.process_for(session), mine.gone

    def work(progress: Progress) -> list[tuple[str, Answer]]:
        return [(text, process.ask(text, checks=True, wanted=lambda: progress(0))) for text in texts]

    mine.coming_back = Job(work, presence())


def come_back_soon(session: Session, mine: OwnRule) -> bool:
    """Put the rules into the list whose laws are being checked; return whether this is going on."""
    job = mine.coming_back
    if job is None:
        return False
    try:
        answers = result_soon(job, "Checking the laws of the rule that stood in the list", can_cancel=True)
    except FxoptError as error:
        mine.coming_back = None
        st.error(escaped(str(error)))
        return True
    if answers is not None:
        mine.coming_back = None
        _put_back(session, answers)
        st.rerun()
    return True


@alone
def _put_back(session: Session, answers: Sequence[tuple[str, Answer]]) -> None:
    """Take the rules whose laws hold into the list. A text that the visitor has dealt with meanwhile is left alone."""
    mine = own_rule()
    for text, answer in answers:
        if text not in mine.gone:
            continue
        fault = "it has no rule whose laws could be checked"
        if holds(answer):
            try:
                add_rules(session, text)
            except FxoptError as error:
                fault = str(error)
            else:
                mine.gone = tuple(one for one in mine.gone if one != text)
                continue
        elif answer.faults:
            fault = str(answer.faults[0])
        complain(f"**A rule was left out of the list.** {escaped(fault)}")
