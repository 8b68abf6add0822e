from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from torch import nn
from torch.fx import symbolic_trace

from fxopt.evidence import parameter_costs, work_costs
from fxopt.evidence.blocks import cost_blocks
from fxopt.evidence.costs import Costs
from fxopt.models import model_source
from fxopt.tracing import capture


def test_parts_lie_in_their_whole_and_share_its_cost_out() -> None:
    source = model_source("digits_transformer")
    model = source.build()
    args, kwargs = source.inputs(model)
    gm = capture(model, args, kwargs)
    flops, _ = work_costs(gm, args, kwargs)
    blocks = cost_blocks(gm, flops, least=0)
    whole = blocks[0]
    assert (whole.name, whole.start, whole.share, whole.amount) == ("", 0, 1, flops.of_all(flops.parts))
    assert sum(one.amount for one in blocks if one.is_node) == whole.amount
    around = {one.name: one for one in blocks if not one.is_node}
    inside = defaultdict(int)
    for one in blocks[1:]:
        outer = around[one.name.rpartition(".")[0]] if not one.is_node and "." in one.name else None
        if outer is not None:
            assert outer.start <= one.start + 1e-9
            assert one.start + one.share <= outer.start + outer.share + 1e-9
        inside[one.depth] += one.amount
    assert inside[1] == whole.amount
    assert {one.name for one in blocks if one.is_node} == {name for name in flops.parts if flops.of(name)}


def test_a_tied_weight_counts_at_the_first_node_that_reads_it() -> None:
    layer = nn.Linear(4, 4, bias=False)
    gm = symbolic_trace(nn.Sequential(layer, nn.ReLU(), layer))
    blocks = cost_blocks(gm, parameter_costs(gm))
    assert [(one.name, one.amount) for one in blocks if one.is_node] == [("_0", 16)]


def test_what_could_not_be_seen_is_left_out_and_nothing_is_no_block() -> None:
    gm = symbolic_trace(nn.Sequential(nn.Linear(100, 100), nn.Linear(1, 1)))
    blocks = cost_blocks(gm, parameter_costs(gm))
    assert [one.name for one in blocks if one.is_node] == ["_0"]
    assert blocks[0].amount == 10102
    assert cost_blocks(gm, Costs("FLOP", {})) == ()


@pytest.mark.parametrize("count", [2, 5])
def test_blocks_stand_in_the_order_of_the_run(count: int) -> None:
    gm = symbolic_trace(nn.Sequential(*(nn.Linear(3, 3) for _ in range(count))))
    starts = [one.start for one in cost_blocks(gm, parameter_costs(gm)) if one.is_node]
    assert starts == pytest.approx([number / count for number in range(count)])
    assert gm(torch.ones(1, 3)).shape == (1, 3)
