"""Single sites of passes, on and off in any order, on the graph module itself."""

import operator
import random

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import ALL_PASSES, ChangeTrueDivToMulByInverse, FuseBiasInLinear, MergeLinears, RewriteError, fingerprint
from fxopt.core import GraphIndex, Ledger, Match, Miss, Pass, Rewriter, shared_copy
from tests.examples import EXAMPLES, Example
from tests.quick import third


class TwoBlocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.c, self.d = nn.Linear(4, 3), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x) + self.b(x)
        return self.c(y).sum() / 8 + self.d(y).sum()


def graph() -> GraphModule:
    gm: GraphModule = fxopt.capture(TwoBlocks().eval(), (torch.rand(2, 4),))
    return gm


class DropMultiplication(Pass[Match]):
    """Replace `x * c` by `x`: a pass that rests on the work of another."""

    targets = (operator.mul,)

    def match(self, node: torch.fx.Node, index: GraphIndex) -> Match | Miss | None:
        return Match(node)

    def explain(self, match: Match) -> str:
        return "for the test"

    def rewrite(self, match: Match, rewriter: Rewriter) -> None:
        rewriter.replace(match.anchor, match.anchor.args[0])  # type: ignore[arg-type]


def replay(pristine: GraphModule, on: list[tuple[Pass[Match], set[str]]]) -> GraphModule:
    """The oracle: the passes over a fresh copy of the pristine graph, at these sites only."""
    gm = shared_copy(pristine)
    for pass_, sites in on:
        pass_.apply(GraphIndex(gm), sites)
    gm.recompile()
    return gm


def test_one_site_is_turned_on_and_off_exactly() -> None:
    gm, merge = graph(), MergeLinears()
    start = fingerprint(gm)
    assert [match.site for match in merge.scan(gm).matches] == ["a", "c"]
    assert merge.turn_on(gm, "c") == ()
    assert merge.sites_on(gm) == ("c",)
    assert "a_b_merged" not in dict(gm.named_modules())
    merge.turn_off(gm, "c")
    assert fingerprint(gm) == start


def test_the_order_in_which_sites_are_turned_on_does_not_matter() -> None:
    one, merge = graph(), MergeLinears()
    other, pristine = shared_copy(one), shared_copy(one)
    merge.turn_on(one, "a")
    merge.turn_on(one, "c")
    merge.turn_on(other, "c")
    merge.turn_on(other, "a")
    assert fingerprint(one) == fingerprint(other) == fingerprint(merge(pristine))


def test_what_rests_on_a_site_is_told_before_and_goes_with_it() -> None:
    gm, change, drop = graph(), ChangeTrueDivToMulByInverse(), DropMultiplication()
    change(gm)
    drop(gm)
    (site,) = change.sites_on(gm)
    before = fingerprint(gm)
    (resting,) = change.resting_on(gm, site)
    assert (resting.pass_.name, resting.site) == ("DropMultiplication", site)
    assert fingerprint(gm) == before
    assert [entry.id for entry in change.turn_off(gm, site)] == [resting.id]
    assert not Ledger.entries_of(gm)


def test_a_site_where_the_pass_does_not_apply_is_refused_with_the_reason_and_nothing_changes() -> None:
    gm, merge = graph(), MergeLinears()
    merge.turn_on(gm, "a")
    FuseBiasInLinear()(gm)
    before = fingerprint(gm)
    for site, reason in (("nothing", "no such node"), ("y", "no such node"), ("sum_1", "anchor of no match")):
        with pytest.raises(RewriteError, match=reason):
            merge.turn_on(gm, site)
        with pytest.raises(RewriteError, match="it is on at a"):
            merge.turn_off(gm, site)
        assert fingerprint(gm) == before


def test_ids_of_sites_are_stable() -> None:
    merge = MergeLinears()
    assert merge.site_id("a") == MergeLinears().site_id("a") != FuseBiasInLinear().site_id("a")
    gm = graph()
    merge(gm)
    assert [entry.id for entry in Ledger.entries_of(gm)] == [merge.site_id(m) for m in merge.scan(graph()).matches]


@pytest.mark.parametrize("example", third(EXAMPLES), ids=lambda e: e.name)
def test_any_walk_over_sites_is_the_replay_of_what_is_on(example: Example) -> None:
    gm, walk = example.graph(), random.Random(0)
    pristine, start = shared_copy(gm), fingerprint(gm)
    passes = [kind() for kind in ALL_PASSES]
    for _ in range(20):
        pass_ = walk.choice(passes)
        on = pass_.sites_on(gm)
        free = [match.site for match in pass_.scan(gm).matches]
        if on and (not free or walk.random() < 0.4):
            pass_.turn_off(gm, walk.choice(on))
        elif free:
            before = fingerprint(gm)
            try:
                pass_.turn_on(gm, walk.choice(free))
            except RewriteError:  # it came to match only after passes that ran later
                assert fingerprint(gm) == before
        order = {entry.pass_.name: entry.pass_ for entry in Ledger.entries_of(gm)}
        built = replay(pristine, [(p, set(p.sites_on(gm))) for p in order.values()])
        assert fingerprint(built) == fingerprint(gm)
    for pass_ in passes:
        for site in pass_.sites_on(gm):
            if site in pass_.sites_on(gm):
                pass_.turn_off(gm, site)
    assert fingerprint(gm) == start
