"""The oracle: the sites in force, built again from the pristine graph."""

import difflib
from collections.abc import Sequence

from torch.fx import GraphModule

from fxopt import Match, Pass, Transformation, fingerprint
from fxopt.core import Entry, Fingerprint, GraphIndex, Ledger, Rewriter, shared_copy
from fxopt.core.rewriter import Run
from fxopt.graph.marks import made_by

Plan = Sequence[tuple[Transformation, set[str]]]
"""Passes in order, each with the sites at which it is on; a transformation written by hand once for each call."""


def entries_of(gm: GraphModule) -> tuple[Entry, ...]:
    return Ledger.entries_of(gm)


def plan_of(gm: GraphModule) -> Plan:
    """The sites in force, in runs of one pass."""
    plan: list[tuple[Transformation, set[str]]] = []
    for entry in entries_of(gm):
        if not plan or plan[-1][0].signature != entry.signature or not isinstance(entry.pass_, Pass):
            plan.append((entry.pass_, set()))
        plan[-1][1].add(entry.site)
    return plan


def replay(pristine: GraphModule, plan: Plan) -> GraphModule:
    """The oracle: the graph with `plan` in force, built from the pristine one, with nothing remembered in between."""
    gm = shared_copy(pristine)
    for pass_, sites in plan:
        if not isinstance(pass_, Pass):
            gm = pass_.transform(gm)
            continue
        left = len(sites)
        while left:
            before = left
            for name in [node.name for node in pass_.candidates(GraphIndex(gm))]:
                index = GraphIndex(gm)
                node = index.nodes.get(name)
                if node is None or made_by(node, pass_.signature):
                    continue
                found = pass_.match(node, index)
                if isinstance(found, Match) and found.site in sites:
                    rewriter = Rewriter(index, found.anchor, pass_.name, pass_.signature, Run())
                    pass_.rewrite(found, rewriter)
                    rewriter.patch()
                    left -= 1
            assert left < before, f"{pass_.name} does not apply at all of {sites}"
    gm.graph.lint()
    gm.recompile()
    return gm


def assert_replays(pristine: GraphModule, gm: GraphModule) -> None:
    """The sites in force alone decide the graph."""
    plan = plan_of(gm)
    names = [(type(one).__name__, sorted(sites)) for one, sites in plan]
    assert_same(gm, replay(pristine, plan), f"not what {names} gives")


def assert_same(gm: GraphModule, expected: GraphModule, why: str) -> None:
    if fingerprint(gm) != fingerprint(expected):
        lines = (list(Fingerprint()._lines(one)) for one in (expected, gm))
        raise AssertionError("\n".join([why, *difflib.unified_diff(*lines, lineterm="", n=0)]))
