"""A rule that the visitor writes: its text, the answer to it, and the process that answers; with ``--allow-code``."""

from __future__ import annotations

import secrets
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import streamlit as st

from fxopt.errors import CancelledError, FxoptError
from fxopt.lessons.facts import RULE_TAB
from fxopt.recipes.replay import Problem
from fxopt.ui.acts import alone
from fxopt.ui.folders import is_served_here
from fxopt.ui.job import Job, Progress
from fxopt.ui.markdown import counted
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.workshop import code_allowed
from fxopt.view import Mark
from fxopt.view.marks import MarkKind
from fxopt.writing import TEMPLATES, Answer, RuleProcess
from fxopt.writing.reading import passes_of
from fxopt.writing.rule_process import can_run

NAME = "your rule"
"""The rule in the legend of the graph."""
TAB = RULE_TAB
TYPED_SECONDS = 0.5
"""The time in which all that was typed before a click has come: the editor sends it 0.2 s after the last key."""
NOT_BROUGHT = "a rule that someone wrote stays on their own page"
_KEY = "own rule"


def is_code_allowed() -> bool:
    """Return whether a rule may be written and run here: whoever serves the page allowed it, on this machine alone."""
    return code_allowed.is_set() and is_served_here()


@dataclass(eq=False)
class OwnRule:
    """One visitor's rule. It outlasts the sessions with models."""

    text: str = TEMPLATES[0].text
    begun: str = TEMPLATES[0].text
    """The text that the editor began with."""
    is_new: bool = True
    """Whether the visitor has written nothing yet, and nothing came from elsewhere."""
    visit: str = field(default_factory=lambda: secrets.token_hex(8))
    """The mark of this visit, by which the browser knows a new one."""
    has_heard: bool = False
    """Whether the browser has sent the rule that it kept from an earlier visit."""
    edition: int = 0
    """The number of the editor: another text from outside of it gets a new one."""
    may_run: bool = True
    """False for a text from a file or from before a reload, until the visitor asks for it to be run."""
    origin: str = ""
    """The source of a text that may not be run yet, in words."""
    texts: dict[str, str] = field(default_factory=dict)
    """By signature of a rule that was put into the list of passes, its text."""
    gone: tuple[str, ...] = ()
    """The texts whose rules stood in the list of passes before a reload; see `fxopt.ui.kept_rule`."""
    coming_back: Job[list[tuple[str, Answer]]] | None = None
    """The work on putting them there again."""
    wants_check: bool = False
    """Whether the visitor waits for the laws to be checked. The answer ends it; a text that comes before is checked."""
    asked: tuple[str, bool] = ("", False)
    """The text that was asked about last, and whether its laws are checked."""
    job: Job[Answer] | None = None
    answer: Answer | None = None
    """The last answer, for the marks in the graph."""
    answered: tuple[str, bool] = ("", False)
    """The text that it is about, and whether its laws were checked."""
    process: RuleProcess | None = None
    of: weakref.ref[Session] | None = None
    """The session whose graph the process holds."""

    @property
    def is_lawful(self) -> bool:
        """Whether the laws were checked of the text as it is, and hold."""
        return self.answer is not None and self.answered == (self.text, True) and holds(self.answer)

    def write(self, text: str) -> None:
        """Take over the text that the editor has."""
        self.is_new = self.is_new and text == self.text
        self.text = text

    def put(self, text: str, *, may_run: bool, origin: str = "came from a file") -> None:
        """Put a text into the editor, in place of the one that is there."""
        if text != self.text:
            self.answer, self.asked, self.wants_check = None, ("", False), False
        self.text = self.begun = text
        self.edition += 1
        self.is_new = False
        self.may_run, self.origin = may_run, origin

    def check(self) -> None:
        """Let the laws be checked, of the text that the editor has by now: its last part may be on its way."""
        self.wants_check = True
        self.rest()  # an earlier answer would come at once, before that last part

    def rest(self) -> None:
        """End the work on the answer that runs."""
        if self.job is not None:
            self.job.cancel()
            self.job = None

    def ask(self, session: Session) -> Job[Answer]:
        """Return the work on the answer to the text as it is, begun where it is new. It ends the one before."""
        process = self.process_for(session)
        asked = (self.text, self.wants_check or self.asked == (self.text, True))
        if self.job is None or self.asked != asked or _is_lost(self.job):
            if self.job is not None:
                self.job.cancel()
            text, with_checks = asked
            self.asked = asked

            def work(progress: Progress) -> Answer:
                if with_checks:
                    _wait_for_what_was_typed(progress)
                return process.ask(text, checks=with_checks, wanted=lambda: progress(0))

            self.job = Job(work, presence())
        return self.job

    def take_in(self, answer: Answer) -> bool:
        """Take over the answer to the text that was asked about last; return whether it is another than before."""
        if self.asked[1]:
            self.wants_check = False
        is_new = answer is not self.answer or self.answered != self.asked
        self.answer, self.answered = answer, self.asked
        return is_new

    def process_for(self, session: Session) -> RuleProcess:
        """Return the process, which holds the graph of a session by then."""
        process = self.begin(session)
        if self.of is None or self.of() is not session:
            self.leave_for(session)
            process.hold(session.opened.pristine, *session.opened.inputs)
            self.of = weakref.ref(session)
        return process

    def begin(self, session: Session) -> RuleProcess:
        """Return the process, begun: it ends when the session rests, and when the visitor is gone."""
        if self.process is None:
            self.process = RuleProcess()
            weakref.finalize(self, self.process.close)
        self.process.begin()
        session.at_rest[_KEY] = self.process.close  # each time: a session that has rested has let go of it
        return self.process

    def begin_ahead(self, session: Session) -> None:
        """Begin the process, which takes seconds, before there is a text; a system without it says so at the text."""
        if can_run():
            self.begin(session)

    def leave_for(self, session: Session) -> None:
        """End the work on the graph of another session, and let its answers go; the text and the process stay."""
        self.rest()
        if self.coming_back is not None:
            self.coming_back.cancel()
        before = self.of() if self.of is not None else None
        if before is not None and _KEY in before.at_rest:
            session.at_rest[_KEY] = before.at_rest.pop(_KEY)
        self.of, self.coming_back, self.answer = None, None, None


def holds(answer: Answer) -> bool:
    """Return whether an answer has rules, and the laws of each were checked and hold."""
    return not answer.faults and bool(answer.found) and all(one.checked for one in answer.found)


def _wait_for_what_was_typed(progress: Progress) -> None:
    begun = time.monotonic()
    while time.monotonic() < begun + TYPED_SECONDS:
        if not progress(0):
            raise CancelledError("the answer is no longer wanted")
        time.sleep(0.05)


def _is_lost(job: Job[Answer]) -> bool:
    """Return whether the work ended because its session rested, rather than because the visitor cancelled it."""
    return isinstance(job.failure, CancelledError) and not job.is_cancelled


def own_rule() -> OwnRule:
    """Return the rule of the visitor whose page is drawn."""
    found: OwnRule = st.session_state.setdefault(_KEY, OwnRule())
    return found


def leave_other_models(session: Session) -> None:
    """End the work on the graph of another session of the visitor, whose session is this one now."""
    mine: OwnRule | None = st.session_state.get(_KEY)
    if mine is not None and mine.of is not None and mine.of() is not session:
        mine.leave_for(session)


def shown_answer(session: Session) -> Answer | None:
    """Return the answer whose marks the graph shows: the tab of the rule is open, and it is about this session's."""
    mine: OwnRule | None = st.session_state.get(_KEY)
    if mine is None or st.session_state.get("evidence") != TAB or mine.of is None or mine.of() is not session:
        return None
    return mine.answer


def present_answer(session: Session) -> Answer | None:
    """Return the answer about this session's graph to the text as it is now; None where there is none yet."""
    mine: OwnRule | None = st.session_state.get(_KEY)
    if mine is None or mine.of is None or mine.of() is not session or mine.asked[0] != mine.text:
        return None
    return mine.job.result if mine.job is not None else None


@alone
def put_into_list(session: Session) -> None:
    """Take the rules of the text, whose laws hold, into the list of passes, where they are switched like any.

    They take the place of those that the list has of an earlier text.

    Raises:
        FxoptError: the laws were not checked of the text as it is, or a built-in pass has the name of one.
    """
    mine = own_rule()
    if not mine.is_lawful:
        raise FxoptError("first check the laws of the text as it is now")
    add_rules(session, mine.text)
    mine.gone = tuple(text for text in mine.gone if text != mine.text)


def add_rules(session: Session, text: str) -> None:
    """Take the rules of a text, whose laws hold, into the list of passes: it is run here.

    Raises:
        FxoptError: the text has a fault here, or a built-in pass has the name of one.
    """
    mine, (passes, fault) = own_rule(), passes_of(text)
    if fault is not None:
        raise FxoptError(str(fault))
    for one in passes:
        session.workbench.add(one)
        mine.texts[one.signature], mine.is_new = text, False
    session.view = session.view.looking_at(passes[-1].name)


def missing_pass(name: str) -> str:
    """Return the sentence on a pass that a recipe or address names and that is not here: it may have been a rule."""
    lost = f"the tab {TAB} puts a rule that you wrote into the list" if is_code_allowed() else NOT_BROUGHT
    return f"{name}: no pass of this name is in the list here; {lost}"


def problem_in_words(problem: object) -> str:
    """Return a part of a recipe that does not apply here, in words."""
    if isinstance(problem, Problem) and problem.is_unknown_pass:
        return missing_pass(problem.name)
    return str(problem)


def marks_of_rule(answer: Answer | None, index: int) -> Mapping[str, Sequence[Mark]]:
    """Return the marks of the visitor's rule by node name."""
    found: dict[str, tuple[Mark, ...]] = {}
    for one in answer.found if answer is not None else ():
        found |= {miss.node: (Mark("miss", index, miss.node),) for miss in one.misses}
        found |= {site.node: (Mark("matched", index, site.node),) for site in one.sites}
    return found


def legend_of_rule(answer: Answer | None, index: int) -> tuple[tuple[MarkKind, int, str], ...]:
    """Return the lines of the legend on the visitor's rule."""
    if answer is None:
        return ()
    sites = sum(len(one.sites) for one in answer.found)
    misses = sum(len(one.misses) for one in answer.found)
    told: list[tuple[MarkKind, int, str]] = []
    if sites:
        told.append(("matched", index, counted(sites, "match", "matches")))
    if misses:
        told.append(("miss", index, counted(misses, "near miss", "near misses")))
    return tuple(told)
