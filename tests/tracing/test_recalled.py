"""Inputs for a graph that comes without an example."""

from __future__ import annotations

import torch
from torch import nn

import fxopt
from fxopt.tracing.recalled import recalled_inputs


class Masked(nn.Module):
    """A table of one row, as that of token types in RoBERTa."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1, 4)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return (self.table(ids) + x) / mask.sum()


def test_recalled_inputs_run_with_a_table_of_one_row_and_hide_nothing() -> None:
    example = (torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.long), torch.rand(2, 3, 4))
    gm = fxopt.capture(Masked(), example)
    found = recalled_inputs(gm)
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in found.items()} == {
        name: (tensor.shape, tensor.dtype) for name, tensor in zip(found, example)
    }
    assert list(found) == ["ids", "mask", "x"]
    assert gm(**found).isfinite().all()
    assert torch.equal(gm(**found), gm(**recalled_inputs(gm)))
