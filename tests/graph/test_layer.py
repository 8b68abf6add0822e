"""A layer reads the same whether a module, a function or an operator is called; and so do the reasons to leave it."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Graph, GraphModule, Node

from fxopt.core import (
    BatchNormLayer,
    ConvLayer,
    GraphIndex,
    Layer,
    LinearLayer,
    Miss,
    decide,
    decomposed_linear_miss,
    layer_conditions,
    layer_of,
)

# torch, when it decomposes what it exported
pytestmark = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")


class Functions(nn.Module):
    """The layers of `source` called as functions on its tensors, which are registered at the top."""

    def __init__(self, source: nn.Module, call: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        for name, parameter in source.named_parameters():
            self.register_parameter(name.replace(".", "_"), parameter)
        for name, buffer in source.named_buffers():
            self.register_buffer(name.replace(".", "_"), buffer)
        self._call = call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._call(self, x)


def three_levels(module: nn.Module, call: Callable[[Any, torch.Tensor], torch.Tensor], x: torch.Tensor) -> list[Layer]:
    """The one layer of `module`, called as a module, by `call`, and as an operator."""
    net = nn.Sequential(module).eval()
    graphs = [
        torch.fx.symbolic_trace(net),
        torch.fx.symbolic_trace(Functions(module, call)),
        torch.export.export(net, (x,)).module(),
        torch.export.export(net, (x,)).run_decompositions().module(),
    ]
    return [layer for gm in graphs for layer in layers(gm)]


def layers(gm: Any) -> list[Layer]:
    index = GraphIndex(gm)
    return [layer for node in gm.graph.nodes if (layer := layer_of(node, index)) is not None]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize(
    "dimensions", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_a_convolution_reads_the_same_at_every_level(dimensions: int, padding: int, transposed: bool) -> None:
    name = f"conv{'_transpose' if transposed else ''}{dimensions}d"
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dimensions}d")
    module = kind(4, 6, 3, padding=padding, groups=2)

    def call(m: Any, x: torch.Tensor) -> torch.Tensor:
        return getattr(F, name)(x, m.weight, bias=m.bias, padding=padding, groups=2)

    found = three_levels(module, call, torch.rand(2, 4, *(5,) * dimensions))
    assert len(found) == 4
    for layer in found:
        assert isinstance(layer, ConvLayer)
        assert (layer.dimensions, layer.groups, layer.transposed) == (dimensions, 2, transposed)
        assert layer.pads_zeros is (padding > 0)
        assert torch.equal(layer.weight, module.weight)
        assert layer.bias is not None
        assert torch.equal(layer.bias, module.bias)
        assert layer.input is not None


@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_layer_reads_the_same_until_it_is_decomposed(bias: bool) -> None:
    module = nn.Linear(4, 3, bias=bias)
    found = three_levels(module, lambda m, x: F.linear(x, m.weight, getattr(m, "bias", None)), torch.rand(2, 4))
    linears = [layer for layer in found if isinstance(layer, LinearLayer)]
    assert len(linears) == 3
    assert len(found) == 3 + bias, "with a bias, decomposed, it is an addmm"
    for layer in linears:
        assert torch.equal(layer.weight, module.weight)
        assert ("bias" in layer.held) is bias


@pytest.mark.parametrize("bias", [False, True])
def test_a_decomposed_linear_layer_says_how_to_have_it_whole(bias: bool) -> None:
    program = torch.export.export(nn.Sequential(nn.Linear(4, 3, bias=bias)), (torch.rand(2, 4),))
    misses = [decomposed_linear_miss(n) for n in program.run_decompositions().module().graph.nodes if "mm" in n.name]
    (miss,) = misses
    assert miss is not None
    assert "0.weight" in miss.reason
    assert "before run_decompositions()" in miss.remedy


@pytest.mark.parametrize("affine", [False, True])
def test_batch_normalization_reads_the_same_at_every_level(affine: bool) -> None:
    module = nn.BatchNorm2d(4, affine=affine, eps=1e-3)

    def call(m: Any, x: torch.Tensor) -> torch.Tensor:
        weights = (m.weight, m.bias) if affine else (None, None)
        return F.batch_norm(x, m.running_mean, m.running_var, *weights, eps=1e-3)

    found = three_levels(module, call, torch.rand(2, 4, 5, 5))
    assert len(found) == 4
    for layer in found:
        assert isinstance(layer, BatchNormLayer)
        assert (layer.training, layer.eps) == (False, 1e-3)
        assert {"weight", "bias"} <= set(layer.held) or not affine
        assert layer.gives_one_tensor
    assert found[-1].output is not found[-1].node  # the operator gives a tuple


@pytest.mark.parametrize(
    ("padding", "pads"),
    [("same", True), ("valid", False), ((0, 0), False), ((0, 1), True)],
)
def test_padding_by_any_name_is_seen(padding: Any, pads: bool) -> None:
    module = nn.Conv2d(2, 2, 3, padding=padding)
    found = three_levels(module, lambda m, x: F.conv2d(x, m.weight, m.bias, 1, padding), torch.rand(1, 2, 5, 5))
    assert [layer.pads_zeros for layer in found if isinstance(layer, ConvLayer)] == [pads] * 4


def test_padding_with_anything_but_zeros_is_not_padding_with_zeros() -> None:
    (layer,) = layers(torch.fx.symbolic_trace(nn.Sequential(nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"))))
    assert isinstance(layer, ConvLayer)
    assert not layer.pads_zeros


# ---- why a layer that is called as a function is left alone


def linear_graph(build: Callable[[Graph, Node], Any]) -> GraphModule:
    """A graph module with the parameters `w`, `b` and `part.w`, and the graph that `build` makes on the input."""
    root = nn.Module()
    root.w, root.b = nn.Parameter(torch.rand(4, 4)), nn.Parameter(torch.rand(4))
    root.part = nn.Module()
    root.part.w = nn.Parameter(torch.rand(4, 4))
    graph = Graph()
    graph.output(build(graph, graph.placeholder("x")))
    return GraphModule(root, graph)


def miss_of(gm: GraphModule) -> Miss:
    index = GraphIndex(gm)
    for node in gm.graph.nodes:
        layer = layer_of(node, index)
        miss = decide(node, layer_conditions(layer, nn.Linear, index)) if layer is not None else None
        if isinstance(miss, Miss):
            assert miss.actual
            assert str(miss).startswith(miss.site)
            return miss
    raise AssertionError("no layer is left alone")


def test_a_plain_call_may_be_changed_and_gives_its_input() -> None:
    gm = linear_graph(lambda g, x: g.call_function(F.linear, (x, g.get_attr("w"), g.get_attr("b"))))
    (layer,) = layers(gm)
    assert decide(layer.node, layer_conditions(layer, nn.Linear, GraphIndex(gm))) is layer.input


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (
            lambda g, x: g.call_function(F.linear, (x, g.call_function(torch.abs, (g.get_attr("w"),)))),
            "the weight of linear is computed by abs_1, not a parameter",
        ),
        (lambda g, x: g.call_function(F.linear, (x, x)), "the weight of linear is the input x"),
        (
            lambda g, x: [g.call_function(F.linear, (x, w)) for w in [g.get_attr("w")] * 2],
            "w is read by linear_1 as well as by linear",
        ),
        (
            lambda g, x: [
                g.call_function(F.linear, (x, g.get_attr("w"))),
                g.call_function(torch.sum, (g.get_attr("w"),)),
            ],
            "w is read by sum_1 as well as by linear",
        ),
        (
            lambda g, x: [g.call_function(F.linear, (w, w)) for w in [g.get_attr("w")]],
            "linear is given w 2 times",
        ),
        (
            lambda g, x: g.call_function(F.linear, ([x], g.get_attr("w"))),
            "linear is called with arguments other than one input",
        ),
        (
            lambda g, x: g.call_function(F.linear, (x, g.get_attr("b"))),
            "the weight of linear has shape (4,)",
        ),
    ],
)
def test_a_function_call_that_is_no_plain_layer_says_why(build: Callable[..., Any], reason: str) -> None:
    assert reason in miss_of(linear_graph(build)).reason


def test_a_tied_tensor_is_left_alone() -> None:
    gm = linear_graph(lambda g, x: g.call_function(F.linear, (x, g.get_attr("w"), g.get_attr("b"))))
    gm.register_parameter("other", gm.w)
    assert "w is tied to other" in miss_of(gm).reason


def test_a_tensor_that_is_not_registered_is_left_alone() -> None:
    gm = linear_graph(lambda g, x: g.call_function(F.linear, (x, g.get_attr("w"))))
    del gm.w
    gm.w = torch.rand(4, 4)
    assert "w is an attribute that is not registered" in miss_of(gm).reason


def test_a_tensor_inside_a_module_of_the_model_is_left_alone() -> None:
    gm = linear_graph(lambda g, x: g.call_function(F.linear, (x, g.get_attr("part.w"))))
    gm.part = nn.Linear(4, 4)
    gm.part.w = nn.Parameter(torch.rand(4, 4))
    assert "part.w lies in a Linear of the model itself" in miss_of(gm).reason


@pytest.mark.parametrize("change", ["dtype", "integers", "sparse"])
def test_tensors_of_another_kind_are_left_alone(change: str) -> None:
    gm = linear_graph(lambda g, x: g.call_function(F.linear, (x, g.get_attr("w"), g.get_attr("b"))))
    if change == "dtype":
        gm.b = nn.Parameter(torch.rand(4, dtype=torch.float64))
        assert "differ in dtype or device" in miss_of(gm).reason
    elif change == "integers":
        gm.w, gm.b = (nn.Parameter(t.to(torch.int32), requires_grad=False) for t in (gm.w, gm.b))
        assert "not a floating-point dtype" in miss_of(gm).reason
    else:
        gm.w = nn.Parameter(gm.w.detach().to_sparse(), requires_grad=False)
        assert "whose layout is unknown" in miss_of(gm).reason
