"""Two compared states of the time line in a link, and back: a reload and a sent link restore the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fxopt.recipes.link import Link, same_steps
from fxopt.recipes.replay import Problem
from fxopt.recipes.steps import Step
from fxopt.ui.memo import RECENT
from fxopt.ui.session import Session
from fxopt.ui.view_state import Compared
from fxopt.workbench import Workbench
from fxopt.workbench.comparing import at_act, between, choices_after


def with_comparison(session: Session, link: Link) -> Link:
    """Return the link to a session as it is now with the two states that it compares, if it compares two.

    Raises:
        RecipeError: an argument of a pass or an edit there has no form in a recipe.
    """
    compared, bench = session.compared_acts, session.workbench
    if compared is None:
        return link
    start, back = (min(number, len(bench.acts)) for number in (compared.start, compared.back))
    is_back_there = choices_after(bench, back) == bench.choices
    return replace(link, since=_steps(session, start), back=None if is_back_there else _steps(session, back))


def _steps(session: Session, done: int) -> tuple[Step, ...]:
    bench = session.workbench
    return session.memo.remember(
        "linked steps", choices_after(bench, done), lambda: Link.of(at_act(bench, done)).steps, answers=RECENT
    )


def replay_comparison(session: Session, link: Link) -> tuple[Compared | None, list[Problem]]:
    """Bring the workbench to the second of the two states that a link compares.

    States that the time line lacks become acts at its end.

    Returns:
        the comparison, or None where both states are the same here; and the parts of the link that do not apply.

    Raises:
        RecipeError: a replay failed.
    """
    bench, problems = session.workbench, list[Problem]()
    numbers = []
    for steps in (link.since or (), link.steps, link.steps if link.back is None else link.back):
        number = _number_of(bench, steps)
        if number is None:
            bench.go_to(len(bench.acts))
            problems += Link(steps).replay(bench).problems
            number = bench.acts_done
        numbers.append(number)
    start, end, back = numbers
    bench.go_to(end)
    compared = Compared(start, end, between(bench, start, end), back) if start != end else None
    return compared, list(dict.fromkeys(problems))


def _number_of(bench: Workbench, steps: Sequence[Step]) -> int | None:
    """Return the number of acts after which the time line has these steps, or None."""
    switched = [(step.on, step.without) for step in steps]
    for done in range(len(bench.acts) + 1):
        may_be_there = [(one.on, one.without) for one in choices_after(bench, done)] == switched
        if may_be_there and same_steps(Link.of(at_act(bench, done)).steps, steps):
            return done
    return None
