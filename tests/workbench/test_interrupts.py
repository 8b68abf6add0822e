"""Every act of a workbench is made whole or not at all, at whatever line an exception comes."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch

import fxopt
from fxopt import Pass, Workbench, fingerprint
from fxopt.core import GraphIndex, Match, Rewriter
from fxopt.edits import Edit, SetArgument
from tests.core.test_interrupts import TWO
from tests.interrupting import Lines, assert_nothing_lingers, last, moments, state_of
from tests.quick import third

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Act = Callable[[Workbench], object]
LAST = 40


def all_on(wb: Workbench) -> None:
    for pass_ in wb.passes:
        wb.turn_on(pass_)


def edited(wb: Workbench) -> Edit:
    return wb.edit(SetArgument("truediv_2", "args[1]", 5.0))


def with_undo(wb: Workbench) -> None:
    all_on(wb)
    wb.undo()


ACTS: dict[str, tuple[Act, Act]] = {
    "turn on": (lambda wb: None, lambda wb: wb.turn_on("MergeLinears")),
    "turn off one site": (all_on, lambda wb: wb.turn_off("MergeLinears", wb.state_of("MergeLinears").sites[0].site)),
    "move": (all_on, lambda wb: wb.move("FuseBiasInLinear", 0)),
    "edit": (all_on, edited),
    "remove": (lambda wb: (edited(wb), all_on(wb)), lambda wb: wb.remove(wb.edits[0])),
    "undo": (all_on, lambda wb: wb.undo()),
    "redo": (with_undo, lambda wb: wb.redo()),
    "reverse all": (all_on, lambda wb: wb.reverse_all()),
    "release": (all_on, lambda wb: (wb.release(), wb.current)),
}


def state(wb: Workbench) -> tuple[object, ...]:
    """All that a visitor could see of a workbench."""
    sites = [(s.name, s.on, s.error, [(site.site, site.on) for site in s.sites]) for s in wb.states]
    return state_of(wb.current), wb.choices, wb.undone, wb.redone, sites, wb.is_restored, [p.name for p in wb.known]


def interrupt(name: str, moments_of: Callable[[int], Iterable[int]]) -> set[bool]:
    """Interrupt an act at lines of the number that it has; return whether it was then made, of each kind one."""
    prepare, act = ACTS[name]
    captured = TWO.graph()
    pristine = fingerprint(captured)

    def prepared() -> Workbench:
        wb = Workbench(captured)
        prepare(wb)
        return wb

    lines, wb = Lines(), prepared()
    before = state(wb)
    lines.run(lambda: act(wb))
    after = state(wb)
    made = set()
    for at in moments_of(lines.count):
        wb, stop = prepared(), Lines(at)
        stop.run(lambda wb=wb: act(wb))  # type: ignore[misc]
        now = state(wb)
        assert now[1:] in (before[1:], after[1:]), f"interrupted at line {at} of {lines.count}, {stop.where}"
        assert now in (before, after) or name == "release", f"line {at} of {lines.count}, {stop.where}"
        made.add(now[1:] == after[1:])
        assert wb.is_restored == (fingerprint(wb.current) == pristine)
        wb.reverse_all()
        assert wb.is_restored
        assert_nothing_lingers(wb.current, TWO.inputs(), pristine)
    return made


@pytest.mark.parametrize("name", third(ACTS))
def test_an_act_that_is_interrupted_anywhere_is_made_whole_or_not_at_all(name: str) -> None:
    interrupt(name, lambda count: moments(1, count, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_interrupted_at_many_lines_is_made_whole_or_not_at_all(name: str) -> None:
    interrupt(name, lambda count: moments(20, count, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_interrupted_at_each_of_its_last_lines_is_made_whole_or_not_at_all(name: str) -> None:
    made = interrupt(name, lambda count: last(LAST, count))
    assert made == {False, True} or name == "release", "the lines on both sides of the commit were interrupted"


class Fails(Pass[Match]):
    """Replace `x / c`, after a look at the graph, by nothing: it fails in the middle of its second edit."""

    targets = fxopt.ChangeTrueDivToMulByInverse.targets

    def match(self, node: Any, index: GraphIndex) -> Match:
        return Match(node)

    def explain(self, match: Match) -> str:
        return "It fails."

    def rewrite(self, match: Match, rewriter: Rewriter) -> None:
        rewriter.set_call(match.anchor, "call_function", torch.mul, match.anchor.args, {})
        match.anchor.args = ()  # as an edit does that is interrupted halfway
        raise MemoryError("at the worst moment")


def test_a_pass_that_fails_halfway_through_an_edit_takes_back_only_itself() -> None:
    wb = Workbench(TWO.graph(), passes=[fxopt.MergeLinears(), Fails(), fxopt.FuseBiasInLinear()])
    wb.turn_on("MergeLinears")
    wb.turn_on("FuseBiasInLinear")
    before = state_of(wb.current)
    wb.turn_on("Fails")
    assert "at the worst moment" in wb.state_of("Fails").error
    assert state_of(wb.current)[0] == before[0]
    assert wb.state_of("MergeLinears").sites_on == 2
    wb.current(*TWO.inputs())
    wb.reverse_all()
    assert wb.is_restored


@pytest.mark.filterwarnings("ignore:.* rested on ")
def test_two_threads_that_act_on_one_graph_take_turns() -> None:
    gm = TWO.graph()
    pristine, failures = fingerprint(gm), []
    kinds = [fxopt.MergeLinears, fxopt.ChangeTrueDivToMulByInverse, fxopt.FuseBiasInLinear]

    def switch(kind: Any) -> None:
        try:
            for _ in range(6):
                kind()(gm)
                kind().scan(gm)
                kind().undo(gm)
        except BaseException as error:  # noqa: BLE001 - of whatever kind, the test is to show it
            failures.append(error)

    threads = [threading.Thread(target=switch, args=(kind,)) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    for kind in kinds:
        kind().undo(gm)
    gm.graph.lint()
    gm.recompile()
    assert fingerprint(gm) == pristine


def test_two_threads_that_use_one_workbench_take_turns() -> None:
    wb, failures = Workbench(TWO.graph()), []

    def switch(name: str) -> None:
        try:
            for _ in range(4):
                wb.turn_on(name)
                wb.turn_off(name)
                wb.undo()
                wb.redo()
        except BaseException as error:  # noqa: BLE001 - of whatever kind, the test is to show it
            failures.append(error)

    threads = [threading.Thread(target=switch, args=(name,)) for name in ("MergeLinears", "FuseBiasInLinear")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert [state.error for state in wb.states] == [""] * len(wb.states)
    built = Workbench(wb.pristine)
    built.choose(wb.choices)
    assert fingerprint(wb.current) == fingerprint(built.current)
    wb.reverse_all()
    assert wb.is_restored
