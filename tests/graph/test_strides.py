"""The memory that consumers require of a tensor that becomes a slice of a product."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fxopt
from fxopt import MergeLinears
from fxopt.core import GraphIndex, Memory, memory_needed

READERS: dict[str, Callable[[Tensor], Any]] = {
    "reshape, view": lambda k: k.reshape(2, 2, 8).view(-1),
    "flatten, view": lambda k: k.flatten(1).view(-1),
    "float, view": lambda k: k.float().view(-1),
    "to, view": lambda k: k.to(torch.float32).view(-1),
    "type_as, view": lambda k: k.type_as(k).view(-1),
    "expand_as, view": lambda k: k.expand_as(k).view(-1),
    "dropout, view": lambda k: F.dropout(k, 0.5, False).view(-1),
    "detach, view": lambda k: k.detach().view(-1),
    "positive, view": lambda k: k.positive().view(-1),
    "data, view": lambda k: k.data.view(-1),
    "squeeze, view": lambda k: k.unsqueeze(0).squeeze(0).view(-1),
    "sum_to_size, view": lambda k: k.sum_to_size(4, 8).view(-1),
    "stride": lambda k: k.reshape(4, 8).stride(0) * k,
    "strides of one row": lambda k: k[:1].stride(0) * k,
    "as_strided": lambda k: k.float().as_strided((2, 8), (8, 1)),
    "as_strided of a flat one": lambda k: k.flatten(0, 1).as_strided((2, 8), (8, 1)),
    "as_strided from the start": lambda k: k.as_strided((2, 8), (8, 1), 0),
    "storage offset": lambda k: k.storage_offset() + k,
    "is_contiguous": lambda k: k * k.is_contiguous(),
    "unfold": lambda k: k.unfold(0, 2, 1).stride(0) + k,
    "unfold, view": lambda k: k.unfold(1, 8, 8).view(-1),
    "detach_": lambda k: k.detach_() * 2,
    "take_along_dim": lambda k: torch.take_along_dim(k, k.new_zeros(3, dtype=torch.long)),
    "resize_": lambda k: k.resize_(8) * 1,
    "diagonal": lambda k: k.diagonal().stride(0) + k,
    "T": lambda k: k.T.stride(1) + k,
}


class Siblings(nn.Module):
    def __init__(self, read: Callable[[Tensor], Any]) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)
        self.read = read

    def forward(self, x: Tensor) -> Any:
        return self.q(x).sum(), self.read(self.k(x))


@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_slice_is_read_like_a_tensor_of_its_own(read: Callable[[Tensor], Any], rows: int) -> None:
    gm = torch.fx.symbolic_trace(Siblings(read))
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))[:rows]
    with torch.no_grad():
        try:
            expected = gm(x)
        except RuntimeError:
            assert rows == 1
            return
        MergeLinears()(gm)
        assert any(node.name == "q_k_merged" for node in gm.graph.nodes)
        torch.testing.assert_close(gm(x), expected)


NOT_READ: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda k: k.sum(),
    "shape": lambda k: k.shape[0] * k.sum(),
    "heads": lambda k: k.view(-1, 2, 4).transpose(0, 1) @ k.view(-1, 2, 4).permute(1, 2, 0),
    "reshape": lambda k: torch.relu(k.reshape(-1)),
    "conversion and heads": lambda k: k.to(torch.float32).view(4, 2, 4) * 2,
    "asked for the shape of another": lambda k: torch.tanh(k).view_as(k),
    "pointwise, view": lambda k: F.gelu(k).view(-1),
    "contiguous, view": lambda k: k.transpose(0, 1).contiguous().view(-1) + 1,
    "in place": lambda k: k.mul_(2).sum(),
}


@pytest.mark.parametrize("read", NOT_READ.values(), ids=NOT_READ)
def test_no_copy_is_made_where_the_numbers_alone_are_read(read: Callable[[Tensor], Any]) -> None:
    gm = fxopt.capture(Siblings(read), (torch.ones(4, 8),))
    node = next(node for node in gm.graph.nodes if node.name == "k")
    assert memory_needed(node, GraphIndex(gm)) is Memory.ANY


class Opaque(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.as_strided((2, 8), (8, 1)) if x.dim() else x


def test_a_module_of_ones_own_is_given_memory_of_its_own() -> None:
    opaque = Opaque()
    model = Siblings(opaque)
    gm = fxopt.capture(model, (torch.ones(4, 8),), leaf=Opaque)
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    expected = model(x)
    MergeLinears()(gm)
    torch.testing.assert_close(gm(x), expected)


def test_a_change_of_order_is_passed_on_by_pointwise_operations() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    turned = graph.call_method("transpose", (x, 0, 1))
    active = graph.call_function(torch.relu, (turned,))
    graph.output(graph.call_function(operator.add, (graph.call_method("view", (active, -1)), 1)))
    index = GraphIndex(torch.fx.GraphModule(nn.Module(), graph))
    assert memory_needed(turned, index) is Memory.ANY
    assert memory_needed(turned, index, turned=True) is Memory.CONTIGUOUS
