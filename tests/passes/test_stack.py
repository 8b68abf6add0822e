"""MergeLinears(keep="view"): no second copy of the weights, and who shares memory with whom."""

import copy
import gc
import weakref
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import MergeLinears
from fxopt.core import Ledger, shared_copy
from tests.examples import EXAMPLES, outputs
from tests.passes.asserts import captured

X = torch.linspace(-3, 5, 24).reshape(2, 3, 4)


def both(m: Any, x: torch.Tensor) -> Any:
    return m.a(x) * 2, m.b(x) * 3


def adjacent(*sizes: int) -> list[nn.Linear]:
    """Linears without bias whose weights lie one behind the other in one buffer."""
    buffer = torch.randn(sum(sizes), 4)
    linears = []
    for part in buffer.split(sizes):
        linear = nn.Linear(4, len(part), bias=False)
        linear.weight = nn.Parameter(part)
        linears.append(linear)
    return linears


def memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def of(gm: GraphModule, name: str) -> Any:
    return gm.get_submodule(name)


def test_weights_that_are_adjacent_are_not_copied_at_all() -> None:
    a, b = adjacent(5, 3)
    gm = captured(both, X, a=a, b=b)
    before, old = fxopt.fingerprint(gm), outputs(gm, (X,))
    MergeLinears(keep="view")(gm)
    assert memory(of(gm, "a_b_merged").weight) == memory(a.weight) == memory(b.weight)
    for one, other in zip(outputs(gm, (X,)), old):
        torch.testing.assert_close(one, other)
    MergeLinears(keep="view")(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    assert of(gm, "a") is a
    assert of(gm, "b") is b


@pytest.mark.parametrize("order", ["ba", "with a gap", "in two buffers"])
def test_weights_that_are_not_adjacent_are_copied_once(order: str) -> None:
    a, b = {
        "ba": lambda: adjacent(5, 3)[::-1],
        "with a gap": lambda: adjacent(5, 1, 3)[::2],
        "in two buffers": lambda: [nn.Linear(4, 5), nn.Linear(4, 3)],
    }[order]()
    gm = captured(both, X, a=a, b=b)
    before, old = fxopt.fingerprint(gm), outputs(gm, (X,))
    MergeLinears(keep="view")(gm)
    merged = of(gm, "a_b_merged")
    assert memory(merged.weight) not in (memory(a.weight), memory(b.weight))
    (entry,) = Ledger.entries_of(gm)
    assert {memory(module.weight) for module in entry.patch.kept} == {memory(merged.weight)}
    MergeLinears(keep="view")(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before  # bytes, shapes, strides and dtypes; the objects are others
    assert all(torch.equal(one, other) for one, other in zip(outputs(gm, (X,)), old))
    assert (of(gm, "a") is a, memory(of(gm, "a").weight)) == (False, memory(merged.weight))


def test_the_memory_of_before_is_held_by_nobody_but_the_model() -> None:
    model = nn.ModuleDict({"a": nn.Linear(4, 5), "b": nn.Linear(4, 3)})
    gm = captured(both, X, **model)
    weights = [weakref.ref(layer.weight) for layer in model.values()]
    MergeLinears(keep="view")(gm)
    del model
    gc.collect()
    assert [ref() for ref in weights] == [None, None]
    MergeLinears(keep="view")(gm, reverse=True)
    assert of(gm, "a").weight.shape == (5, 4)


def test_a_second_time_nothing_is_copied() -> None:
    gm = captured(both, X, a=nn.Linear(4, 5), b=nn.Linear(4, 3))
    MergeLinears(keep="view")(gm)
    first = memory(of(gm, "a_b_merged").weight)
    MergeLinears(keep="view")(gm, reverse=True)
    MergeLinears(keep="view")(gm)
    assert memory(of(gm, "a_b_merged").weight) == first


def test_a_weight_with_strides_of_its_own_comes_back_with_them() -> None:
    a, b = nn.Linear(4, 5), nn.Linear(4, 3)
    a.weight = nn.Parameter(torch.randn(4, 5).t())
    gm = captured(both, X, a=a, b=b)
    before = fxopt.fingerprint(gm)
    MergeLinears(keep="view")(gm)
    MergeLinears(keep="view")(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    assert of(gm, "a").weight.stride() == (1, 5)


@pytest.mark.parametrize("keep", ["copy", "view"])
def test_training_the_stacked_weights_rules_the_way_back_out(keep: Any) -> None:
    gm = captured(both, X, a=nn.Linear(4, 5), b=nn.Linear(4, 3))
    MergeLinears(keep)(gm)
    with torch.no_grad():
        of(gm, "a_b_merged").weight.add_(1)
    with pytest.raises(fxopt.RewriteError, match="was given other values"):
        MergeLinears(keep)(gm, reverse=True)


def test_training_a_model_whose_buffer_is_shared_rules_the_way_back_out() -> None:
    a, b = adjacent(5, 3)
    gm = captured(both, X, a=a, b=b)
    MergeLinears(keep="view")(gm)
    with torch.no_grad():
        a.weight.add_(1)
    with pytest.raises(fxopt.RewriteError, match="was given other values"):
        MergeLinears(keep="view")(gm, reverse=True)


@pytest.mark.parametrize("travel", [copy.deepcopy, shared_copy])
def test_copies_reverse_as_well(travel: Any) -> None:
    gm = captured(both, X, a=nn.Linear(4, 5), b=nn.Linear(4, 3))
    old, keys = outputs(gm, (X,)), list(gm.state_dict())
    MergeLinears(keep="view")(gm)
    gone = travel(gm)
    MergeLinears(keep="view")(gone, reverse=True)
    assert list(gone.state_dict()) == keys
    assert all(torch.equal(one, other) for one, other in zip(outputs(gone, (X,)), old))
    assert "a_b_merged" in dict(gm.named_children())


@pytest.mark.parametrize("as_buffers", [False, True])
def test_weights_of_functions_are_kept_as_views_too(as_buffers: bool) -> None:
    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, value in (("one", torch.randn(5, 4)), ("two", torch.randn(3, 4))):
                if as_buffers:
                    self.register_buffer(name, value)
                else:
                    self.register_parameter(name, nn.Parameter(value))

        def forward(self, x: torch.Tensor) -> Any:
            return F.linear(x, self.one) * 2, F.linear(x, self.two) * 3

    gm = torch.fx.symbolic_trace(Functions())
    before, old = fxopt.fingerprint(gm), outputs(gm, (X,))
    weights = [weakref.ref(tensor) for tensor in (gm.one, gm.two)]
    MergeLinears(keep="view")(gm)
    gc.collect()
    assert [ref() for ref in weights] == [None, None]
    for one, other in zip(outputs(gm, (X,)), old):
        torch.testing.assert_close(one, other)
    MergeLinears(keep="view")(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_every_example_comes_back(example: Any) -> None:
    gm = example.graph()
    before = fxopt.fingerprint(gm)
    pass_ = MergeLinears(keep="view")
    pass_(gm)
    pass_.undo(gm)
    gm.recompile()
    assert fxopt.fingerprint(gm) == before


def test_the_two_ways_are_passes_of_their_own() -> None:
    assert MergeLinears().signature == MergeLinears(keep="copy").signature != MergeLinears(keep="view").signature
    with pytest.raises(ValueError, match='keeps "copy" or "view"'):
        MergeLinears(keep="nothing")  # type: ignore[arg-type]
