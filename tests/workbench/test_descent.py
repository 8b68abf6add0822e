"""The nodes of the original graph and their successors."""

from __future__ import annotations

import torch
from torch import nn

from fxopt import Workbench
from fxopt.workbench.descent import descent


class Attention(nn.Module):
    """Two linears of one input, a quotient, and a convolution with its batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.conv, self.norm = nn.Conv1d(4, 4, 1), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(x))
        return torch.relu(self.q(y) + self.k(y)) / 2


def test_merged_removed_and_changed_nodes_are_told_with_what_does_their_work() -> None:
    wb = Workbench(Attention().eval(), (torch.rand(2, 4, 4),))
    assert descent(wb) == ()
    wb.turn_on("MergeLinears")
    assert descent(wb) == (("q", "q_k_merged"), ("k", "q_k_merged"))
    wb.turn_on("ChangeTrueDivToMulByInverse")
    assert ("truediv", "truediv") in descent(wb)
    wb.turn_on("FoldBatchNorm")
    assert ("norm", "conv") in descent(wb)
    wb.turn_on("FuseBiasInLinear")
    assert {old for old, _ in descent(wb)} <= {node.name for node in wb.pristine.graph.nodes}
    wb.reverse_all()
    assert descent(wb) == ()
