import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import PackConvolutions
from fxopt.packed import supports
from fxopt.testing import check_pass
from tests.examples import outputs
from tests.fuzz.builder import Builder, Choices
from tests.passes.asserts import assert_left_alone, captured

X = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(0))


def image_conv(build: Builder, x: torch.fx.Node, choose: Choices) -> torch.fx.Node:
    """A convolution of an image in many forms."""
    x = build.ranked(x, 4)
    width = build.shape(x)[1]
    if not width:
        return x
    options = {
        "kernel_size": choose(1, 3, (3, 1)),
        "padding": choose(1, 0, (0, 1), "same"),
        "dilation": choose(1, 2),
        "groups": choose(1, width),
        "bias": choose(True, False),
    }
    return build.call(nn.Conv2d(width, width, dtype=build.dtype, **options).eval(), x, choose)


INSTRUCTIONS = (image_conv,)
PATTERNS = (
    [("image_conv", 0, 0)],
    [("image_conv", 0, 0), ("pointwise", 0, 2)],
    [("image_conv", 0, 0), ("image_conv", 0, 1), ("combine", 0, 1), ("pointwise", 0, 1)],
    [("image_conv", 0, 0), ("view", 0, 0)],
)


class Block(nn.Module):
    """A residual block, and the head behind the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(4, 8, 3, padding="same")
        self.a, self.b = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False), nn.Conv2d(8, 8, 1)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.stem(x))
        y = self.b(F.relu6(self.a(x)))
        y += x
        z: torch.Tensor = self.head(self.pool(self.relu(y)).flatten(1))
        return z


def test_the_laws_hold_for_a_residual_net() -> None:
    assert check_pass(PackConvolutions(), [(Block().eval(), (X,))]).sites == 3


def test_sums_and_activations_go_into_the_call_of_the_convolution() -> None:
    gm = PackConvolutions()(fxopt.capture(Block().eval(), (X,)))
    assert [node.name for node in gm.graph.nodes] == ["x", "stem", "a", "b", "pool", "flatten", "head", "output"]
    packed = "PackedConv2d(8, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=8, bias=False"
    assert str(gm.a) == f"{packed}, activation=hardtanh(0, 6))"


def sum_in_place(m: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Add a shortcut that comes after `y` in the graph, as that of ResNet does, into the memory of `y`."""
    z = m.b(x)
    return m.relu(y.add_(z)).mean((2, 3))


def test_a_sum_goes_into_a_shortcut_that_comes_after_the_tensor_that_is_written_to() -> None:
    for first in (lambda m, x: m.a(x), lambda m, x: x.sin()):
        gm = captured(lambda m, x, first=first: sum_in_place(m, x, first(m, x)), X,
                      a=nn.Conv2d(4, 4, 3, padding=1), b=nn.Conv2d(4, 4, 1), relu=nn.ReLU(inplace=True))  # fmt: skip
        for x in (X, X[:1], X[:0], X.contiguous(memory_format=torch.channels_last), X.clone().fill_(torch.nan)):
            expected = outputs(gm, (x,))
            PackConvolutions()(gm)
            assert [node.name for node in gm.graph.nodes if node.name not in ("a", "sin")] == [
                "x",
                "b",
                "mean",
                "output",
            ]
            torch.testing.assert_close(outputs(gm, (x,)), expected, rtol=1e-5, atol=1e-5, equal_nan=True)
            PackConvolutions()(gm, reverse=True)


OTHERS_SEE: dict[str, Any] = {
    "an input": lambda m, x: x,
    "a view": lambda m, x: x.relu().view(2, 4, 6, 6),
    "passed on by a layer": lambda m, x: m.same(x.sin()),
}


@pytest.mark.parametrize("first", OTHERS_SEE.values(), ids=OTHERS_SEE)
def test_a_sum_that_is_written_to_memory_which_others_may_see_stays(first: Any) -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        y = first(m, x)
        z = m.b(x.abs())
        return y.add_(z) + x

    gm = captured(forward, X, b=nn.Conv2d(4, 4, 1), same=nn.Identity())
    old, new = X.clone(), X.clone()
    with torch.no_grad():
        expected = gm(old)
        assert "add_" in [node.target for node in PackConvolutions()(gm).graph.nodes]
        torch.testing.assert_close(gm(new), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-5)


def test_zeros_around_the_image_are_left_to_the_kernel_where_they_are_even() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = m.b(F.pad(m.a(F.pad(x, (1, 1, 2, 2))), (0, 1, 0, 1))).sum()
        return y

    gm = captured(forward, X, a=nn.Conv2d(4, 4, 3, padding=1), b=nn.Conv2d(4, 4, 3))
    expected = outputs(gm, (X,))
    assert "pads as pad does" in PackConvolutions().explain(PackConvolutions().scan(gm).matches[0])
    PackConvolutions()(gm)
    assert [node.name for node in gm.graph.nodes] == ["x", "a", "pad_1", "b", "sum_1", "output"]
    assert gm.a.padding == (3, 2)
    torch.testing.assert_close(outputs(gm, (X,)), expected, rtol=1e-5, atol=1e-4)
    PackConvolutions()(gm, reverse=True)
    assert torch.equal(outputs(gm, (X,))[0], expected[0])


def test_any_activation_may_stand_behind_a_sum() -> None:
    for act in (F.gelu, F.silu, F.relu, F.hardswish):
        gm = captured(lambda m, x, act=act: act(m.a(x) + x), X, a=nn.Conv2d(4, 4, 1))
        expected = outputs(gm, (X,))
        assert [node.name for node in PackConvolutions()(gm).graph.nodes] == ["x", "a", "output"]
        torch.testing.assert_close(outputs(gm, (X,)), expected, rtol=1e-5, atol=1e-5)


def strided(pads: tuple[int, int, int, int], *, as_layer: bool = False, act: Any = F.relu6) -> torch.fx.GraphModule:
    """Return a graph as of TensorFlow: more zeros on one side, then a kernel for each channel in steps of two."""
    pad: Any = nn.ZeroPad2d(pads) if as_layer else nn.Identity()
    conv = nn.Conv2d(4, 4, 3, stride=2, padding=(1, 0), groups=4)
    return captured(lambda m, x: act(m.a(m.pad(x) if as_layer else F.pad(x, pads))).sum((2, 3)), X, a=conv, pad=pad)


@pytest.mark.parametrize("as_layer", [False, True])
@pytest.mark.parametrize("pads", [(0, 1, 0, 1), (1, 0, 2, 0), (0, 2, 3, 1), (1, 2, 1, 1)])
def test_uneven_zeros_are_left_to_a_kernel_that_each_channel_has_for_itself(
    pads: tuple[int, int, int, int], as_layer: bool
) -> None:
    gm = strided(pads, as_layer=as_layer)
    images = [torch.randn(shape) for shape in ((2, 4, 6, 6), (1, 4, 9, 7), (1, 4, 224, 224))]
    images += [one.contiguous(memory_format=torch.channels_last) for one in images]
    expected = [outputs(gm, (x,)) for x in images]
    PackConvolutions()(gm)
    assert [node.name for node in gm.graph.nodes] == ["x", "a", "sum_1", "output"]
    for x, old in zip(images, expected):
        torch.testing.assert_close(outputs(gm, (x,)), old, rtol=1e-5, atol=1e-4)
    assert len(gm.a._packed) == 3
    PackConvolutions()(gm, reverse=True)
    assert torch.equal(outputs(gm, (images[0],))[0], expected[0][0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [True, False])
def test_a_kernel_of_one_pixel_is_a_product_with_one_packed_weight_for_all_sizes(
    bias: bool, dtype: torch.dtype
) -> None:
    if not supports(dtype):
        pytest.skip(f"this processor has no instructions for {dtype}")
    layers = {"a": nn.Conv2d(4, 5, 1, bias=bias), "b": nn.Conv2d(4, 5, 1, bias=bias)}
    gm = captured(
        lambda m, x: (y := F.relu(m.a(x)), (F.silu(m.b(x) + y) * 2).permute(0, 2, 3, 1), y.reshape(-1))[1:],
        X.to(dtype), **{name: layer.to(dtype) for name, layer in layers.items()},
    )  # fmt: skip
    images = [torch.randn(shape, dtype=dtype) for shape in ((2, 4, 6, 6), (1, 4, 1, 1), (3, 4, 1, 7), (0, 4, 2, 2))]
    images += [one.contiguous(memory_format=torch.channels_last) for one in images]
    images += [
        torch.randn(2, 4, 6, 12, dtype=dtype)[..., ::2],
        torch.randn(4, 6, 6, 2, dtype=dtype).permute(3, 0, 1, 2),
    ]
    expected = [outputs(gm, (x,)) for x in images]
    assert len(PackConvolutions()(gm).graph.find_nodes(op="call_module")) == 2
    for x, old in zip(images, expected):
        new = outputs(gm, (x,))
        exact = dtype is torch.float32
        torch.testing.assert_close(new, old, rtol=1e-5 if exact else 0.02, atol=1e-5 if exact else 0.03)
        assert [one.stride() for one in new] == [one.stride() for one in old]
    assert [len(one._packed) for one in (gm.a, gm.b)] == [1, 1]


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 1e30])
@pytest.mark.parametrize("act", [F.relu, F.relu6, F.hardsigmoid, F.silu])
def test_an_infinity_or_nan_in_a_large_image_reaches_the_same_numbers_as_before(odd: float, act: Any) -> None:
    gm = captured(lambda m, x: act(m.b(act(m.a(F.pad(x, (0, 1, 0, 1)))))).clone(), X,
                  a=nn.Conv2d(4, 4, 3, stride=2, groups=4), b=nn.Conv2d(4, 64, 1))  # fmt: skip
    x = torch.randn(1, 4, 128, 128)
    plain = outputs(gm, (x,))
    odd_one = x.clone()
    odd_one[0, 1, 7, 8] = odd
    expected = outputs(gm, (odd_one,))
    PackConvolutions()(gm)
    torch.testing.assert_close(outputs(gm, (x,)), plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs(gm, (odd_one,)), expected, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_nan_in_weights_stays_nan_behind_a_large_relu() -> None:
    conv = nn.Conv2d(4, 64, 1)
    with torch.no_grad():
        conv.weight[3] = torch.nan
        assert conv.bias is not None
        conv.bias[5] = torch.nan
    gm = PackConvolutions()(captured(lambda m, x: F.relu(m.a(x)), torch.randn(1, 4, 64, 64), a=conv))
    (found,) = outputs(gm, (torch.randn(1, 4, 64, 64),))
    assert found.isnan().all((0, 2, 3)).nonzero().flatten().tolist() == [3, 5]


def test_uneven_zeros_before_a_kernel_of_all_channels_stay_beside_the_call() -> None:
    gm = PackConvolutions()(captured(lambda m, x: m.a(F.pad(x, (0, 1, 0, 1))), X, a=nn.Conv2d(4, 4, 3)))
    assert "pad" in [node.name for node in gm.graph.nodes]


@pytest.mark.parametrize("pads", [(1, 1), (-1, -1, 0, 0), (1, 1, 0, 0, 0, 0)])
def test_other_paddings_stay_beside_the_call(pads: tuple[int, ...]) -> None:
    gm = captured(lambda m, x: m.a(F.pad(x, pads)), X, a=nn.Conv2d(4, 4, 1))
    expected = outputs(gm, (X,))
    PackConvolutions()(gm)
    assert "pad" in [node.name for node in gm.graph.nodes]
    torch.testing.assert_close(outputs(gm, (X,)), expected)


def test_the_result_lies_in_memory_as_before_where_somebody_may_look() -> None:
    gm = captured(lambda m, x: m.a(x), X, a=nn.Conv2d(4, 8, 3))
    (old,) = outputs(gm, (X,))
    PackConvolutions()(gm)
    (new,) = outputs(gm, (X,))
    assert new.stride() == old.stride()
    last = X.contiguous(memory_format=torch.channels_last)
    assert outputs(gm, (last,))[0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("conv", "shape"),
    [
        (nn.Conv2d(4, 1, 1), (2, 4, 6, 6)),
        (nn.Conv2d(4, 1, 3), (2, 4, 6, 6)),
        (nn.Conv2d(4, 8, 6), (2, 4, 6, 6)),
        (nn.Conv2d(1, 8, 3), (2, 1, 6, 6)),
        (nn.Conv2d(4, 8, 1), (2, 4, 1, 1)),
        (nn.Conv2d(4, 8, 1), (2, 4, 6, 6)),
    ],
)
def test_strides_are_those_of_before_also_of_one_channel_or_pixel(conv: nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    for layer in (conv, copy.deepcopy(conv).to(memory_format=torch.channels_last)):
        gm = captured(lambda m, x: (y := m.a(x), y * y.stride(1), y * y.stride(3)), x, a=layer)
        for image in (x, x.to(memory_format=torch.channels_last)):
            packed = PackConvolutions()(copy.deepcopy(gm))
            old, new = outputs(gm, (image,)), outputs(packed, (image,))
            assert [one.stride() for one in new] == [one.stride() for one in old]
            torch.testing.assert_close(new, old)


def test_images_of_other_sizes_and_single_ones_are_computed_too() -> None:
    model = Block().eval()
    gm = PackConvolutions()(fxopt.capture(model, (X,)))
    for shape in ((1, 4, 6, 6), (3, 4, 9, 5), (1, 4, 9, 9), (2, 4, 7, 7), (1, 4, 8, 8), (2, 4, 6, 6), (0, 4, 6, 6)):
        x = torch.randn(shape)
        torch.testing.assert_close(outputs(gm, (x,)), outputs(model, (x,)))
    single = captured(lambda m, x: m.a(x), X, a=nn.Conv2d(4, 8, 3))
    expected = outputs(single, (X[0],))
    torch.testing.assert_close(outputs(PackConvolutions()(single), (X[0],)), expected)


def test_nan_stays_nan_behind_relu() -> None:
    gm = captured(lambda m, x: F.relu(m.a(x)).sum(), X, a=nn.Conv2d(4, 8, 3))
    assert outputs(PackConvolutions()(gm), (X * torch.nan,))[0].isnan()


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(
    ("layer", "shape", "said"),
    [
        (nn.Conv1d(4, 4, 3), (2, 4, 6), "packs those of images, with 4"),
        (nn.ConvTranspose2d(4, 4, 3), (2, 4, 6, 6), "transposed"),
        (nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"), (2, 4, 6, 6), "pads by reflect"),
        (nn.Conv2d(4, 4, 2, padding="same"), (2, 4, 6, 6), "differs from side to side"),
    ],
)
def test_convolutions_that_cannot_be_packed_are_left_alone_with_the_reason(
    layer: nn.Module, shape: tuple[int, ...], said: str
) -> None:
    forward: Any = lambda m, x: m.a(x)  # noqa: E731
    gm = captured(forward, torch.randn(shape), a=layer)
    assert_left_alone(PackConvolutions(), gm, said)
