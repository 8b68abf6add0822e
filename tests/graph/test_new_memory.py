"""Operators named as giving new memory, called on tensors of many layouts; and calls that only look like them."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

from fxopt.core import GraphIndex
from fxopt.graph.effects import effects_of
from fxopt.graph.operator_table import NEW, POINTWISE
from tests.quick import third

X = torch.linspace(-1, 1, 12).view(3, 4)

SHARING = {
    "einsum of one operand": lambda x: torch.einsum("ij->ji", x),
    "in place by position": lambda x: F.relu(x, True),
    "in place by name": lambda x: F.silu(x, inplace=True),
    "out": lambda x: torch.cos(x, out=x),
    "view": lambda x: x.view(-1),
    "positive": lambda x: x.positive(),
}


@pytest.mark.parametrize("function", SHARING.values(), ids=SHARING)
def test_what_may_share_memory_is_not_taken_for_new(function: Callable[..., Any]) -> None:
    gm = torch.fx.symbolic_trace(function)
    node = list(gm.graph.nodes)[-2]
    assert not GraphIndex(gm).is_fresh(node)
    x = X.clone()
    assert gm(x).data_ptr() == x.data_ptr()


def test_a_function_of_ones_own_is_not_taken_for_the_one_of_torch_that_has_its_name() -> None:
    def relu(x: torch.Tensor) -> torch.Tensor:
        return x

    graph = torch.fx.Graph()
    assert not effects_of(graph.call_function(relu, (graph.placeholder("x"),))).returns_new_memory


ARGUMENTS: tuple[Callable[[torch.Tensor], tuple[Any, ...]], ...] = (
    lambda x: (x,),
    lambda x: (x, 1),
    lambda x: (x, x),
    lambda x: (x, x, x),
    lambda x: (x, x > 0, 1),
    lambda x: (x > 0, x, x),
    lambda x: (x, 0),
    lambda x: ([x],),
    lambda x: (x, (0, 0)),
    lambda x: (x, x.mT),
    lambda x: (x @ x.mT, x, x.mT),
    lambda x: ("ij,kj->ik", x, x),
    lambda x: (x[None], x[None]),
    lambda x: (x[None], x[:, None]),
    lambda x: (x[None, None], x[None, None]),
    lambda x: (x[None, None, None], x[None, None, None]),
    lambda x: (x[None], x[None], None, (1,), (0,), (1,), False, (0,), 1),
    lambda x: (x, x[0], x[0] * 0 + 1),
    lambda x: (x, x.shape[-1:]),
    lambda x: (x, x[0, :1]),
    lambda x: (x.long() * 0, x),
    lambda x: (3,),
    lambda x: ((2, 3),),
    lambda x: ((2, 3), 1),
)


LAYOUTS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda x: x,
    lambda x: x.t(),
    lambda x: x[:, ::2],
    lambda x: x.expand(2, 3, 4),
    lambda x: x > 0,
    lambda x: x.long(),
)


def functions_named(name: str) -> list[Any]:
    """The functions of this name that users call; the operator where there is none, for it is slow to refuse a call."""
    homes: tuple[Any, ...] = (torch, torch.Tensor, F, operator)
    return [getattr(home, name) for home in homes if hasattr(home, name)] or [getattr(torch.ops.aten, name)]


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("name", third(sorted(NEW)))
def test_what_is_named_as_new_is_new_and_keeps_its_order_element_by_element(name: str) -> None:
    assert check_that_it_is_new(name, functions_named(name)), f"{name} was called in no way that it takes"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("name", sorted(name for name in NEW if hasattr(torch.ops.aten, name)))
def test_every_overload_of_what_is_named_as_new_is_new(name: str) -> None:
    packet = getattr(torch.ops.aten, name)
    check_that_it_is_new(name, [packet, *(getattr(packet, overload) for overload in packet.overloads())])


NOT_CALLED_SO = object()


def check_that_it_is_new(name: str, functions: list[Any]) -> int:
    """Call each function in every way that it takes, and return their number."""
    looked_at = 0
    for function, layout, arguments in itertools.product(functions, LAYOUTS, ARGUMENTS):
        x = layout(X.clone())
        made = answer(function, arguments, x)
        if made is NOT_CALLED_SO:
            continue
        looked_at += 1
        if isinstance(made, torch.Tensor) and not writes(function, arguments(x)):
            assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr(), function
            if name in POINTWISE and made.shape == x.shape == (4, 3):
                assert made.stride() == x.stride()
    return looked_at


def answer(function: Any, arguments: Any, x: torch.Tensor) -> Any:
    """Return the result, or `NOT_CALLED_SO` where the function refuses these arguments, or `x` has none like them."""
    try:
        return function(*arguments(x))
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError):
        return NOT_CALLED_SO


def writes(function: Any, args: tuple[Any, ...]) -> bool:
    graph = torch.fx.Graph()
    given = [a if isinstance(a, int) else graph.placeholder(f"a{i}") for i, a in enumerate(args)]
    call = graph.call_function(function, tuple(given))
    return GraphIndex(GraphModule(nn.Module(), graph))._writes(call)
