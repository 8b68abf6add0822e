from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

import fxopt
from fxopt import FoldBatchNorm
from tests.examples import outputs
from tests.passes.asserts import (
    Net,
    assert_as_exact_as_before,
    assert_close_and_reversible,
    assert_left_alone,
    captured,
    traced,
)
from tests.quick import quick

PATTERNS = (
    [("conv", 0, 0), ("norm", 0, 0)],
    [("norm", 0, 0), ("conv", 0, 0)],
    [("norm", 1, 0), ("linear", 0, 0), ("norm", 0, 0)],
    [("norm", 0, 0), ("write", 1, 0), ("conv", 1, 0)],
    [("conv", 0, 0), ("write", 0, 0), ("norm", 1, 0)],
    [("conv", 0, 0), ("ask", 0, 0), ("norm", 0, 0), ("ask", 0, 0), ("conv", 0, 0)],
    [("linear", 0, 0), ("view", 0, 6), ("norm", 0, 0)],
    [("aliased", 0, 0)],
    [("conv", 0, 0), ("layer", 0, 1), ("norm", 0, 0), ("layer", 0, 0), ("conv", 0, 0)],
)

NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


def sample(*shape: int) -> torch.Tensor:
    return torch.linspace(-3, 5, torch.Size(shape).numel()).reshape(shape).sin()


def drawn(bn: Any, shift: bool = True) -> Any:
    """`bn` in evaluation mode with statistics and weights that do something; without a shift if wanted."""
    size = bn.num_features
    bn.running_var.copy_(torch.linspace(0.4, 1.7, size))
    if shift:
        bn.running_mean.copy_(torch.linspace(-0.5, 0.7, size))
    if bn.affine:
        bn.weight.data.copy_(torch.linspace(0.6, 1.4, size))
        nn.init.constant_(bn.bias, 0.3 if shift else 0.0)
    return bn.eval()


def convolution(dimensions: int, transposed: bool, *args: Any, **options: Any) -> nn.Module:
    kind = getattr(nn, f"Conv{'Transpose' if transposed else ''}{dimensions}d")
    return kind(*args, **options)


def behind(m: Any, x: torch.Tensor) -> Any:
    return m.bn(m.f(x))


def before(m: Any, x: torch.Tensor) -> Any:
    return m.f(m.bn(x))


# ---- every kind of layer, on both sides


@given(
    dimensions=st.integers(1, 3),
    transposed=st.booleans(),
    groups=st.sampled_from([1, 2]),
    bias=st.booleans(),
    affine=st.booleans(),
    padding=st.integers(0, 1),
)
def test_behind_every_kind_of_convolution(
    dimensions: int, transposed: bool, groups: int, bias: bool, affine: bool, padding: int
) -> None:
    f = convolution(dimensions, transposed, 4, 6, 2, padding=padding, groups=groups, bias=bias)
    x = sample(2, 4, *(4,) * dimensions)
    gm = traced(behind, x, f=f, bn=drawn(NORMS[dimensions](6, affine=affine)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)
    FoldBatchNorm()(gm)
    assert "bn" not in dict(gm.named_children())


@given(dimensions=st.integers(1, 3), groups=st.sampled_from([1, 2]), bias=st.booleans(), affine=st.booleans())
def test_before_a_convolution_without_padding(dimensions: int, groups: int, bias: bool, affine: bool) -> None:
    f = convolution(dimensions, False, 4, 6, 2, groups=groups, bias=bias)
    x = sample(2, 4, *(4,) * dimensions)
    gm = traced(before, x, f=f, bn=drawn(NORMS[dimensions](4, affine=affine)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_before_a_convolution_that_pads_with_the_image_itself(mode: str) -> None:
    x = sample(2, 4, 5, 5)
    gm = captured(before, x, f=nn.Conv2d(4, 3, 3, padding=1, padding_mode=mode), bn=drawn(nn.BatchNorm2d(4)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_before_padding_or_transposed_where_there_is_no_shift(transposed: bool, groups: int, bias: bool) -> None:
    x = sample(2, 4, 5, 5)
    f = convolution(2, transposed, 4, 6, 3, padding=1, groups=groups, bias=bias)
    gm = captured(before, x, f=f, bn=drawn(nn.BatchNorm2d(4), shift=False))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)
    FoldBatchNorm()(gm)
    assert (gm.get_submodule("f").bias is not None) is bias  # none is invented


@pytest.mark.parametrize("padding", [1, (0, 2), "same"])
def test_before_padding_with_zeros_the_shift_would_be_missing_at_the_edges(padding: Any) -> None:
    x = sample(2, 4, 5, 5)
    gm = captured(before, x, f=nn.Conv2d(4, 3, 3, padding=padding), bn=drawn(nn.BatchNorm2d(4)))
    assert_left_alone(FoldBatchNorm(), gm, "f pads with zeros, so at the edges the shift of bn would be missing")


def test_before_a_transposed_convolution_the_shift_would_be_uneven_at_the_edges() -> None:
    x = sample(2, 4, 5, 5)
    gm = captured(before, x, f=nn.ConvTranspose2d(4, 3, 3), bn=drawn(nn.BatchNorm2d(4)))
    assert_left_alone(FoldBatchNorm(), gm, "it is transposed", "the shift of bn would be missing")


@pytest.mark.parametrize("forward", [behind, before])
def test_beside_a_linear_layer(forward: Callable[..., Any]) -> None:
    x = sample(5, 4)
    gm = captured(forward, x, f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


@pytest.mark.parametrize("f", [lambda: nn.Conv2d(4, 6, 2), lambda: nn.ConvTranspose2d(4, 6, 2)])
def test_synchronized_batch_norm_is_batch_norm_in_evaluation_mode(f: Callable[[], nn.Module]) -> None:
    x = sample(2, 4, 5, 5)
    gm = captured(behind, x, f=f(), bn=drawn(nn.SyncBatchNorm(6)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


@pytest.mark.parametrize(
    "dtype", quick([torch.float64, torch.float32, torch.float16, torch.bfloat16], torch.float32, torch.bfloat16)
)
@pytest.mark.parametrize(
    ("forward", "layers", "shape"),
    [
        (behind, lambda: {"f": nn.Conv1d(4, 6, 3), "bn": drawn(nn.BatchNorm1d(6))}, (2, 4, 9)),
        (behind, lambda: {"f": nn.ConvTranspose2d(4, 6, 3, groups=2), "bn": drawn(nn.BatchNorm2d(6))}, (2, 4, 5, 5)),
        (before, lambda: {"f": nn.Conv2d(4, 6, 3), "bn": drawn(nn.BatchNorm2d(4))}, (2, 4, 5, 5)),
        (before, lambda: {"f": nn.Linear(4, 6), "bn": drawn(nn.BatchNorm1d(4))}, (9, 4)),
    ],
    ids=["conv1d", "transposed", "before conv2d", "before linear"],
)
def test_in_every_dtype_errors_stay_within_their_bound(
    dtype: torch.dtype, forward: Callable[..., Any], layers: Callable[[], dict[str, nn.Module]], shape: tuple[int, ...]
) -> None:
    assert_as_exact_as_before(FoldBatchNorm(), forward, sample(*shape).to(dtype), **layers())


# ---- through what only passes the channels on


def test_levit_flattens_between_the_two() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = m.f(x)
        return m.bn(y.flatten(0, 1)).reshape_as(y)

    x = sample(2, 5, 4)
    gm = captured(forward, x, f=nn.Linear(4, 6, bias=False), bn=drawn(nn.BatchNorm1d(6)))
    (match,) = FoldBatchNorm().scan(gm).matches
    assert [node.name for node in match.through] == ["flatten"]
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.bn(m.drop(m.identity(m.f(x)))),
        lambda m, x: m.f(m.identity(m.drop(m.bn(x)))),
        lambda m, x: m.bn(F.dropout(m.f(x), 0.3, training=False)),
        lambda m, x: m.bn(m.f(x).contiguous().clone()),
        lambda m, x: m.bn(m.f(x).view(1, 3, 4, 5, 5).flatten(0, 1)),
    ],
)
def test_what_changes_nothing_may_lie_between(forward: Callable[..., Any]) -> None:
    x = sample(3, 4, 5, 5)
    layers = {
        "f": nn.Conv2d(4, 4, 1),
        "bn": drawn(nn.BatchNorm2d(4)),
        "drop": nn.Dropout(0.5),
        "identity": nn.Identity(),
    }
    assert_close_and_reversible(FoldBatchNorm(), captured(forward, x, **layers), x)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.bn(m.f(x).transpose(1, 2)),
        lambda m, x: m.bn(m.f(x).permute(0, 2, 1)).view(2, -1),  # of a transposed tensor there is no such view
        lambda m, x: m.bn(m.f(x).transpose(1, 2)).transpose(1, 2),
        lambda m, x: m.f(m.bn(x.transpose(1, 2)).transpose(1, 2)),
        lambda m, x: m.bn(m.f(x).reshape(-1, 4)).view(2, 5, 4),
    ],
)
def test_channels_are_followed_through_transpositions_and_reshapes(forward: Callable[..., Any]) -> None:
    x = sample(2, 5, 4)
    gm = captured(forward, x, f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4)))
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


def test_a_view_of_what_was_normalized_still_works_where_it_lay_in_another_order_before() -> None:
    x = sample(2, 4, 5, 6)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.transpose(2, 3).view(2, 4, 30)
    net = Net(lambda m, x: m.f(m.bn(x.transpose(2, 3)).view(2, 4, 30).transpose(1, 2)))
    net.f, net.bn = nn.Linear(4, 3), drawn(nn.BatchNorm2d(4))
    gm = torch.fx.symbolic_trace(net.eval())
    ShapeProp(gm).propagate(x)  # with real tensors: fake ones keep the strides of the input
    assert_close_and_reversible(FoldBatchNorm(), gm, x)


def test_a_view_behind_a_transposed_stand_in_still_works() -> None:
    x = sample(2, 5, 4)
    gm = captured(
        lambda m, x: m.bn(m.f(x).transpose(1, 2)).view(2, -1), x, f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4))
    )
    assert_close_and_reversible(FoldBatchNorm(), gm, x)
    FoldBatchNorm()(gm)
    assert any(node.target == "contiguous" for node in gm.graph.nodes)


# ---- reasons to leave it alone


@pytest.mark.parametrize(
    ("forward", "parts"),
    [
        (lambda m, x: m.bn(torch.relu(m.f(x))), ["comes from relu, not from a linear layer or convolution"]),
        (lambda m, x: m.bn(m.f(x)) + m.f.weight.sum(), ["reads f.weight, which is in f"]),
        (lambda m, x: [m.bn(y) + y for y in [m.f(x)]], ["f has other users (add), which need it as it is"]),
        (lambda m, x: m.bn(m.f(x)) + m.f(x), ["f is called 2 times"]),
        (lambda m, x: m.bn(m.f(x).flatten(1, 2).unflatten(1, (2, 15))), ["flatten may mix the channels of f"]),
        (lambda m, x: m.bn(m.f(x).transpose(1, 3)), ["scales dimension 1, which is not where f has its channels"]),
    ],
)
def test_what_is_not_proven_is_left_alone(forward: Callable[..., Any], parts: list[str]) -> None:
    x = sample(2, 6, 5, 6)
    f, bn = nn.Conv2d(6, 6, 1), drawn(nn.BatchNorm2d(6))
    if "flatten" in parts[0]:
        bn = drawn(nn.BatchNorm2d(2))
    assert_left_alone(FoldBatchNorm(), captured(forward, x, f=f, bn=bn), *parts)


def test_a_dropout_that_drops_is_left_alone() -> None:
    gm = captured(
        lambda m, x: m.bn(m.drop(m.f(x))),
        sample(3, 4),
        f=nn.Linear(4, 4),
        bn=drawn(nn.BatchNorm1d(4)),
        drop=nn.Dropout(),
    )
    gm.get_submodule("drop").train()
    assert_left_alone(FoldBatchNorm(), gm, "comes from drop, not from a linear layer")


def test_a_listened_to_identity_is_left_alone() -> None:
    identity = nn.Identity()
    gm = captured(
        lambda m, x: m.bn(m.i(m.f(x))), sample(3, 4), f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4)), i=identity
    )
    identity.register_forward_hook(lambda module, args, output: None)
    assert_left_alone(FoldBatchNorm(), gm, "comes from i, not from a linear layer")


@pytest.mark.parametrize("forward", [behind, before])
def test_of_three_dimensions_linear_and_batch_norm_mean_different_ones(forward: Callable[..., Any]) -> None:
    gm = captured(forward, sample(2, 4, 4), f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4)))
    assert_left_alone(FoldBatchNorm(), gm, "which is not where f has its channels")


def test_without_a_batch_dimension_batch_norm_takes_the_length_for_channels() -> None:
    gm = captured(behind, sample(4, 6), f=nn.Conv1d(4, 6, 1), bn=drawn(nn.BatchNorm1d(6)))
    assert_left_alone(FoldBatchNorm(), gm, "only of a batch of inputs are channels dimension 1")


@pytest.mark.parametrize("forward", [behind, before])
def test_an_unknown_shape_is_left_alone(forward: Callable[..., Any]) -> None:
    gm = captured(forward, sample(3, 4), f=nn.Linear(4, 4), bn=drawn(nn.BatchNorm1d(4)))
    for node in gm.graph.nodes:
        node.meta.clear()
    assert_left_alone(FoldBatchNorm(), gm, "the shape of", "is unknown", "fxopt.capture")


def test_an_input_changed_before_the_convolution_reads_it_is_left_alone() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        x = x * 1
        y = m.bn(x)
        x.add_(1)
        return m.f(y)

    gm = captured(forward, sample(2, 4, 5, 5), f=nn.Conv2d(4, 4, 1), bn=drawn(nn.BatchNorm2d(4)))
    assert_left_alone(FoldBatchNorm(), gm, "changes mul in place between bn and f")


def test_weights_that_would_overflow_are_left_alone() -> None:
    f, bn = nn.Conv2d(4, 4, 1).half(), drawn(nn.BatchNorm2d(4)).half()
    nn.init.constant_(f.weight, 300.0)
    nn.init.constant_(bn.weight, 300.0)
    gm = captured(behind, sample(2, 4, 5, 5).half(), f=f, bn=bn)
    assert_left_alone(FoldBatchNorm(), gm, "the weights of f, scaled, are too large for torch.float16")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda bn: bn.train(), ["bn is in training mode", "model.eval()"]),
        (lambda bn: bn.register_forward_hook(print), ["bn has a forward hook"]),
        (lambda bn: bn.running_var.fill_(-1.0), ["the scale or shift of bn is not a finite torch.float32"]),
    ],
)
def test_a_batch_norm_that_is_no_fixed_scale_and_shift_is_left_alone(
    change: Callable[..., Any], parts: list[str]
) -> None:
    gm = captured(behind, sample(2, 4, 5, 5), f=nn.Conv2d(4, 4, 1), bn=drawn(nn.BatchNorm2d(4)))
    change(gm.get_submodule("bn"))
    assert_left_alone(FoldBatchNorm(), gm, *parts)


def test_the_nearest_miss_is_the_one_that_is_told() -> None:
    gm = captured(
        lambda m, x: m.g(m.bn(torch.relu(x))),
        sample(2, 4, 5, 5),
        g=nn.Conv2d(4, 4, 3, padding=1),
        bn=drawn(nn.BatchNorm2d(4)),
    )
    (miss,) = FoldBatchNorm().scan(gm).misses
    assert "pads with zeros" in miss.reason
    assert miss.met > 10
    assert miss.needed == "a padding of 0, or a shift of 0"


# ---- functions and operators


@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # torch, decomposing
@pytest.mark.parametrize("decomposed", quick([False, True], True))
@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.Dropout(), drawn(nn.BatchNorm1d(6))), (2, 4, 9)),
        (lambda: nn.Sequential(nn.Conv3d(4, 6, 2, bias=False), drawn(nn.BatchNorm3d(6))), (2, 4, 3, 3, 3)),
        (
            lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=2), drawn(nn.BatchNorm2d(6, affine=False))),
            (2, 4, 5, 5),
        ),
        (lambda: nn.Sequential(drawn(nn.BatchNorm2d(4)), nn.Conv2d(4, 6, 3, groups=2)), (2, 4, 5, 5)),
    ],
    ids=["conv1d through dropout", "conv3d", "transposed", "before conv2d"],
)
def test_exported_programs_are_folded_and_come_back(
    net: Callable[[], nn.Module], shape: tuple[int, ...], decomposed: bool
) -> None:
    x = sample(*shape)
    program = torch.export.export(net().eval(), (x,))
    gm = (program.run_decompositions() if decomposed else program).module()
    before, keys, old = fxopt.fingerprint(gm), list(gm.state_dict()), outputs(gm, (x,))
    FoldBatchNorm()(gm)
    assert not [node for node in gm.graph.nodes if "batch_norm" in node.name]
    assert not [key for key in gm.state_dict() if "running" in key]
    torch.testing.assert_close(outputs(gm, (x,)), old, rtol=1e-5, atol=1e-5)
    FoldBatchNorm()(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    assert list(gm.state_dict()) == keys
