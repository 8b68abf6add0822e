"""Rounding before a jump: where a value reaches floor, a comparison or argmax, an inexact pass leaves it alone."""

import operator
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._ops import OpOverload
from torch.fx import GraphModule, symbolic_trace
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils._pytree import tree_leaves, tree_map_only
from transformers.activations import ACT2FN
from transformers.models.llama.modeling_llama import LlamaRMSNorm

import fxopt
from fxopt import (
    ALL_PASSES,
    ChangeAddmmToLinear,
    ChangeTrueDivToMulByInverse,
    FoldBatchNorm,
    FoldConstants,
    FuseBiasInLinear,
    MergeLinears,
    Pass,
    RemoveIdentities,
    ShareCommonSubexpressions,
)
from fxopt.core import TensorInfo
from fxopt.graph import jumps
from fxopt.graph.jumps import _Search
from fxopt.graph.operator_names import canonical
from fxopt.graph.operator_table import EDGES, JUMPS, is_tagged_pointwise
from tests.examples import outputs
from tests.fuzz.rules import add_linears, fold_scale, join_linears
from tests.graph.test_operators import _REFUSED, arguments, called, operators
from tests.passes.asserts import Net, assert_close_and_reversible, captured

X = (torch.arange(-24.0, 24.0) * 41).reshape(6, 8)  # of which `X * (1 / 41)` is no whole number at some
PIXELS = torch.arange(64.0).view(1, 1, 8, 8)
DIVIDE = ChangeTrueDivToMulByInverse()
Step = Callable[[torch.Tensor], Any]

JUMPING: dict[str, Step] = {
    "long": lambda y: y.long(),
    "int": lambda y: y.int(),
    "bool": lambda y: (y - 3).bool(),
    "to": lambda y: y.to(torch.int64),
    "to by keyword": lambda y: y.to(dtype=torch.int32),
    "type": lambda y: y.type("torch.LongTensor"),
    "float8": lambda y: y.to(torch.float8_e4m3fn).float(),
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": lambda y: y.trunc(),
    "frac": lambda y: y.frac(),
    "in place": lambda y: (y + 0).floor_(),
    "floor division": lambda y: y // 1,
    "div with a rounding mode": lambda y: torch.div(y, 1, rounding_mode="floor"),
    "remainder": lambda y: y % 1,
    "fmod": lambda y: torch.fmod(y, 1),
    "equality": lambda y: y == 3,
    "a comparison": lambda y: (y < 3) * 1.0,
    "a comparison by method": lambda y: y.ge(3).float(),
    "a condition": lambda y: torch.where(y >= 3, 1.0, 0.0),
    "sign": lambda y: torch.sign(y - 3),
    "argmax": lambda y: y.argmax(-1),
    "argmin": lambda y: torch.argmin(y, -1),
    "argsort": lambda y: y.argsort(-1),
    "indices of sort": lambda y: y.sort(-1)[1],
    "indices of topk": lambda y: torch.topk(y, 2).indices,
    "both of topk": lambda y: y.topk(2),
    "indices of max": lambda y: y.max(dim=-1)[1],
    "indices of a pool": lambda y: F.max_pool1d(y, 2, return_indices=True)[1],
    "bucketize": lambda y: torch.bucketize(y, torch.arange(5.0)),
    "searchsorted": lambda y: torch.searchsorted(torch.arange(8.0), y.contiguous()),
    "one hot": lambda y: F.one_hot(y.clamp(0, 9).long(), 10),
    "an index": lambda y: torch.arange(10)[y.clamp(0, 9).long()],
    "hardshrink": lambda y: F.hardshrink(y, 3.0),
    "threshold": lambda y: F.threshold(y, 3.0, 0.0),
    "logical not": lambda y: torch.logical_not(y - 3),
    "quantizing": lambda y: torch.fake_quantize_per_tensor_affine(y, 1.0, 0, -128, 127),
    "round of torch.special": torch.special.round,
    "a copy into integers": lambda y: torch.zeros_like(y, dtype=torch.int64).copy_(y),
    "a count by a norm": lambda y: torch.linalg.vector_norm(y - 3, 0),
    "a count by the old norm": lambda y: torch.norm(y - 3, p=0),
    "a count of differences": lambda y: torch.cdist(y, torch.arange(8.0).view(1, 8), p=0.0),
    "a rank": lambda y: torch.linalg.matrix_rank(y),
    "the end of a domain": lambda y: torch.acos(y).isnan(),
    "the end of a domain by another name": lambda y: torch.special.logit(y).isnan(),
    "the nearest pixel": lambda y: F.grid_sample(
        PIXELS, y.view(1, 6, 4, 2) * 0.2 - 1, mode="nearest", align_corners=True
    ),
    "distinct rows": lambda y: torch.unique(y, dim=0).sum(0),
}

ON_THE_WAY: dict[str, Step] = {
    "arithmetic": lambda y: (2 - y * 3).abs(),
    "activations": lambda y: F.relu(y).clamp(0, 9).minimum(torch.tensor(7.0)),
    "moves": lambda y: y.view(-1, 4).transpose(0, 1)[1:].unsqueeze(0).contiguous(),
    "a cat": lambda y: torch.cat([y, y + 1]),
    "chunks": lambda y: y.chunk(2)[1],
    "a conversion": lambda y: y.double(),
    "a choice": lambda y: torch.where(torch.ones_like(y) > 0, y, 0.0),
    "a mask": lambda y: y.masked_fill(torch.ones_like(y) > 2, 0.0),
    "values of topk": lambda y: y.topk(2)[0],
    "a copy": lambda y: torch.zeros_like(y).copy_(y),
    "a sum in place": lambda y: _added(torch.zeros_like(y), y),
    "the largest": lambda y: y.max() - torch.amin(y) + y.aminmax()[0],
    "the median": lambda y: torch.median(y) + y.nanmedian() + y.quantile(0.5),
    "a pool": lambda y: F.max_pool1d(F.adaptive_max_pool1d(y, 6), 2),
    "a pool of images": lambda y: F.max_pool2d(y[None], 2, return_indices=True)[0],
    "nearest neighbors": lambda y: F.interpolate(y[None], scale_factor=2),
    "pixels": lambda y: F.pixel_unshuffle(F.channel_shuffle(y[None], 2), 2),
    "flips": lambda y: torch.rot90(y.fliplr()).flipud(),
    "patches": lambda y: F.unfold(y[None, None], 2),
    "a diagonal": lambda y: torch.block_diag(y, y).diag_embed(),
    "columns": lambda y: torch.column_stack(torch.broadcast_tensors(y, y)),
    "pairs": lambda y: torch.cartesian_prod(y[0], y[1]),
    "a mesh": lambda y: torch.meshgrid(y[0], y[1], indexing="ij")[0],
    "dimensions": lambda y: torch.einsum("ij->ji", torch.atleast_3d(y)[..., 0]),
    "a complex number": lambda y: torch.complex(y, y).conj().imag,
    "its parts": lambda y: torch.view_as_real(torch.view_as_complex(y.view(-1, 2))),
    "sums that begin with one number": lambda y: y.cumsum(-1) + F.pad(y.diff(), (0, 1)),
    "sums of few": lambda y: torch.zeros_like(y).index_add(0, torch.arange(6), y),
    "the largest of few": lambda y: torch.zeros_like(y).scatter_reduce(0, torch.zeros(6, 8).long(), y, "amax"),
    "halves": lambda y: F.glu(torch.cat([y, y], -1)),
    "a gap": lambda y: y.put(torch.tensor([0]), torch.tensor([0.5])),
    "a product with each": lambda y: torch.outer(y[0], torch.ones(2)),
}

NO_JUMP: dict[str, Step] = {
    "activations": lambda y: F.relu(y) + F.hardswish(y) + F.leaky_relu(y),
    "clamp": lambda y: y.clamp(-3, 3),
    "a choice by something else": lambda y: torch.where(torch.ones(8) > 0, y, 0.0),
    "a comparison of something else": lambda y: y * (torch.ones(8) > 0),
    "a shape": lambda y: y * (y.shape[0] // 2) + y.ndim % 2,
    "argmax after a softmax": lambda y: y.softmax(-1).argmax(-1),
    "floor after a product": lambda y: torch.floor(y @ torch.ones(8, 8)),
    "values of max": lambda y: y.max(dim=-1)[0],
    "values of sort": lambda y: y.sort(-1)[0],
    "a floor before it": lambda y: y + torch.floor(torch.ones(8)),
    "another dtype": lambda y: y.to(torch.float64),
    "whether it is finite": lambda y: y.isfinite(),
    "a domain that ends at 0": lambda y: y.sqrt(),
    "a norm": lambda y: torch.linalg.vector_norm(y - 3),
}


def _added(into: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    into.view(-1).add_(y.view(-1))
    return into


def traced(step: Step, c: float) -> GraphModule:
    """The division and the steps after it, without shapes."""
    return symbolic_trace(Net(lambda m, x: step(x / c)))


class Steps(nn.Module):
    """For each step, the division of an input of its own and the steps after it."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        return [step(x / 41) for step, x in zip(self.steps, inputs, strict=True)]


def with_shapes(steps: list[Step]) -> list[GraphModule]:
    graphs = [traced(step, 41) for step in steps]
    for gm in graphs:
        ShapeProp(gm).propagate(X.clone())
    return graphs


def as_operators(steps: list[Step]) -> list[GraphModule]:
    made = torch.export.export(Steps(steps), tuple(X.clone() for _ in steps)).module()
    assert isinstance(made, GraphModule)
    return [made]


@pytest.mark.parametrize("step", JUMPING.values(), ids=JUMPING)
def test_a_division_before_a_jump_is_left_alone_unless_it_is_exact(step: Step) -> None:
    gm = traced(step, 41)
    old = outputs(gm, (X,))
    (miss,) = [miss for miss in DIVIDE.scan(gm).misses if "whole numbers" not in miss.reason]
    assert miss.reason.startswith("truediv reaches")
    DIVIDE.apply(fxopt.core.GraphIndex(gm))
    gm.recompile()
    for a, b in zip(old, outputs(gm, (X,)), strict=True):
        assert torch.equal(a, b)
    exact = traced(step, 8)
    assert not DIVIDE.scan(exact).matches, "it may be complex, which is rounded"
    ShapeProp(exact).propagate(X.clone())
    assert [match.site for match in DIVIDE.scan(exact).matches] == ["truediv"]


@pytest.mark.parametrize("how", [with_shapes, as_operators])
def test_jumps_are_seen_in_every_kind_of_graph(how: Callable[[list[Step]], list[GraphModule]]) -> None:
    jumping = [step for name, step in JUMPING.items() if "rounding mode" not in name]
    ways = [lambda y, way=way: torch.floor(way(y)) for way in ON_THE_WAY.values()]
    scans = [DIVIDE.scan(gm) for gm in how([*jumping, *ways])]
    assert [scan.matches for scan in scans] == [()] * len(scans)
    assert sum("reaches" in miss.reason for scan in scans for miss in scan.misses) == len(jumping) + len(ways)
    assert sum(len(DIVIDE.scan(gm).matches) for gm in how(list(NO_JUMP.values()))) == len(NO_JUMP)


@pytest.mark.parametrize("way", ON_THE_WAY.values(), ids=ON_THE_WAY)
def test_a_jump_is_seen_through_what_works_number_by_number_or_moves_numbers(way: Step) -> None:
    scan = DIVIDE.scan(traced(lambda y: torch.floor(way(y)), 41))
    assert scan.matches == ()
    nearest = ("floor", "copy_", "masked_fill")  # the last two may write to integers: nothing tells their dtypes
    assert any(f"reaches {name}" in str(scan) for name in nearest)


MOVING_LAYERS: dict[str, tuple[nn.Module, Step]] = {
    "MaxPool1d": (nn.MaxPool1d(2), lambda y: y),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(2), lambda y: y[None]),
    "Upsample": (nn.Upsample(scale_factor=2), lambda y: y[None]),
    "PixelShuffle": (nn.PixelShuffle(1), lambda y: y[None]),
    "ReflectionPad1d": (nn.ReflectionPad1d(1), lambda y: y),
    "ZeroPad2d": (nn.ZeroPad2d(1), lambda y: y),
    "Unfold": (nn.Unfold(2), lambda y: y[None, None]),
    "GLU": (nn.GLU(), lambda y: y),
}


@pytest.mark.parametrize("name", MOVING_LAYERS)
def test_a_jump_is_seen_through_a_layer_that_moves_numbers(name: str) -> None:
    layer, before = MOVING_LAYERS[name]
    gm = captured(lambda m, x: torch.floor(m.layer(before(x / 41))), X, layer=layer)
    assert DIVIDE.scan(gm).matches == ()


@pytest.mark.slow
def test_a_jump_is_seen_through_every_operator_that_gives_nothing_but_numbers_of_its_inputs() -> None:
    checked, missing = set(), []
    for overload in operators():
        name = str(overload.overloadpacket.__name__)
        if getattr(torch.Tag, "out", None) in overload.tags or canonical(name.strip("_")) in JUMPS | NO_NUMBERS:
            continue
        for shape in ((4, 4), (4,), (3, 4, 4), (2, 3, 4, 4)):
            args, kwargs = arguments(overload, (shape, torch.float32, 1), False, False)
            if _gives_numbers_of_its_inputs(overload, args, kwargs):
                checked.add(name)
                missing += [] if _leads_to_a_jump(overload, args, kwargs) else [str(overload)]
    assert not missing
    assert len(checked) > 150


def _gives_numbers_of_its_inputs(overload: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> bool:
    generator = torch.Generator().manual_seed(0)
    floats = [tensor.uniform_(2, 9, generator=generator) for tensor in _floats_in((args, kwargs))]
    numbers = torch.cat([torch.tensor([0.0, 1.0]), *(tensor.reshape(-1).clone() for tensor in floats)])
    try:
        made = torch.cat(
            [tensor.to_dense().reshape(-1).float() for tensor in _floats_in(called(overload, args, kwargs))]
        )
    except _REFUSED:
        return False
    return bool(floats) and made.unique().numel() > 1 and bool(torch.isin(made, numbers).all())


def _floats_in(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]


def _leads_to_a_jump(overload: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> bool:
    graph = torch.fx.Graph()

    def as_node(tensor: torch.Tensor) -> torch.fx.Node:
        node = graph.placeholder(f"x{len(graph.nodes)}")
        node.meta["tensor_info"] = TensorInfo.of(tensor)
        return node

    given, named = tree_map_only(torch.Tensor, as_node, (tuple(args), kwargs))
    node = graph.call_function(overload, given, named)
    graph.call_method("floor", (graph.call_function(operator.getitem, (node, 0)),))
    return _Search(fxopt.core.GraphIndex(GraphModule(nn.Module(), graph))).passes_on(node)


NO_NUMBERS = {"matrix_power", "linalg_matrix_power", "norm_except_dim", "choose_qparams_optimized", "sum_to_size",
              "avg_pool1d", "avg_pool2d", "avg_pool3d"}  # fmt: skip
"""They mix numbers; on the arguments above it is one at a time."""


@pytest.mark.parametrize("step", NO_JUMP.values(), ids=NO_JUMP)
def test_what_is_no_jump_of_the_value_leaves_the_site(step: Step) -> None:
    scan = DIVIDE.scan(traced(step, 41))
    assert len(scan.matches) == 1, scan


def test_a_jump_is_seen_through_an_assignment() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        into = torch.zeros_like(x)
        into[:] = x / 41
        return torch.floor(into)

    assert DIVIDE.scan(captured(forward, X)).matches == ()


def test_an_assignment_to_integers_is_a_jump() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        into = torch.zeros(x.shape, dtype=torch.int64)
        into[:] = x / 41
        return into

    assert DIVIDE.scan(captured(forward, X)).matches == ()


WHOLE = torch.arange(48).reshape(6, 8)
WRITES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "fill_": lambda whole, y: whole.fill_(y.max()),
    "masked_fill": lambda whole, y: whole.masked_fill(whole > 3, y.max()),
    "index_fill": lambda whole, y: whole.index_fill(0, torch.tensor([0]), y.max()),
    "slice_scatter": lambda whole, y: torch.slice_scatter(whole, y),
    "select_scatter": lambda whole, y: torch.select_scatter(whole, y[0], 0, 0),
    "foreach_copy": lambda whole, y: (torch._foreach_copy_([whole], [y]), whole + 0)[1],
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_of_fractions_to_whole_numbers_is_a_jump(name: str) -> None:
    for whole, sites in ((WHOLE, 0), (WHOLE.double(), 1)):
        gm = captured(lambda m, x, whole=whole: WRITES[name](x.new_zeros(6, 8).to(whole.dtype), x / 41), X)
        assert len(DIVIDE.scan(gm).matches) == sites, (name, whole.dtype)


def test_a_write_after_the_jump_has_read_is_no_matter() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        into = torch.zeros_like(x)
        floor = torch.floor(into)
        into.copy_(x / 41)
        return floor + into

    assert len(DIVIDE.scan(captured(forward, X)).matches) == 1


def test_a_division_in_place_is_seen_by_those_who_read_the_memory() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = x + 0
        y.view(-1).div_(41)
        return torch.floor(y)

    assert DIVIDE.scan(captured(forward, X)).matches == ()


def _unary(name: str) -> Callable[[torch.Tensor], torch.Tensor] | None:
    function = getattr(torch, name, None) or getattr(F, name, None) or getattr(torch.special, name[8:], None)
    try:
        with torch.no_grad():
            return function if function is not None and isinstance(function(torch.ones(2)), torch.Tensor) else None
    except (TypeError, RuntimeError, ValueError):
        return None


NAMES = {*dir(torch), *dir(F), *(f"special_{name}" for name in dir(torch.special))}
POINTWISE = [name for name in sorted(NAMES) if is_tagged_pointwise(name) and not name.endswith("_")]


@pytest.mark.parametrize("name", [name for name in POINTWISE if _unary(name) is not None])
def test_the_table_of_jumps_holds_of_torchs_own_pointwise_operations(name: str) -> None:
    function = _unary(name)
    assert function is not None
    bounds = torch.tensor([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 0.0, -0.0, 1.5, 3.0, 6.0], dtype=torch.float64)
    with torch.no_grad():
        around = [function(bounds + difference).double() for difference in (-1e-9, 0.0, 1e-9)]
    steps = [(b - a).abs() for a, b in pairwise(around) if a.isfinite().any() and b.isfinite().any()]
    near = [bool((step[step < 1e6] > 1e-3).any()) for step in steps]  # what is larger is a pole
    assert any(near) == (name in JUMPS), f"{name} steps by {steps}"
    below, _, above = (each.isnan() for each in around)
    ends = (below != above) & (bounds != 0)
    assert bool(ends.any()) == (name in EDGES), f"{name} ends at {bounds[ends]}"


def attention(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x


MODELS: list[tuple[Pass[Any], dict[str, nn.Module], Callable[..., Any]]] = [
    (MergeLinears(), {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}, lambda m, x, f: (f(m.a(x)), m.b(x))),
    (FuseBiasInLinear(), {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x))),
    (FoldBatchNorm(), {"a": nn.Linear(8, 8), "n": nn.BatchNorm1d(8)}, lambda m, x, f: f(m.n(m.a(x)))),
    (FoldBatchNorm(), {"n": nn.BatchNorm1d(8), "a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(m.n(x)))),
    (
        fxopt.FuseBatchNorm1dInLinear(),
        {"a": nn.Linear(8, 8), "n": nn.BatchNorm1d(8)},
        lambda m, x, f: f(m.n(m.a(x))),
    ),
    (
        fxopt.FuseBatchNorm2dInConv2d(),
        {"a": nn.Conv2d(1, 8, 1), "n": nn.BatchNorm2d(8)},
        lambda m, x, f: f(m.n(m.a(x[:, None, None]))),
    ),
    (fxopt.PackLinears(), {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x))),
    (fxopt.PackConvolutions(), {"a": nn.Conv2d(1, 8, 1)}, lambda m, x, f: f(m.a(x[:, None, None]))),
    (fxopt.FuseGelu(), {"a": ACT2FN["gelu_new"]}, lambda m, x, f: f(m.a(x))),
    (fxopt.FuseRMSNorm(), {"a": LlamaRMSNorm(8)}, lambda m, x, f: f(m.a(x))),
    (fxopt.FuseAttention(), {}, lambda m, x, f: f(attention(x.view(1, 1, 4, 8)))),
    (fxopt.CastLinearsToBFloat16(), {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x))),
    (fxopt.QuantizeLinears(), {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x))),
    (fxopt.JoinLinears(), {"a": nn.Linear(8, 16), "b": nn.Linear(16, 8)}, lambda m, x, f: f(m.b(m.a(x)))),
    (DIVIDE, {}, lambda m, x, f: f(x / 3)),
    (fxopt.FoldScaleInLinear(), {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x) * 3.0)),
    (
        fxopt.FoldNormAffineInLinear(),
        {"n": nn.LayerNorm(8), "a": nn.Linear(8, 8)},
        lambda m, x, f: f(m.a(m.n(x))),
    ),
    (fold_scale, {"a": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x) * 3.0)),
    (join_linears, {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}, lambda m, x, f: f(m.b(m.a(x)))),
    (add_linears, {"a": nn.Linear(8, 8), "b": nn.Linear(8, 8)}, lambda m, x, f: f(m.a(x) + m.b(x))),
]


@pytest.mark.parametrize(("pass_", "layers", "forward"), MODELS)
def test_every_pass_that_rounds_leaves_alone_what_reaches_a_jump(
    pass_: Pass[Any], layers: dict[str, nn.Module], forward: Callable[..., Any]
) -> None:
    x = torch.randn(4, 8)
    for end, sites in ((lambda y: (F.relu(y) + 1).round(), 0), (lambda y: y.softmax(-1).round(), 1)):
        gm = captured(lambda m, x, end=end: forward(m, x, end), x, **layers)
        scan = pass_.scan(gm)
        assert len(scan.matches) == sites
        if not sites:
            assert any("reaches round" in miss.reason for miss in scan.near_misses[:2]), scan


def test_all_passes_that_round_are_tried_above() -> None:
    assert {rule.declared for rule in RemoveIdentities.rules} == {fxopt.Exactness.BITWISE}
    exact = {
        RemoveIdentities,
        ChangeAddmmToLinear,
        ShareCommonSubexpressions,
        FoldConstants,
        fxopt.CopySharedLayer,
    }  # the same bits everywhere
    assert {type(pass_) for pass_, _, _ in MODELS} >= set(ALL_PASSES) - exact


def test_linears_beside_a_router_are_merged_without_it() -> None:
    layers = {"router": nn.Linear(8, 4), "gate": nn.Linear(8, 8), "up": nn.Linear(8, 8)}
    x = torch.randn(3, 8)
    gm = captured(lambda m, x: (m.router(x).topk(2)[1], F.silu(m.gate(x)) * m.up(x)), x, **layers)
    (match,) = MergeLinears().scan(gm).matches
    assert [node.name for node in match.linear_nodes] == ["gate", "up"]
    assert_close_and_reversible(MergeLinears(), gm, x)


def test_a_rule_that_gives_the_same_bits_is_not_held_back() -> None:
    @fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
    def double(x: torch.Tensor):
        yield x + x
        return x * 2

    assert len(double.scan(captured(lambda m, x: torch.floor(x + x), X)).matches) == 1


def test_a_long_chain_is_searched_once() -> None:
    graph = torch.fx.Graph()
    node = x = graph.placeholder("x")
    for c in range(2000):
        node = graph.call_function(operator.truediv, (node, 3 + c % 5))
        node.meta["tensor_info"] = TensorInfo((2,), torch.float32)
    graph.output((node, graph.call_function(torch.floor, (x,))))
    x.meta["tensor_info"] = TensorInfo((2,), torch.float32)
    gm = GraphModule(nn.Module(), graph)
    assert len(DIVIDE.scan(gm).matches) == 2000
    searches = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jumps, "_Search", lambda index: searches.append(index) or _Search(index))
        DIVIDE(gm)
    assert len(DIVIDE.sites_on(gm)) == 2000
    assert len(searches) == 1
