"""A graph in a few figures."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxopt import Workbench
from fxopt.packed import is_available
from fxopt.workbench.summary import summary_of


class Mixed(nn.Module):
    """Products of every spelling, and calls that are none."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.conv, self.norm = nn.Linear(4, 4), nn.Conv1d(4, 4, 1), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.conv(self.linear(x)))  # two
        y = F.scaled_dot_product_attention(y, y, y) + torch.bmm(y, y)  # two
        y = (y @ y).matmul(y).softmax(-1) * y  # two
        return F.linear(y, self.linear.weight).mean() + F.conv1d(y, self.conv.weight).sum()  # two


def test_products_are_counted_in_every_spelling_and_all_calls_by_kind() -> None:
    gm = torch.fx.symbolic_trace(Mixed())
    summary = summary_of(gm)
    assert summary.nodes == len(gm.graph.nodes)
    assert summary.products == 8
    assert sum(summary.calls.values()) == sum(node.op.startswith("call_") for node in gm.graph.nodes)
    assert summary.calls["normalization"] == 1


def test_products_of_an_exported_graph_are_counted_by_its_operators() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.mm(x, x))

    exported = torch.export.export(Product(), (torch.rand(2, 2),)).module()
    assert isinstance(exported, torch.fx.GraphModule)
    assert summary_of(exported).products == 1


@pytest.mark.skipif(not is_available(), reason="this torch packs no layers")
def test_packed_layers_are_the_products_that_they_were() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 36, 16)).eval()
    wb = Workbench(model, (torch.rand(2, 3, 8, 8),))
    for name in ("PackConvolutions", "PackLinears"):
        wb.turn_on(name)
        assert wb.state_of(name).sites_on == 1
    assert summary_of(wb.current).products == summary_of(wb.pristine).products == 2
