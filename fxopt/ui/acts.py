"""Acts of a visitor on the passes and edits of their session: each waits its turn, and is done whole or not at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec

from fxopt.edits import Edit
from fxopt.errors import FxoptError
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.outcomes import EditOutcome, RecipeOutcome
from fxopt.ui.session import Session
from fxopt.ui.switches import widget_of
from fxopt.ui.view_state import Compared, Question
from fxopt.workbench import Choice, Sites
from fxopt.workbench.comparing import between

P = ParamSpec("P")


def alone(act: Callable[Concatenate[Session, P], None]) -> Callable[Concatenate[Session, P], None]:
    """Let an act wait for the run of the page, or the other act, that is at the session now; count it.

    Streamlit begins the run that a click asks for while the run before may still be in its callback or drawing, in
    another thread: with no lock, both would be at the workbench at once.
    """

    @functools.wraps(act)
    def waiting(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with session.at_work:
            session.acted += 1
            with all_or_nothing(session):
                act(session, *args, **kwargs)

    return waiting


def obey(session: Session) -> None:
    """Apply the visitor's acts since the last run. To be called before anything is drawn."""
    with session.at_work:
        for listener in session.listeners.values():
            with all_or_nothing(session):
                listener(session)


@alone
def turn(session: Session, name: str, sites: Sites, on: bool, sure: bool = False, widget: str = "") -> None:
    """Switch a pass or some of its sites; ask first, unless `sure`, if others rest on them and they go off.

    `widget` is the switch that was moved, if any.
    """
    bench, before = session.workbench, session.workbench.choices
    question = None
    if on:
        bench.turn_on(name, sites)
    elif not sure and (resting := bench.resting_on(name, sites)):
        question = Question(name, sites, resting)
    else:
        bench.turn_off(name, sites)
    session.view = replace(session.view.looking_at(name), question=question)
    if widget and not sure and question is None:
        session.foreseen.switched(widget, name, sites, on=on, start=before, bench=bench)


@alone
def switch_current(session: Session) -> None:
    """Move the switch that the key Enter stands for (`Session.entered`), if there is one."""
    if session.entered is not None:
        name, site, on = session.entered
        turn(session, name, site or None, not on, widget=widget_of(name, site))


@alone
def answer(session: Session, sure: bool) -> None:
    """Do the act that the question was about, or leave it."""
    question = session.view.question
    session.view = replace(session.view, question=None)
    if question is not None and sure and question.removes:
        remove(session, question.pass_name, sure=True)
    elif question is not None and sure:
        turn(session, question.pass_name, question.sites, on=False, sure=True)


@alone
def edit(session: Session, node: str, read: Callable[[], Sequence[Edit]]) -> None:
    """Make the edits that `read` reads from the form of a node, one after the other, until one is refused."""
    session.view = replace(session.view, question=None)
    made: list[Edit] = []
    refusal = None
    try:
        for one in read():
            made.append(session.workbench.edit(one))
    except FxoptError as error:
        refusal = error
    session.outcome_of_edit = EditOutcome(node, tuple(made), refusal)


@alone
def remove(session: Session, name: str, sure: bool = False) -> None:
    """Take an edit away; ask first, unless `sure`, where others rest on it."""
    question = None
    if not sure and (resting := session.workbench.resting_on(name)):
        question = Question(name, None, resting, removes=True)
    else:
        session.workbench.remove(name)
    session.view = replace(session.view, question=question)


@alone
def replay(session: Session, do: Callable[[], RecipeOutcome]) -> None:
    """Do the work of a recipe by `do`, which returns the outcome to show."""
    _close(session)
    session.outcome_of_recipe = do()


@alone
def choose(session: Session, choices: tuple[Choice, ...]) -> None:
    """Bring the passes to the choices that a search has come to, if they are still of the passes and edits here."""
    _close(session)
    session.workbench.choose(choices, session.workbench.edits)


@alone
def undo(session: Session) -> None:
    _close(session)
    session.workbench.undo()


@alone
def redo(session: Session) -> None:
    _close(session)
    session.workbench.redo()


@alone
def go_to_act(session: Session, number: int) -> None:
    """Go to the state after the first `number` acts of the time line; the later ones stay."""
    _close(session)
    session.workbench.go_to(min(number, len(session.workbench.acts)))
    session.view = replace(session.view, compared=None)


@alone
def compare_acts(session: Session, start: int, end: int) -> None:
    """Compare the states after `start` and after `end` acts of the time line; the graph goes to the second one.

    Both are shown in Diff, or side by side where that is chosen.
    """
    _close(session)
    bench = session.workbench
    if start == end or not all(0 <= number <= len(bench.acts) for number in (start, end)):
        return  # a newer act may have ended those that were undone
    difference, before = between(bench, start, end), session.compared_acts
    compared = Compared(start, end, difference, bench.acts_done if before is None else before.back)
    bench.go_to(end)
    session.view = replace(session.view, together=session.view.together or "Diff", compared=compared)


@alone
def end_comparison(session: Session) -> None:
    """Compare with the original graph again, where the graph was before."""
    compared = session.compared_acts
    if compared is not None:
        _close(session)
        session.workbench.go_to(min(compared.back, len(session.workbench.acts)))
    session.view = replace(session.view, compared=None)


@alone
def reverse_all(session: Session) -> None:
    _close(session)
    session.workbench.reverse_all()


def _close(session: Session) -> None:
    """Close the question and the outcome of the last edit: they are about another state of the passes."""
    session.view = replace(session.view, question=None)
    session.outcome_of_edit = None


@alone
def move(session: Session, name: str, by: int) -> None:
    """Let a pass run earlier (-1) or later (1), as far as there is room."""
    states = [state.name for state in session.workbench.states]
    if name in states and 0 <= (to := states.index(name) + by) < len(states):
        session.workbench.move(name, to)


@alone
def place(session: Session, name: str, before: str) -> None:
    """Let a pass run just before another one; last of all, behind the edits too, where `before` is empty."""
    order = [state.name for state in session.workbench.states]
    if name not in order or (before and before not in order):
        return
    order.remove(name)
    session.workbench.move(name, order.index(before) if before else len(order))
