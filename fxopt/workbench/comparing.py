"""The difference between two states of the time line: as if one act had led from the first to the second."""

from __future__ import annotations

from fxopt.errors import FxoptError
from fxopt.workbench.timeline import Act, Choices, act_between
from fxopt.workbench.workbench import Workbench


def between(bench: Workbench, start: int, end: int) -> Act:
    """Return the difference between the states after the first `start` and after the first `end` acts, in either order.

    Its `before` and `after` are the choices there; `Workbench.trial` makes a graph of them. The workbench stays as it
    is, and the present state need not be one of the two.

    Raises:
        FxoptError: there are fewer acts.

    >>> from torch import nn, rand
    >>> wb = Workbench(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Identity()).eval(), (rand(2, 3, 8, 8),))
    >>> wb.turn_on("RemoveIdentities")
    >>> wb.turn_on("FuseBatchNorm2dInConv2d")
    >>> wb.turn_off("RemoveIdentities")
    >>> between(wb, 1, 3).sentence
    'At once: Fold BatchNorm2d at _1; Remove identities off'
    >>> between(wb, 1, 0).created
    ('_2',)
    """
    old, new = at_act(bench, start), at_act(bench, end)
    return act_between(old.choices, old.states, new.choices, new.states)


def choices_after(bench: Workbench, done: int) -> Choices:
    """Return the choices after the first `done` acts.

    Raises:
        FxoptError: there are fewer acts.
    """
    acts = bench.acts
    if not 0 <= done <= len(acts):
        raise FxoptError(f"there is no state after {done} acts: give 0 to {len(acts)}")
    if done == bench.acts_done:
        return bench.choices
    return acts[done].before if done < len(acts) else acts[-1].after


def at_act(bench: Workbench, done: int) -> Workbench:
    """Return a workbench at the state after the first `done` acts, to be read: `bench` itself where it is there.

    Raises:
        FxoptError: there are fewer acts.
    """
    choices = choices_after(bench, done)
    if done == bench.acts_done:
        return bench
    there = bench.another()
    there.choose(choices, bench.known)
    return there
