"""The weights of a norm go into the linear layers that read it; where anything else reads it, they stay."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node
from torch.nn.utils import parametrize

import fxopt
from fxopt import FoldNormAffineInLinear
from fxopt.core import TensorInfo
from fxopt.testing import check_pass
from tests.examples import Example
from tests.fuzz.builder import Builder, Choices
from tests.passes.asserts import (
    assert_as_exact_as_before,
    assert_close_and_reversible,
    assert_left_alone,
    captured,
)

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
Kind = type[nn.LayerNorm] | type[nn.RMSNorm]


def norm_of(kind: Kind = nn.LayerNorm, width: int = 4, **keywords: Any) -> nn.Module:
    """A norm with weights as after training."""
    layer = kind(width, **keywords)
    generator = torch.Generator().manual_seed(2)
    for parameter in layer.parameters():
        parameter.data.copy_(torch.randn(width, generator=generator))
    return layer


def linear(bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(4, 6, bias=bias)


def layers(kind: Kind = nn.LayerNorm, bias: bool = True) -> dict[str, nn.Module]:
    return {"n": norm_of(kind), "a": linear(bias), "b": linear(bias)}


@torch.fx.wrap
def opaque(x: torch.Tensor) -> torch.Tensor:
    """A function that no table of operators knows."""
    return x


class BeforeAttention(nn.Module):
    """The norm before query, key and value, and one that the residual sum reads as well."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.behind = norm_of(), norm_of(nn.RMSNorm)
        self.q, self.k = linear(), linear(bias=False)
        self.out = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        x = self.behind(x + (self.q(y) * self.k(y)).sum(-1, keepdim=True))
        return x + self.out(x)


def norm_with_affine(build: Builder, x: Node, choose: Choices) -> Node:
    """A norm of the last dimension."""
    width = build.shape(x)[-1]
    layer = choose(nn.LayerNorm, nn.RMSNorm)(width or 1, dtype=build.dtype).eval()
    for parameter in layer.parameters():
        parameter.data = torch.linspace(-1, 2, width or 1, dtype=build.dtype)
    return build.call(layer, x, choose)


INSTRUCTIONS = (norm_with_affine,)
PATTERNS = (
    [("norm_with_affine", 0, 0), ("linear", 0, 0)],
    [("norm_with_affine", 0, 1), ("linear", 0, 1), ("linear", 1, 0), ("combine", 0, 1)],
    [("norm_with_affine", 0, 0), ("linear", 0, 0), ("write", 1, 0)],
)
EXAMPLES = (Example("before attention", BeforeAttention, ((3, 4),)),)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_the_weights_go_into_every_linear_that_reads_the_norm(kind: Kind, bias: bool) -> None:
    gm = captured(lambda m, x: m.a(y := m.n(x)) * m.b(y), X, **layers(kind, bias))
    assert_close_and_reversible(FoldNormAffineInLinear(), gm, X)
    FoldNormAffineInLinear()(gm)
    has_bias = bias or kind is nn.LayerNorm
    assert [name for name, _ in gm.named_parameters()] == [
        f"{name}.{role}" for name in "ab" for role in (["weight", "bias"] if has_bias else ["weight"])
    ]


def test_a_shift_of_zero_makes_no_bias() -> None:
    plain = nn.LayerNorm(4)
    gm = FoldNormAffineInLinear()(captured(lambda m, x: m.a(m.n(x)), X, n=plain, a=linear(bias=False)))
    assert [name for name, _ in gm.named_parameters()] == ["a.weight"]


@pytest.mark.parametrize("form", ["function", "exported"])
@pytest.mark.parametrize("kind", ["layer norm", "rms norm"])
def test_norms_that_are_called_as_functions_are_folded_too(kind: str, form: str) -> None:
    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.g, self.b = nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))
            self.w = nn.Parameter(torch.randn(6, 4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if kind == "layer norm":
                return torch.tanh(F.linear(F.layer_norm(x, (4,), self.g, bias=self.b, eps=1e-6), self.w))
            return torch.tanh(F.linear(F.rms_norm(x, (4,), weight=self.g), self.w))

    model = Functions().eval().requires_grad_(False)  # an exported module is in training mode for good
    gm = fxopt.capture(model, (X,)) if form == "function" else torch.export.export(model, (X,)).module()
    assert_close_and_reversible(FoldNormAffineInLinear(), gm, X)
    assert "g" not in dict(FoldNormAffineInLinear()(gm).named_parameters())


def test_the_norm_of_llama_is_folded_once_it_is_one_call() -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    llama = LlamaRMSNorm(4)
    llama.weight.data.copy_(torch.tensor([0.5, -1, 2, 3]))
    gm = fxopt.FuseRMSNorm()(captured(lambda m, x: m.a(m.n(x)), X, n=llama, a=linear(bias=False)))
    assert_close_and_reversible(FoldNormAffineInLinear(), gm, X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("kind", "given"), [(nn.LayerNorm, {"bias": False}), (nn.RMSNorm, {})])
def test_it_is_as_exact_in_every_dtype(dtype: torch.dtype, kind: Kind, given: dict[str, bool]) -> None:
    before = norm_of(kind, **given)
    assert_as_exact_as_before(FoldNormAffineInLinear(), lambda m, x: m.a(m.n(x)), X.to(dtype), n=before, a=linear())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_bias_in_half_precision_stays_because_it_may_cancel(dtype: torch.dtype) -> None:
    gm = captured(lambda m, x: m.a(m.n(x)), X.to(dtype), n=norm_of().to(dtype), a=linear().to(dtype))
    assert_left_alone(FoldNormAffineInLinear(), gm, f"n adds its bias in float32 and rounds the sum to {dtype} once")


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [(nn.LayerNorm, torch.float32), (nn.RMSNorm, torch.float32), (nn.RMSNorm, torch.bfloat16)],
)
def test_the_error_of_the_new_weights_is_within_the_declared_bound(kind: Kind, dtype: torch.dtype, size: float) -> None:
    """Also where the bias cancels a large number of every row, as in outlier dimensions of language models."""
    x = torch.randn(32, 64, generator=torch.Generator().manual_seed(5)).to(dtype)
    x[:, 0] += 40
    before, after = norm_of(kind, 64), nn.Linear(64, 48)
    before.get_parameter("weight").data[0] = size
    if kind is nn.LayerNorm:
        before.get_parameter("bias").data[0] = -size * F.layer_norm(x, (64,))[:, 0].mean()
    gm = captured(lambda m, x: m.a(m.n(x)), x, n=before.to(dtype), a=after.to(dtype))
    wide = {name: tensor.double() for name, tensor in gm.state_dict().items()}
    new = FoldNormAffineInLinear()(gm).double()
    g, b = wide["n.weight"], wide.get("n.bias", torch.zeros(64, dtype=torch.float64))
    with torch.no_grad():
        row = new.get_submodule("n")(x.double())
        constant = F.linear(b, wide["a.weight"], wide["a.bias"])
        exact = F.linear(row, wide["a.weight"] * g, constant)
        bound = torch.finfo(dtype).eps * F.linear(row.abs(), (wide["a.weight"] * g).abs(), constant.abs())
        assert ((new(x.double()) - exact).abs() <= bound).all()


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_infinities_and_nan_come_out_as_before(kind: Kind) -> None:
    gm = captured(lambda m, x: m.a(m.n(x)), X, n=norm_of(kind), a=linear())
    folded = FoldNormAffineInLinear()(captured(lambda m, x: m.a(m.n(x)), X, n=norm_of(kind), a=linear()))
    for value in (math.inf, -math.inf, math.nan, -0.0):
        x = X.clone()
        x[0, 1] = value
        torch.testing.assert_close(folded(x), gm(x), equal_nan=True, rtol=1e-5, atol=1e-5)


LEFT: dict[str, tuple[Callable[[Any, torch.Tensor], Any], str]] = {
    "a residual sum": (lambda m, x: m.a(y := m.n(x)).sum() + y, "n is also read by add"),
    "an output": (lambda m, x: (m.a(y := m.n(x)), y), "n is also read by output"),
    "a write": (lambda m, x: (m.a(y := m.n(x)), y.mul_(2))[0], "n is also read by mul_"),
    "a shared linear": (lambda m, x: m.a(m.n(x)) + m.a(x), "a is called 2 times"),
    "a shared norm": (lambda m, x: m.a(m.n(x)) + m.b(m.n(x + 1)), "n is called 2 times"),
    "tensors that are read": (lambda m, x: m.a(m.n(x)) @ m.a.weight, "reads a.weight"),
    "a view that is written to": (lambda m, x: (m.a(y := m.n(x)), y[0].mul_(2))[0], "n is also read by getitem"),
    "a view written to before": (lambda m, x: (y := m.n(x), y.view(-1).add_(1), m.a(y))[2], "n is also read by view"),
    "an opaque reader": (lambda m, x: (m.a(y := m.n(x)), opaque(y))[0], "n is also read by opaque"),
    "its own bias": (lambda m, x: m.a(y := m.n(x)) + F.linear(x, m.b.weight, bias=y[0, :1]), "n is also read by"),
    "a written weight": (lambda m, x: (m.n.weight.mul_(2), m.a(m.n(x)))[1], "reads n.weight"),
    "a written linear": (lambda m, x: (m.a.weight.detach().mul_(2), m.a(m.n(x)))[1], "reads a.weight"),
    "a weight of the norm": (lambda m, x: m.a(m.n(x)) + m.n.bias.sum(), "reads n.bias"),
}


@pytest.mark.parametrize(("forward", "reason"), LEFT.values(), ids=LEFT)
def test_weights_that_something_else_reads_stay(forward: Callable[..., Any], reason: str) -> None:
    assert_left_alone(FoldNormAffineInLinear(), captured(forward, X, **layers()), reason)


def test_layers_that_train_stay() -> None:
    assert_left_alone(FoldNormAffineInLinear(), simple().train(), "n is in training mode", "model.eval()")
    for name in "na":
        gm = simple()
        gm.get_submodule(name).train()
        assert_left_alone(FoldNormAffineInLinear(), gm, f"{name} is in training mode", "model.eval()")
    gm = simple()
    gm.training = True  # as a module that is traced may be, whatever its layers are
    assert_close_and_reversible(FoldNormAffineInLinear(), gm, X)


@pytest.mark.parametrize("frozen", ["n.weight", "n.bias", "a.weight", "a.bias", "n", "a"])
def test_layers_that_are_frozen_in_part_stay(frozen: str) -> None:
    gm = simple()
    for name, parameter in gm.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    assert_left_alone(FoldNormAffineInLinear(), gm, "n and a, some require grad and some are frozen", "freeze all or")
    gm.requires_grad_(False)
    assert not any(parameter.requires_grad for parameter in FoldNormAffineInLinear()(gm).parameters())


def test_layers_under_autocast_which_chooses_the_dtype_stay() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.n(x)
        with torch.autocast("cpu", torch.bfloat16):
            return m.a(y)

    assert_left_alone(FoldNormAffineInLinear(), captured(forward, X, **layers()), "a runs under autocast (cpu")


def test_a_linear_whose_weight_is_no_matrix_stays() -> None:
    after = linear()
    after.weight, after.bias = nn.Parameter(torch.ones(4)), None
    gm = captured(lambda m, x: m.a(m.n(x)), X, n=norm_of(), a=after)
    assert_left_alone(FoldNormAffineInLinear(), gm, "n gives 4 numbers and the weight of a has shape (4,)")


@pytest.mark.parametrize("how", ["buffer", "attribute", "shadow"])
@pytest.mark.parametrize("role", ["weight", "bias"])
@pytest.mark.parametrize("name", ["n", "a"])
def test_a_layer_that_computes_with_a_buffer_or_an_attribute_stays(name: str, role: str, how: str) -> None:
    given: dict[str, nn.Module] = {"n": norm_of(), "a": linear()}
    layer = given[name]
    other = layer.get_parameter(role).detach() + 1
    if how == "shadow":
        layer.__dict__[role] = other
    else:
        delattr(layer, role)
        layer.register_buffer(role, other) if how == "buffer" else setattr(layer, role, other)
    gm = simple(**given).requires_grad_(False)
    assert_left_alone(FoldNormAffineInLinear(), gm, f"the {role} of {name} is not registered as a parameter")


def test_a_subnormal_product_beside_a_normal_one_stays() -> None:
    before, after = norm_of(nn.RMSNorm).half(), linear().half()
    with torch.no_grad():
        before.get_parameter("weight").copy_(torch.tensor([1e-2, 1e-3, 1, 1]))
        after.weight.fill_(1e-2)
    gm = captured(lambda m, x: m.a(m.n(x)), X.half(), n=before, a=after)
    assert_left_alone(FoldNormAffineInLinear(), gm, "a would hold numbers that torch.float16 has not")


def test_a_norm_whose_weight_was_taken_away_stays() -> None:
    before = norm_of()
    before.register_parameter("weight", None)
    assert_left_alone(FoldNormAffineInLinear(), simple(n=before, a=linear()), "n has no weight")


def test_tied_weights_stay() -> None:
    tied = layers()
    tied["b"].weight = tied["a"].weight
    gm = captured(lambda m, x: m.a(m.n(x)) + m.b(x), X, **tied)
    assert_left_alone(FoldNormAffineInLinear(), gm, "a.weight is tied to b.weight")
    norms = {**layers(), "other": norm_of()}
    norms["other"].weight = norms["n"].weight
    gm = captured(lambda m, x: m.a(m.n(x)) + m.other(x).sum(), X, **norms)
    assert_left_alone(FoldNormAffineInLinear(), gm, "n.weight is tied to other.weight")


def test_subclasses_and_parametrizations_stay() -> None:
    class Shifted(nn.LayerNorm):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(input) + 1

    gm = simple()
    gm.add_module("n", Shifted(4).eval())
    assert_left_alone(FoldNormAffineInLinear(), gm, "a subclass of LayerNorm")
    for name in "na":
        gm = simple()
        parametrize.register_parametrization(gm.get_submodule(name), "weight", nn.Softplus())
        assert_left_alone(FoldNormAffineInLinear(), gm, f"{name} computes its weight by a parametrization")


def test_hooks_and_weights_without_values_stay() -> None:
    hooked = layers()
    hooked["a"].register_full_backward_hook(lambda *_: None)
    assert_left_alone(FoldNormAffineInLinear(), simple(**hooked), "a has a backward hook")
    hooked = layers()
    hooked["n"].weight.register_hook(lambda grad: grad)
    assert_left_alone(FoldNormAffineInLinear(), simple(**hooked), "n.weight has a gradient hook")
    gm = simple()
    gm.get_submodule("n").to("meta")
    assert_left_alone(FoldNormAffineInLinear(), gm, "n has no values")


@pytest.mark.parametrize(
    ("role", "value", "reason"),
    [
        ("weight", math.inf, "the weight of n has numbers that are not finite"),
        ("bias", math.nan, "the bias of n has numbers that are not finite"),
        ("weight", 3e38, "a would hold numbers that torch.float32 has not"),
        ("weight", 1e-39, "a would hold numbers that torch.float32 has not"),
        ("bias", 3e38, "a would hold numbers that torch.float32 has not"),
    ],
)
def test_weights_that_would_leave_the_range_stay(role: str, value: float, reason: str) -> None:
    gm = simple()
    with torch.no_grad():
        gm.get_submodule("n").get_parameter(role).fill_(value)
        gm.get_submodule("a").get_parameter("weight").mul_(8)
    assert_left_alone(FoldNormAffineInLinear(), gm, reason)


@pytest.mark.parametrize(("size", "scale"), [(1e-3, 2.0**-10), (100.0, 1000.0)])
def test_weights_that_half_precision_has_not_stay(size: float, scale: float) -> None:
    before, after = norm_of(nn.RMSNorm).half(), linear().half()
    with torch.no_grad():
        before.get_parameter("weight").fill_(scale)
        after.weight.fill_(size)
    gm = captured(lambda m, x: m.a(m.n(x)), X.half(), n=before, a=after)
    assert_left_alone(FoldNormAffineInLinear(), gm, "a would hold numbers that torch.float16 has not")


def test_an_infinite_weight_behind_a_shift_stays() -> None:
    after = linear()
    after.weight.data[0, 0] = math.inf
    assert_left_alone(FoldNormAffineInLinear(), simple(n=norm_of(), a=after), "a would hold numbers")


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_a_scale_of_zero_is_folded(kind: Kind) -> None:
    plain = norm_of(kind)
    plain.weight.data[:3] = 0
    assert_close_and_reversible(FoldNormAffineInLinear(), simple(n=plain, a=linear()), X)
    plain.weight.data.zero_()
    assert_close_and_reversible(FoldNormAffineInLinear(), simple(n=plain, a=linear()), X)


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm])
def test_the_way_back_follows_a_conversion_a_copy_and_a_file(kind: Kind) -> None:
    weights = {name: tensor.clone() for name, tensor in simple(n=norm_of(kind), a=linear()).state_dict().items()}
    changes: list[Callable[[Any], Any]] = [
        lambda one: one.half(),
        copy.deepcopy,
        lambda one: pickle.loads(pickle.dumps(one)),
    ]
    for change in changes:
        other = change(FoldNormAffineInLinear()(simple(n=norm_of(kind), a=linear())))
        back = FoldNormAffineInLinear()(other, reverse=True)
        assert back.state_dict().keys() == weights.keys()
        for name, tensor in back.state_dict().items():
            assert torch.equal(tensor, weights[name].to(tensor.dtype)), name
        assert len({tensor.dtype for tensor in back.parameters()}) == 1


def test_the_way_back_is_refused_after_a_step_of_training() -> None:
    gm = FoldNormAffineInLinear()(simple())
    gm(X).square().sum().backward()
    torch.optim.SGD(gm.parameters(), 0.1).step()
    with pytest.raises(fxopt.RewriteError, match=r"a\.weight, made by FoldNormAffineInLinear, was given other values"):
        FoldNormAffineInLinear()(gm, reverse=True)


def test_a_norm_of_two_dimensions_and_mixed_dtypes_stay() -> None:
    gm = captured(lambda m, x: m.a(m.n(x)), X, n=nn.LayerNorm((3, 4)), a=linear())
    assert_left_alone(FoldNormAffineInLinear(), gm, "n normalizes 2 dimensions at once")
    gm = simple()
    next(iter(gm.graph.nodes)).meta["tensor_info"] = TensorInfo((3, 4), torch.bfloat16)
    assert_left_alone(FoldNormAffineInLinear(), gm, "which decide the dtype together")


@pytest.mark.parametrize(
    "forward",
    [lambda m, x: torch.tanh(m.n(x)), lambda m, x: m.a(F.layer_norm(x, (4,))), lambda m, x: m.a(torch.tanh(m.n(x)))],
)
def test_what_no_linear_reads_is_no_site(forward: Callable[..., Any]) -> None:
    scan = FoldNormAffineInLinear().scan(captured(forward, X, **layers()))
    assert (scan.matches, scan.misses) == ((), ())


def test_the_laws_hold() -> None:
    assert check_pass(FoldNormAffineInLinear(), [(BeforeAttention().eval(), (X,))]).sites == 1


def simple(**given: nn.Module) -> GraphModule:
    return captured(lambda m, x: m.a(m.n(x)), X, **(given or layers()))
