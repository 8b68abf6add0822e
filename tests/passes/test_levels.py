"""The passes on functions and operators: the same rewrites as on modules, and the way back."""

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ChangeTrueDivToMulByInverse,
    Exactness,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    Pass,
)
from fxopt.core import shared_copy
from tests.examples import outputs
from tests.passes.asserts import assert_left_alone
from tests.quick import quick

# torch, when it copies or decomposes what it exported
pytestmark = pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")


class Layers(nn.Module):
    """Pairs of layers that each pass has something to say about."""

    shape: tuple[int, ...] = (5, 4)

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 6), nn.Linear(4, 2, bias=False), nn.Linear(4, 2, bias=False)
        self.bn, self.last = nn.BatchNorm1d(6), nn.Linear(6, 2)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)
        assert self.bn.running_mean is not None
        self.bn.running_mean.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.bn(self.q(x))) / 3 + (self.k(x) * 2).view(5, 1, 2).flatten(1) * self.v(x)


class Functions(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, bn, last = self.q, self.bn, self.last
        y = F.batch_norm(F.linear(x, q.weight, q.bias), bn.running_mean, bn.running_var, bn.weight, bn.bias)
        k, v = F.linear(x, self.k.weight), F.linear(x, weight=self.v.weight)
        return torch.div(F.linear(y, last.weight, bias=last.bias), 3) + (k * 2).view(5, 1, 2).flatten(1) * v


class Images(nn.Module):
    shape: tuple[int, ...] = (2, 3, 6, 6)

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(4)
        assert self.bn.running_mean is not None
        self.bn.running_mean.normal_()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(self.conv(x))


class ImageFunctions(Images):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.conv2d(x, self.conv.weight, None, 2, padding=1)
        return F.batch_norm(
            y, self.bn.running_mean, self.bn.running_var, self.bn.weight, self.bn.bias, False, 0.1, 1e-5
        )


def model(kind: type[Any], dtype: torch.dtype = torch.float32) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval().to(dtype)


def sample(kind: type[Any], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(kind.shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def as_functions(kind: type[Any], dtype: torch.dtype = torch.float32) -> GraphModule:
    return shared_copy(_captured({Layers: Functions, Images: ImageFunctions}[kind], dtype))


def as_operators(kind: type[Any], dtype: torch.dtype = torch.float32) -> GraphModule:
    return _exported(kind, dtype).module()


def as_core_operators(kind: type[Any], dtype: torch.dtype = torch.float32) -> GraphModule:
    return _decomposed(kind, dtype).module()


@functools.cache
def _captured(kind: type[Any], dtype: torch.dtype) -> GraphModule:
    return fxopt.capture(model(kind, dtype), (sample(kind, dtype),))


@functools.cache
def _exported(kind: type[Any], dtype: torch.dtype) -> torch.export.ExportedProgram:
    return torch.export.export(model(kind, dtype), (sample(kind, dtype),))


@functools.cache
def _decomposed(kind: type[Any], dtype: torch.dtype) -> torch.export.ExportedProgram:
    return _exported(kind, dtype).run_decompositions()


LEVELS = [as_functions, as_operators]
CASES = [
    (MergeLinears, Layers, LEVELS, 1),
    (FuseBiasInLinear, Layers, LEVELS, 2),
    (ChangeTrueDivToMulByInverse, Layers, [*LEVELS, as_core_operators], 1),
    (FuseBatchNorm1dInLinear, Layers, LEVELS, 1),
    (FuseBatchNorm2dInConv2d, Images, [*LEVELS, as_core_operators], 1),
]
every_case = pytest.mark.parametrize(
    ("pass_", "kind", "level", "sites"),
    [(pass_(), kind, level, sites) for pass_, kind, levels, sites in CASES for level in levels],
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", None)),
)


@every_case
def test_the_same_sites_are_found_and_explained(pass_: Pass[Any], kind: Any, level: Any, sites: int) -> None:
    scan = pass_.scan(level(kind))
    assert len(scan.matches) == sites
    assert all(any(node.name in pass_.explain(match) for node in match.nodes) for match in scan.matches)


@every_case
def test_it_comes_back_to_the_bit_and_to_the_very_tensors(pass_: Pass[Any], kind: Any, level: Any, sites: int) -> None:
    gm = level(kind)
    before, tensors = fxopt.fingerprint(gm), {key: id(t) for key, t in gm.state_dict(keep_vars=True).items()}
    pass_(gm)
    gm(sample(kind))
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    assert {key: id(t) for key, t in gm.state_dict(keep_vars=True).items()} == tensors


@pytest.mark.parametrize(
    "dtype", quick([torch.float32, torch.float64, torch.bfloat16, torch.float16], torch.float32, torch.bfloat16)
)
@every_case
def test_errors_stay_within_their_bound(
    pass_: Pass[Any], kind: Any, level: Any, sites: int, dtype: torch.dtype
) -> None:
    gm, x = level(kind, dtype), sample(kind, dtype)
    (old,) = outputs(gm, (x,))
    (new,) = outputs(pass_(gm), (x,))
    with torch.no_grad():
        exact = model(kind, dtype).double()(x.double())
    old_error, new_error = ((y.double() - exact).abs().max() for y in (old, new))
    assert new.dtype == dtype
    assert new_error <= 4 * old_error + 32 * torch.finfo(dtype).eps * exact.abs().max().clamp(min=1)


@pytest.mark.parametrize("travel", [copy.deepcopy, shared_copy])
@every_case
def test_a_copy_reverses_without_the_original(
    pass_: Pass[Any], kind: Any, level: Any, sites: int, travel: Callable[..., GraphModule]
) -> None:
    gm, x = level(kind), sample(kind)
    keys, old = list(gm.state_dict()), outputs(gm, (x,))
    pass_(gm)
    changed, code = outputs(gm, (x,)), gm.code
    gone = travel(gm)
    pass_(gone, reverse=True)
    assert list(gone.state_dict()) == keys
    assert torch.equal(outputs(gone, (x,))[0], old[0])
    assert (torch.equal(outputs(gm, (x,))[0], changed[0]), gm.code == code) == (True, True)
    pass_(gm, reverse=True)
    assert torch.equal(outputs(gm, (x,))[0], old[0])


@every_case
def test_operators_stay_operators(pass_: Pass[Any], kind: Any, level: Any, sites: int) -> None:
    gm = level(kind)
    ops = {node.op for node in gm.graph.nodes}
    pass_(gm)
    if level is not as_functions:
        assert {node.op for node in gm.graph.nodes} <= ops
        functions = [node.target for node in gm.graph.nodes if node.op == "call_function"]
        assert all(isinstance(f, torch._ops.OpOverload) or f.__name__ == "getitem" for f in functions)
        torch.export.export(gm, (sample(kind),))


def test_what_a_fold_no_longer_needs_leaves_the_state_dict() -> None:
    gm = as_operators(Images)
    FuseBatchNorm2dInConv2d()(gm)
    assert list(gm.state_dict()) == ["conv.weight", "conv.bias"]


def test_linears_called_in_different_ways_are_merged_apart() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.w = nn.Linear(4, 3, bias=False), nn.Parameter(torch.rand(3, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x) * F.linear(x, self.w)

    gm = fxopt.capture(Both(), (torch.rand(2, 4),))
    assert_left_alone(MergeLinears(), gm, "what it calls is a module here")


def test_a_frozen_parameter_and_a_buffer_are_weights_too() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.rand(3, 4))
            self.b = nn.Parameter(torch.rand(3), requires_grad=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(x, self.w, self.b)

    gm, x = fxopt.capture(Frozen(), (torch.rand(2, 4),)), torch.rand(2, 4)
    before, old = fxopt.fingerprint(gm), outputs(gm, (x,))
    FuseBiasInLinear()(gm)
    torch.testing.assert_close(outputs(gm, (x,)), old)
    assert not any(parameter.requires_grad for parameter in gm.parameters())
    FuseBiasInLinear()(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_a_functional_batch_norm_in_training_mode_is_left_alone() -> None:
    class Training(ImageFunctions):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.batch_norm(F.conv2d(x, self.conv.weight), None, None, self.bn.weight, self.bn.bias, True)

    gm = torch.fx.symbolic_trace(model(Training))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "batch_norm is in training mode", "model.eval()")


def test_a_functional_batch_norm_of_unknown_rank_is_left_alone() -> None:
    gm = torch.fx.symbolic_trace(model(ImageFunctions))
    assert_left_alone(FuseBatchNorm2dInConv2d(), gm, "the shape of conv2d is unknown", "fxopt.capture")


@pytest.mark.parametrize(
    ("divide", "exactness"),
    [
        (lambda x: torch.ops.aten.div.Tensor(x, 8), Exactness.BITWISE),
        (lambda x: torch.ops.aten.div.Tensor(x, 3.0), Exactness.ROUNDING),
        (lambda x: torch.ops.aten.div.Scalar(x, 3), Exactness.ROUNDING),
        (lambda x: torch.ops.aten.div_.Tensor(torch.ops.aten.clone.default(x), 3), Exactness.ROUNDING),
        (lambda x: torch.ops.aten.div.Tensor_mode(x, 3, rounding_mode=None), Exactness.ROUNDING),
    ],
)
def test_every_operator_that_divides_is_rewritten(divide: Callable[..., Any], exactness: Exactness) -> None:
    class Divide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return divide(x)

    gm, x = torch.fx.symbolic_trace(Divide()), torch.linspace(-3, 5, 12)
    fxopt.annotate(gm, x)
    before = fxopt.fingerprint(gm)
    pass_ = ChangeTrueDivToMulByInverse()
    (match,) = pass_.scan(gm).matches
    assert pass_.exactness(match) is exactness
    torch.testing.assert_close(pass_(gm)(x), x / match.divisor)
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_an_operator_that_rounds_is_left_alone() -> None:
    class Divide(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.div.Tensor_mode(x, 3, rounding_mode="floor")

    assert_left_alone(
        ChangeTrueDivToMulByInverse(), torch.fx.symbolic_trace(Divide()), "rounds to whole numbers (floor)"
    )


def test_a_size_divided_by_an_operator_is_left_alone() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x", torch.Tensor)
    size = graph.call_function(torch.ops.aten.sym_size.int, (x, 0))
    graph.output(graph.call_function(torch.ops.aten.div.Tensor, (size, 49)))
    gm = GraphModule(nn.Module(), graph)
    assert_left_alone(ChangeTrueDivToMulByInverse(), gm, "is not known to be a tensor")


@pytest.mark.parametrize("pass_", [MergeLinears(), FuseBiasInLinear()], ids=lambda p: p.name)
def test_decomposed_linears_are_near_misses(pass_: Pass[Any]) -> None:
    assert_left_alone(pass_, as_core_operators(Layers), "run_decompositions() made of a linear layer", "q.weight")
