"""Every act on a graph module is made whole or not at all, at whatever line an exception comes."""

import gc
import random
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import ALL_PASSES, Pass, RewriteError, Transformation, compose, fingerprint
from fxopt.core import GraphIndex, Ledger, Rewriter, commit, shared_copy
from fxopt.core.gate import _gate_of
from fxopt.graph.marks import LEDGER
from fxopt.recording.graph_state import GraphState
from fxopt.recording.module_changes import SetMember
from fxopt.recording.node_changes import EraseNode, InsertNode, ReplaceInput, SetCall, SetMeta
from tests.examples import Attention, Example
from tests.interrupting import Lines, assert_nothing_lingers, last, moments, state_of
from tests.passes.declared import EXAMPLES
from tests.quick import third

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",  # an interrupt in a callback of the garbage collector
    "ignore:.* rested on ",
    "ignore:.*nothing was reversed",
)

Act = Callable[[GraphModule], object]
LAST = 40


class Two(nn.Module):
    """Two blocks, so that a pass has one site in each."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attention(), Attention()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x)) / 3


TWO = Example("two blocks", Two, ((2, 5, 16),))
MERGE = fxopt.MergeLinears()


class Doubled(Transformation):
    """By hand: a node more, a module replaced, an attribute set."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        (output,) = graph_module.graph.find_nodes(op="output")
        with graph_module.graph.inserting_before(output):
            doubled = graph_module.graph.call_function(torch.add, (output.args[0], output.args[0]))
        output.args = (doubled,)
        graph_module.register_buffer("extra", torch.ones(2))
        return graph_module


def sites_of(gm: GraphModule) -> list[str]:
    return [match.site for match in MERGE.scan(gm).matches]


def one_on(gm: GraphModule) -> None:
    MERGE.turn_on(gm, sites_of(gm)[0])


def all_on(gm: GraphModule) -> None:
    for kind in ALL_PASSES:
        kind()(gm)


ACTS: dict[str, tuple[Act, Act]] = {
    "apply": (lambda gm: None, lambda gm: MERGE.apply(GraphIndex(gm))),
    "turn on": (one_on, lambda gm: MERGE.turn_on(gm, sites_of(gm)[-1])),
    "turn off": (all_on, lambda gm: MERGE.turn_off(gm, MERGE.sites_on(gm)[0])),
    "undo": (all_on, lambda gm: MERGE.undo(gm)),
    "reverse": (all_on, lambda gm: MERGE(gm, reverse=True)),
    "rewind": (all_on, lambda gm: Ledger.of(gm).rewind(GraphIndex(gm), 1)),
    "remove": (all_on, lambda gm: Ledger.of(gm).remove(GraphIndex(gm), MERGE.signature)),
    "compose": (one_on, lambda gm: compose(MERGE, Doubled(), fxopt.FuseBiasInLinear())(gm)),
    "reverse a composition": (
        lambda gm: compose(MERGE, Doubled(), fxopt.FuseBiasInLinear())(gm),
        lambda gm: compose(MERGE, Doubled(), fxopt.FuseBiasInLinear())(gm, reverse=True),  # type: ignore[call-arg]
    ),
    "by hand": (one_on, lambda gm: Doubled()(gm)),
    "by hand, reversed below a pass": (lambda gm: all_on(Doubled()(gm)), lambda gm: Doubled()(gm, reverse=True)),
}


def interrupt(
    example: Example, prepare: Act, act: Act, count: int, seed: str, within: int = 0, at_the_end: bool = False
) -> set[bool]:
    """Interrupt an act at `count` lines and more, each time on a graph of its own; return whether it was then made.

    With `within`, a second interruption comes at most so many lines after the first. With `at_the_end`, the lines are
    the last ones.
    """
    inputs, captured = example.inputs(), example.graph()
    pristine = fingerprint(captured)

    def prepared() -> GraphModule:
        gm = shared_copy(captured)
        prepare(gm)
        gm.recompile()
        return gm

    act(prepared())  # fills caches, whose lines do not run again
    lines, gm = Lines(), prepared()
    before = state_of(gm)
    lines.run(lambda: act(gm))
    after = state_of(gm)
    draw = random.Random(seed)
    made = set()
    for at in last(count, lines.count) if at_the_end else moments(count, lines.count, seed):
        gm, stop = prepared(), Lines(at, draw.randint(1, within) if within else 0)
        stop.run(lambda gm=gm: act(gm))  # type: ignore[misc]
        now = state_of(gm)
        assert now in (before, after), f"interrupted at line {at} of {lines.count}, {stop.where}"
        made.add(now == after)
        gm.recompile()
        assert_nothing_lingers(gm, inputs, pristine)
    return made


@pytest.mark.parametrize("name", third(ACTS))
def test_an_act_that_is_interrupted_anywhere_is_made_whole_or_not_at_all(name: str) -> None:
    interrupt(TWO, *ACTS[name], 1, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_interrupted_at_many_lines_is_made_whole_or_not_at_all(name: str) -> None:
    interrupt(TWO, *ACTS[name], 30, f"many {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_interrupted_at_each_of_its_last_lines_is_made_whole_or_not_at_all(name: str) -> None:
    made = interrupt(TWO, *ACTS[name], LAST, f"last {name}", at_the_end=True)
    assert made == {False, True}, "the lines on both sides of the commit were interrupted"


@pytest.mark.parametrize("name", ["apply", pytest.param("turn off", marks=pytest.mark.slow)])
def test_an_act_that_is_interrupted_again_while_it_is_rolled_back_is_not_made(name: str) -> None:
    interrupt(TWO, *ACTS[name], 1, f"twice {name}", within=40)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTS)
def test_an_act_that_is_interrupted_twice_at_many_lines_is_made_whole_or_not_at_all(name: str) -> None:
    interrupt(TWO, *ACTS[name], 20, f"many twice {name}", within=12)


def test_two_interruptions_at_any_two_of_the_last_lines_of_an_act_leave_no_lock_behind() -> None:
    """Of an act that is made, and of one that fails."""

    def failed(gm: GraphModule) -> None:
        with pytest.raises(RewriteError):
            MERGE.turn_on(gm, "nowhere")

    acts: tuple[Act, ...] = (lambda gm: Doubled()(gm), failed)
    captured = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    before = state_of(captured)
    for act in acts:
        act(shared_copy(captured))  # fills caches, whose lines do not run again
        lines, gm = Lines(), shared_copy(captured)
        lines.run(lambda act=act, gm=gm: act(gm))  # type: ignore[misc]
        after = state_of(gm)
        for at in last(LAST, lines.count):
            for again in range(1, 10):
                stop, gm = Lines(at, again), shared_copy(captured)
                assert stop.run(lambda act=act, gm=gm: act(gm)), f"line {at} of {lines.count}"  # type: ignore[misc]
                assert state_of(gm) in (before, after), stop.where
                assert _gate_of(gm)._lock.acquire(blocking=False), f"a lock was left behind at {stop.where}"
                assert gc.isenabled()


@pytest.mark.parametrize("pass_", third(kind() for kind in ALL_PASSES), ids=lambda pass_: pass_.name)
def test_every_pass_that_is_interrupted_is_applied_or_not_and_reversed_or_not(pass_: Pass) -> None:  # type: ignore[type-arg]
    example = next(example for example in EXAMPLES if pass_.scan(example.graph()).matches)
    interrupt(example, lambda gm: None, lambda gm: pass_(gm), 1, pass_.name)
    interrupt(example, lambda gm: pass_(gm), lambda gm: pass_(gm, reverse=True), 1, f"{pass_.name} back")


KINDS = [InsertNode, EraseNode, SetCall, ReplaceInput, SetMeta, SetMember]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_exception_before_or_after_any_edit_takes_all_of_them_back(
    kind: type, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways, at each edit of a kind in turn, with the edit made and not noted, and not made."""
    gm, pristine = TWO.graph(), fingerprint(TWO.graph())
    plain, left, made = kind.apply, [0], [True]  # type: ignore[attr-defined]

    def applied(self: object, index: GraphIndex) -> None:
        left[0] -= 1
        if left[0] == 0:
            if made[0]:
                plain(self, index)
            raise error("now")
        plain(self, index)

    monkeypatch.setattr(kind, "apply", applied)
    for reverse in (False, True):
        before = state_of(gm)
        for number, is_made in ((1, True), (1, False), (3, True), (6, False)):
            left[0], made[0] = number, is_made
            try:
                MERGE(gm, reverse=reverse)
            except (error, RewriteError):
                assert state_of(gm) == before
            else:  # there are fewer edits of this kind
                left[0] = 0
                MERGE(gm, reverse=not reverse)
                assert fingerprint(gm) == before[0]
                before = state_of(gm)  # the users of a node may come in another order
        left[0] = 0
        MERGE(gm, reverse=reverse)
    assert_nothing_lingers(gm, TWO.inputs(), pristine)


@pytest.mark.parametrize("act", ["turn on", "turn off", "undo", "reverse", "compose"])
def test_an_ordinary_exception_while_one_site_is_switched_leaves_the_others_on_and_the_way_back(
    act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gm = TWO.graph()
    pristine = fingerprint(gm)
    prepare, do = ACTS[act]
    prepare(gm)
    before = state_of(gm)

    def out_of_memory(*args: object, **kwargs: object) -> torch.Tensor:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "cat", out_of_memory)
        patched.setattr(Rewriter, "computed", out_of_memory)  # the weights may be remembered
        try:
            do(gm)
        except RuntimeError:
            assert state_of(gm) == before
    do(gm)
    gm.recompile()
    assert Ledger.entries_of(gm) or act in ("undo", "reverse")
    assert_nothing_lingers(gm, TWO.inputs(), pristine)


def test_an_empty_ledger_does_not_stay_after_an_act_that_failed() -> None:
    gm = TWO.graph()
    with pytest.raises(RewriteError, match="does not apply at nowhere"):
        MERGE.turn_on(gm, "nowhere")
    assert LEDGER not in gm._modules


def test_a_restore_that_is_interrupted_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gm = TWO.graph()
    before, lines = state_of(gm), Lines()

    def failing(self: object, *args: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Rewriter, "remove_unused_module", failing)

    def refused() -> None:
        with pytest.raises(RewriteError):
            MERGE(gm)

    lines.run(refused)
    for at in range(lines.count - 150, lines.count + 1, 7):
        Lines(at).run(refused)
        assert state_of(gm) == before


def test_a_restore_of_a_graph_can_be_run_again_after_an_interruption_at_any_line() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Tanh()))
    before, state = state_of(gm), GraphState.of(gm.graph)
    state.restore()
    lines = Lines()
    lines.run(state.restore)
    for at in range(1, lines.count + 1):
        assert Lines(at).run(state.restore)
        state.restore()
        assert state_of(gm) == before


def test_committing_is_made_whole_or_not_at_all() -> None:
    lines, gm = Lines(), TWO.graph()
    MERGE(gm)
    lines.run(lambda: commit(gm))
    for at in moments(5, lines.count, "commit"):
        gm = TWO.graph()
        pristine = fingerprint(gm)
        MERGE(gm)
        changed = fingerprint(gm)
        Lines(at).run(lambda gm=gm: commit(gm))  # type: ignore[misc]
        assert fingerprint(gm) == changed
        if Ledger.entries_of(gm):
            assert_nothing_lingers(gm, TWO.inputs(), pristine)
