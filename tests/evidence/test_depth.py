from __future__ import annotations

import copy
import math

import pytest
import torch

from fxopt.evidence.depth import error_by_depth
from tests.evidence.test_divergence import X, steps


def test_a_copy_has_the_same_bits_at_every_node() -> None:
    gm = steps()
    report = error_by_depth(gm, copy.deepcopy(gm), (X,))
    assert all(one.difference.identical and one.relative == 0 for one in report.nodes)
    count = len(report.nodes)
    assert report.verdict == f"{count} of {count} nodes that no pass rewrote return the same bits"


@pytest.mark.parametrize("at_once", [2**28, 1])
def test_the_error_is_told_from_the_node_on_where_it_begins(at_once: int) -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    with torch.no_grad():
        new.get_parameter("first.bias").add_(0.001)
    report = error_by_depth(gm, new, (X,), at_once=at_once)
    apart = [one.node for one in report.nodes if not one.difference.identical]
    assert apart[0] == "first"
    assert "second" in apart
    assert [one.position for one in report.nodes] == sorted(one.position for one in report.nodes)
    first = next(one for one in report.nodes if one.node == "first")
    # `relu_` changes the value in place afterwards: it is compared as it was before
    assert first.difference.max_abs == pytest.approx(0.001, rel=1e-3)
    assert first.relative == pytest.approx(0.001 / first.difference.scale, rel=1e-3)
    assert "begins at first" in report.verdict
    assert list(report.frame["node"]) == [one.node for one in report.nodes]


def test_a_rewritten_node_may_differ_by_design_and_is_told_apart() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    with torch.no_grad():
        new.get_parameter("second.bias").add_(1.0)
    report = error_by_depth(gm, new, (X,), rewritten={"second"})
    assert [one.node for one in report.nodes if one.rewritten] == ["second"]
    assert "begins at" not in report.verdict


def test_nodes_without_a_namesake_or_with_another_shape_are_counted() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    chunk = next(node for node in new.graph.nodes if node.target == "chunk")
    with new.graph.inserting_before(chunk):
        chunk.args = (new.graph.call_function(torch.neg, (chunk.args[0],)), *chunk.args[1:])
    new.recompile()
    whole = error_by_depth(gm, gm, (X,))
    report = error_by_depth(gm, new, (X,))
    assert report.others == whole.others + 1
    assert "neg" not in [one.node for one in report.nodes]


def test_a_node_that_became_nan_is_the_worst_and_is_told_before_all_others() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    with torch.no_grad():
        new.get_parameter("second.bias").fill_(math.nan)
    report = error_by_depth(gm, new, (X,))
    turned = [one.node for one in report.nodes if one.relative == math.inf]
    assert turned[0] == "second"
    told = f"; NaN or infinite in one graph only at {len(turned)} of them, first at second"
    assert report.verdict.endswith(told), "no other node differs"
    frame = report.frame.set_index("node")
    assert frame["relative error"]["second"] == frame["max abs error"]["second"] == math.inf
    with torch.no_grad():
        new.get_parameter("first.bias").add_(0.001)
    both = error_by_depth(gm, new, (X,)).verdict
    assert f"{told}; the relative error begins at first with " in both
