"""Packed layers compute the same as torch's, for every input that these take."""

import io
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import fxopt
from fxopt.packed import Activation, PackedConv2d, PackedLinear, is_available
from fxopt.packed.activation import ACTIVATIONS
from fxopt.packed.weights import _KNOWN

ODD = torch.tensor(
    [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-40, -1e-40, 88.0, -88.0, 100.0, -100.0, 6.0, 3.0, -3.0]
)
LAYER = nn.Linear(8, 4)
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
IMAGE = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def packs(module: PackedLinear, x: torch.Tensor) -> bool:
    """Whether a call is computed by oneDNN, from a packed weight."""
    module._packed = {}
    module(x)
    return bool(module._packed)


def test_this_build_has_the_operators() -> None:
    assert is_available(), "without them, these tests prove nothing"


@pytest.mark.parametrize("name", ACTIVATIONS)
@torch.no_grad()
def test_an_activation_is_as_exact_as_that_of_torch_also_for_nan_and_infinity(name: str) -> None:
    activation = Activation.of(name, {})
    assert activation is not None
    one = PackedLinear(nn.Parameter(torch.ones(4, 1)), None, activation)
    found, expected = one(ODD[:, None])[:, 1], activation(ODD)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7, equal_nan=True)
    x = torch.cat([torch.linspace(-9, 9, 2001), torch.linspace(-1e-3, 1e-3, 101)])
    exact = activation(x.double())
    error, before = ((y.double() - exact).abs().max() for y in (one(x[:, None])[:, 1], activation(x)))
    assert error <= 4 * before + 1e-7


@pytest.mark.parametrize("slope", [0.0, -0.0, 1e-46, 1e-40, -2.0])
@torch.no_grad()
def test_a_leaky_relu_of_any_slope_keeps_nan(slope: float) -> None:
    activation = Activation.of("leaky_relu", {"negative_slope": slope})
    found = PackedLinear(nn.Parameter(torch.ones(4, 1)), None, activation)(ODD[:, None])[:, 1]
    torch.testing.assert_close(found, F.leaky_relu(ODD, slope), rtol=1e-6, atol=1e-7, equal_nan=True)


@torch.no_grad()
def test_the_packed_copy_follows_every_write_that_torch_counts() -> None:
    layer = nn.Linear(8, 4)
    packed = PackedLinear(layer.weight, layer.bias)
    for act in (
        lambda: layer.weight.add_(1),
        lambda: layer.load_state_dict(nn.Linear(8, 4).state_dict()),
        lambda: setattr(layer.weight, "data", torch.randn(4, 8)),
        lambda: setattr(packed, "weight", layer.weight),
        lambda: setattr(layer, "weight", nn.Parameter(torch.randn(4, 8))),
    ):
        packed(X)
        act()
        packed.weight = layer.weight
        torch.testing.assert_close(packed(X), layer(X))


@torch.no_grad()
def test_the_packed_copy_is_not_that_of_the_transposed_weight_in_the_same_memory() -> None:
    layer = PackedLinear(nn.Parameter(torch.randn(8, 8)), None)
    layer(X)
    layer.weight = nn.Parameter(layer.weight.t())
    torch.testing.assert_close(layer(X), F.linear(X, layer.weight))


@torch.no_grad()
def test_one_weight_is_packed_once_and_the_copy_goes_with_its_last_module() -> None:
    layer = nn.Linear(8, 4)
    first, second = PackedLinear(layer.weight, None), PackedLinear(layer.weight, layer.bias)
    first(X)
    second(X)
    assert first._packed[None] is second._packed[None]
    before = len(_KNOWN)
    del first, second
    assert len(_KNOWN) == before - 1


@torch.no_grad()
def test_calls_that_onednn_cannot_take_are_computed_by_torch() -> None:
    packed = PackedLinear(LAYER.weight, LAYER.bias, Activation.of("gelu", {}))
    assert packs(packed, X)
    assert not packs(packed, X[0])
    assert not packs(packed, X[:0])
    with torch.autocast("cpu", torch.bfloat16):
        assert not packs(packed, X)
    with FlopCounterMode(display=False) as counter:
        assert not packs(packed, X)
    assert counter.get_total_flops() == 2 * 3 * 8 * 4
    with torch.enable_grad():
        assert not packs(packed, X)
    torch.testing.assert_close(torch.vmap(packed)(X[:, None]), F.gelu(LAYER(X))[:, None])
    half = PackedLinear(nn.Parameter(LAYER.weight.double()), None)
    assert not packs(half, X.double())
    with torch.inference_mode():
        assert packs(packed, X.clone())
        weight = LAYER.weight.clone()
        assert not packs(PackedLinear(weight, None), X)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@torch.no_grad()
def test_a_sparse_summand_is_added_by_torch(layout: torch.layout) -> None:
    packed = PackedLinear(LAYER.weight, LAYER.bias)
    other = torch.eye(3, 4)
    torch.testing.assert_close(packed(X, other.to_sparse(layout=layout)), LAYER(X) + other)


PACKED = pytest.mark.parametrize(
    ("model", "x", "pass_"),
    [
        (nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)), X, fxopt.PackLinears()),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)), IMAGE, fxopt.PackConvolutions()),
    ],
    ids=["linear", "convolution"],
)  # fmt: skip


@PACKED
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_trace_of_torch_jit_is_saved_and_takes_other_inputs(
    model: nn.Module, x: torch.Tensor, pass_: fxopt.Pass
) -> None:
    gm = fxopt.capture(model.eval(), (x,))
    pass_(gm)
    content = io.BytesIO()
    with torch.no_grad():
        gm(x)
        torch.jit.save(torch.jit.trace(gm, (x,)), content)
        content.seek(0)
        other = torch.cat((x, x))
        torch.testing.assert_close(torch.jit.load(content)(other), model(other))


@PACKED
def test_a_compiler_sees_the_functions_of_torch(model: nn.Module, x: torch.Tensor, pass_: fxopt.Pass) -> None:
    gm = fxopt.capture(model.eval(), (x,))
    pass_(gm)
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, example: list[torch.Tensor]) -> torch.fx.GraphModule:
        seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
        return graph

    with torch.inference_mode():
        expected = gm(x)
        found = torch.compile(gm, fullgraph=True, backend=backend)(x)
    torch._dynamo.reset()
    assert len(seen) == 3
    assert not any("pointwise" in name for name in seen)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_one_row_is_multiplied_by_torch_where_that_is_less_work_than_to_set_onednn_up(name: str) -> None:
    activation = Activation.of(name, {})
    assert activation is not None
    layer, large = nn.Linear(8, 4), nn.Linear(1024, 512)
    row = torch.randn(1, 8)
    packed = PackedLinear(layer.weight, layer.bias, activation)
    assert not packs(packed, row)
    assert packs(packed, X)
    assert packs(PackedLinear(large.weight, None), torch.randn(1, 1024))
    torch.testing.assert_close(packed(row), activation(layer(row)))
    assert torch.equal(packed(row * math.nan).isnan(), activation(layer(row * math.nan)).isnan())
    torch.testing.assert_close(PackedLinear(layer.weight, layer.bias)(row, torch.ones(1, 4)), layer(row) + 1)


@torch.no_grad()
@pytest.mark.parametrize("keeps_order", [True, False])
def test_a_single_pixel_is_one_row(keeps_order: bool) -> None:
    conv = nn.Conv2d(6, 4, 1)
    activation = Activation.of("silu", {})
    geometry: dict[str, Any] = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    packed = PackedConv2d(conv.weight, conv.bias, activation, keeps_order=keeps_order, groups=1, **geometry)
    one, turned, part = torch.randn(1, 6, 1, 1), torch.randn(1, 1, 1, 6).permute(0, 3, 1, 2), torch.randn(1, 6, 1, 2)
    for pixel in (one, turned, part[..., :1]):
        found, expected = packed(pixel), F.silu(conv(pixel))
        torch.testing.assert_close(found, expected)
        assert found.is_contiguous()
        assert found.is_contiguous(memory_format=torch.channels_last)
    assert not packed._packed
    grouped = nn.Conv2d(6, 6, 1, groups=6)
    packed = PackedConv2d(grouped.weight, grouped.bias, groups=6, **geometry)
    torch.testing.assert_close(packed(one), grouped(one))
