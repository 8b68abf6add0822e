"""Where a dimension goes: checked by marking it with numbers and running the operation."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.fx import Graph, Node

from fxopt.core import GraphIndex, TensorInfo
from fxopt.passes.channels import place_after, source


def node_of(build: Callable[[Graph, Node], Node], x: torch.Tensor) -> tuple[Node, Node, torch.Tensor]:
    """A node that `build` makes of an input like `x`, the input's node, and what it gives for `x`."""
    graph = Graph()
    given_node = graph.placeholder("x")
    made = build(graph, given_node)
    graph.output(made)
    result = torch.fx.GraphModule(torch.nn.Module(), graph)(x)
    given_node.meta["tensor_info"], made.meta["tensor_info"] = TensorInfo.of(x), TensorInfo.of(result)
    return made, given_node, result


def marked(shape: tuple[int, ...], place: int) -> torch.Tensor:
    """A tensor whose numbers are their own places in dimension `place`."""
    ones = [1] * len(shape)
    ones[place] = shape[place]
    return torch.arange(float(shape[place])).reshape(ones).expand(shape).contiguous()


def assert_followed(build: Callable[[Graph, Node], Node], shape: tuple[int, ...], place: int) -> int | None:
    made, x, result = node_of(build, marked(shape, place))
    index = GraphIndex(made.graph.owning_module)
    assert source(made, index) is x
    found = place_after(made, x, place)
    if found is not None:
        assert torch.equal(result, marked(tuple(result.shape), found))
    return found


shapes = st.lists(st.integers(1, 4), min_size=2, max_size=4).map(tuple)


@given(shape=shapes, data=st.data())
def test_reshapes_are_followed_where_the_dimension_keeps_its_meaning(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(shape) - 1))
    start = data.draw(st.integers(0, len(shape) - 1))
    end = data.draw(st.integers(start, len(shape) - 1))
    assert_followed(lambda g, x: g.call_function(torch.flatten, (x, start, end)), shape, place)
    assert_followed(lambda g, x: g.call_method("reshape", (x, -1)), shape, place)
    target = data.draw(st.permutations(shape))
    assert_followed(lambda g, x: g.call_method("view", (x, *target)), shape, place)


@given(shape=shapes, data=st.data())
def test_transpositions_are_followed_always(shape: tuple[int, ...], data: st.DataObject) -> None:
    place, one, two = (data.draw(st.integers(-len(shape), len(shape) - 1)) for _ in range(3))
    order = data.draw(st.permutations(range(len(shape))))
    aten = torch.ops.aten
    for build in (
        lambda g, x: g.call_method("transpose", (x, one, two)),
        lambda g, x: g.call_method("permute", (x, *order)),
        lambda g, x: g.call_function(torch.permute, (x, order)),
        lambda g, x: g.call_function(aten.permute.default, (x, list(order))),
        lambda g, x: g.call_function(aten.transpose.int, (x, one, two)),
    ):
        assert assert_followed(build, shape, place % len(shape)) is not None


def test_a_flattening_that_takes_the_dimension_in_is_not_followed() -> None:
    assert assert_followed(lambda g, x: g.call_function(torch.flatten, (x, 1)), (2, 3, 4), 1) is None


def test_a_view_as_another_dtype_is_not_followed() -> None:
    made, x, _ = node_of(lambda g, x: g.call_method("view", (x, torch.int32)), torch.zeros(2, 3))
    assert place_after(made, x, 1) is None


@pytest.mark.parametrize(
    ("build", "passes"),
    [
        (lambda g, x: g.call_function(torch.nn.functional.dropout, (x, 0.5, False)), True),
        (lambda g, x: g.call_function(torch.nn.functional.dropout, (x,), {"p": 0.5, "training": False}), True),
        (lambda g, x: g.call_function(torch.nn.functional.dropout, (x, 0.5)), False),
        (lambda g, x: g.call_function(torch.ops.aten.dropout.default, (x, 0.5, True)), False),
        (lambda g, x: g.call_function(torch.ops.aten.dropout.default, (x, 0.5, False)), True),
        (lambda g, x: g.call_function(torch.relu, (x,)), False),
        (lambda g, x: g.call_method("expand", (x, 2, 3)), False),
    ],
)
def test_only_what_does_nothing_to_the_numbers_passes_them_on(build: Callable[..., Node], passes: bool) -> None:
    made, x, _ = node_of(build, torch.zeros(2, 3))
    assert (source(made, GraphIndex(made.graph.owning_module)) is x) is passes
