"""The end of an act, where it is committed: an interruption at every line of it leaves the act whole or not made."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from torch.fx import GraphModule

from fxopt import ALL_PASSES, MergeLinears, Pass, fingerprint
from fxopt.core import shared_copy
from tests.examples import Example
from tests.interrupting import Lines, assert_nothing_lingers, state_of
from tests.passes.declared import EXAMPLES

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WAYS = pytest.mark.parametrize("reverse", [False, True], ids=["apply", "reverse"])


def example_of(pass_: Pass) -> Example:  # type: ignore[type-arg]
    return next(example for example in EXAMPLES if pass_.scan(example.graph()).matches)


def interrupt_the_end(pass_: Pass, reverse: bool, count: int, instructions: bool = False) -> tuple[int, int]:  # type: ignore[type-arg]
    """Interrupt a call of a pass at each of its last `count` lines; return how often it was not made, and was."""
    example = example_of(pass_)
    captured, inputs = example.graph(), example.inputs()
    pristine = fingerprint(captured)

    def prepared() -> tuple[GraphModule, Callable[[], object]]:
        gm = shared_copy(captured)
        if reverse:
            pass_(gm)
            gm.recompile()
        return gm, lambda: pass_(gm, reverse=reverse)

    prepared()[1]()  # fills caches, whose lines do not run again
    lines, (gm, act) = Lines(instructions=instructions), prepared()
    before = state_of(gm)
    lines.run(act)
    after = state_of(gm)
    undone = done = 0
    for at in range(lines.count - count + 1, lines.count + 1):
        stop, (gm, act) = Lines(at, instructions=instructions), prepared()
        interrupted, now = stop.run(act), state_of(gm)
        told = f"interrupted at {at} of {lines.count}, {stop.where}; {stop.count} ran"
        assert interrupted == bool(stop.where), f"an interruption is not swallowed: {told}"
        assert now in ((before, after) if interrupted else (after,)), told  # of fewer lines, the act is whole
        undone, done = undone + (now == before), done + (now == after)
        gm.recompile()
        assert_nothing_lingers(gm, inputs, pristine)
    return undone, done


@WAYS
def test_the_last_lines_of_an_act_leave_it_whole_or_not_made(reverse: bool) -> None:
    interrupt_the_end(MergeLinears(), reverse, 6)


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("kind", ALL_PASSES, ids=lambda kind: kind.__name__)
def test_every_line_of_the_commit_of_every_pass_leaves_it_whole_or_not_made(kind: type[Pass], reverse: bool) -> None:  # type: ignore[type-arg]
    undone, done = interrupt_the_end(kind(), reverse, 60)
    assert undone
    assert done, "the lines on both sides of the commit were interrupted"


@pytest.mark.slow
@WAYS
def test_every_instruction_of_the_commit_leaves_it_whole_or_not_made(reverse: bool) -> None:
    undone, done = interrupt_the_end(MergeLinears(), reverse, 400, instructions=True)
    assert undone
    assert done
