"""Regions of a graph become one call that follows a plan: the laws, and every reason to compute node by node."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations

import fxopt
from fxopt.engines import PlannedRegion
from fxopt.packed import PackedConv2d, bounds
from fxopt.testing import LAWS, Case, Law, check, title
from tests.examples import EXAMPLES, Example
from tests.passes.asserts import assert_left_alone
from tests.quick import one_of_four

PASS = fxopt.PlanRegions()
X = torch.randn(1, 4, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("law", "example"), one_of_four(LAWS, EXAMPLES), ids=lambda value: title(value) if value in LAWS else value.name
)
def test_it_obeys_every_law(law: Law, example: Example) -> None:
    case = Case.of(example.name, example.model(), *(example.inputs(seed) for seed in (1, 2, 3)))
    assert PASS.scan(case.captured).matches
    check(law, PASS, case)


class Net(nn.Module):
    """As MobileNet: an expansion, a kernel for each channel, a squeeze-and-excite, a projection with a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.own, self.down = nn.Conv2d(4, 64, 1), nn.Conv2d(64, 64, 3, 2, groups=64), nn.Conv2d(64, 4, 1)
        self.squeeze, self.excite, self.short = nn.Conv2d(64, 8, 1), nn.Conv2d(8, 64, 1), nn.Conv2d(4, 4, 1, 2)
        self.head, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu6(self.own(F.pad(F.relu6(self.up(x)), (0, 1, 0, 1))))
        y = y * self.excite(F.silu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))).sigmoid()
        y = F.relu(self.down(y) + self.short(x))
        z: Tensor = self.last(F.gelu(self.head(y.mean((2, 3)))))
        return z


def packed(model: nn.Module, x: Tensor = X) -> fxopt.GraphModule:
    gm = fxopt.capture(model.eval(), (x,))
    return fxopt.PackConvolutions()(fxopt.PackLinears()(gm))


def planned(model: nn.Module, x: Tensor = X) -> tuple[fxopt.GraphModule, PlannedRegion]:
    gm = PASS(packed(model, x))
    (region,) = (one for one in gm.modules() if isinstance(one, PlannedRegion))
    return gm, region


def plans_of(region: PlannedRegion) -> list[Any]:
    return [call for one in region._set_ups.values() for call in one.calls.values() if call is not region.body]


@torch.no_grad()
def test_the_plan_gives_the_very_numbers_of_the_packed_layers() -> None:
    model = Net()
    before = packed(model)
    gm, region = planned(model)
    for x in (X, X.contiguous(memory_format=torch.channels_last), torch.randn(2, 4, 66, 34), X * 1e20):
        expected = before(x)
        assert torch.equal(gm(x), expected)
        assert torch.equal(gm(x), expected)
    assert len(plans_of(region)) == 3  # X and 1e20 X are of one kind


@pytest.mark.parametrize("odd", [torch.nan, torch.inf, -torch.inf, 1e30])
@torch.no_grad()
def test_nan_and_infinity_reach_the_same_numbers_as_before(odd: float) -> None:
    model = Net()
    before = packed(model)
    gm, _ = planned(model)
    gm(X)
    for place in ((0, 1, 7, 8), (0, 0, 63, 63), (0, 3, 0, 62)):
        x = X.clone()
        x[place] = odd
        torch.testing.assert_close(gm(x), before(x), rtol=0, atol=0, equal_nan=True)


@torch.no_grad()
def test_an_infinity_before_a_kernel_with_zeros_makes_no_nan_of_its_neighbors() -> None:
    class Strided(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.own, self.after = nn.Conv2d(4, 4, 3, 2, groups=4), nn.Conv2d(4, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            z: Tensor = F.silu(self.own(F.pad(x, (0, 1, 0, 1))))
            return z.clone()

    model = Strided()
    expected = fxopt.capture(model.eval(), (X,))
    gm, _ = planned(model)
    gm(X)
    for odd in (torch.nan, torch.inf, -torch.inf):
        x = X.clone()
        x[0, 1, 7, 8] = odd
        torch.testing.assert_close(gm(x), expected(x), equal_nan=True)


@torch.no_grad()
def test_strides_are_those_of_before_also_of_one_channel() -> None:
    model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Conv2d(4, 1, 1))
    expected = fxopt.capture(model.eval(), (X,))
    gm, region = planned(model)
    for _ in range(2):
        assert gm(X).stride() == expected(X).stride()
    assert plans_of(region)


class Neighbors(nn.Module):
    """A graph net, whose edges are a sparse matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        z: Tensor = self.b((edges @ self.a(x)).relu())
        return z


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@torch.no_grad()
def test_a_sparse_input_is_computed_node_by_node(layout: torch.layout) -> None:
    x, edges = torch.randn(5, 6), torch.eye(5).roll(1, 0)
    model = Neighbors().eval()
    gm = PASS(fxopt.capture(model, (x, edges)))
    sparse = edges.to_sparse(layout=layout)
    for _ in range(2):
        torch.testing.assert_close(gm(x, edges), model(x, edges))
        torch.testing.assert_close(gm(x, sparse), model(x, sparse))


@torch.no_grad()
def test_a_region_with_a_sparse_buffer_is_left_alone_with_the_reason() -> None:
    class Fixed(Neighbors):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("edges", torch.eye(5).to_sparse())

        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            return super().forward(x, self.get_buffer("edges"))

    gm = fxopt.capture(Fixed().eval(), (torch.randn(5, 6),))
    assert_left_alone(PASS, gm, "edges holds a tensor of torch.sparse_coo, which has no address")


@torch.no_grad()
def test_a_hook_of_all_modules_sees_those_of_the_region() -> None:
    gm, _ = planned(Net())
    gm(X)
    seen: list[str] = []
    handle = register_module_forward_hook(lambda module, args, result: seen.append(type(module).__name__))
    try:
        gm(X)
    finally:
        handle.remove()
    assert seen.count("PackedConv2d") == 6


@torch.no_grad()
def test_numbers_that_a_bounded_activation_made_are_not_proven_bounded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    gm, _ = planned(Net())
    gm(X)
    asked: list[int] = []
    real = bounds.is_bounded

    def counted(x: Tensor) -> bool:
        asked.append(x.numel())
        return real(x)

    monkeypatch.setattr("fxopt.packed.convolution.is_bounded", counted)
    gm(X)
    assert asked == [X.numel()], "of the expansion alone, not of the strided kernel behind its relu6"


@torch.no_grad()
def test_a_bound_goes_through_layers_and_sums_to_the_next_activation(monkeypatch: pytest.MonkeyPatch) -> None:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ups = nn.ModuleList(nn.Conv2d(4, 64, 1) for _ in range(3))
            self.downs = nn.ModuleList(nn.Conv2d(64, 4, 1) for _ in range(3))

        def forward(self, x: Tensor) -> Tensor:
            x = self.downs[0](F.relu6(self.ups[0](x)))
            for up, down in zip(self.ups[1:], self.downs[1:]):
                x = x + down(F.relu6(up(x)))
            return x.clone()

    model = Blocks()
    before = packed(model)
    gm, _ = planned(model)
    gm(X)
    asked: list[int] = []
    real = bounds.is_bounded
    monkeypatch.setattr("fxopt.packed.convolution.is_bounded", lambda x: asked.append(x.numel()) or real(x))
    for x in (X, X * 1e15):
        asked.clear()
        found, proofs = gm(x), len(asked)
        assert torch.equal(found, before(x))
        assert proofs == 1, "of the image alone"
    for parameter, value in ((model.downs[1].weight, 1e35), (model.ups[1].weight, 0.0), (model.ups[1].bias, 0.0)):
        parameter.fill_(value)
    found = gm(X)
    asked.clear()
    assert torch.equal(gm(X), found)
    assert len(asked) == 2, "and of the sum that is finite, and not by its bound"
    torch.testing.assert_close(found, before(X), rtol=0, atol=0, equal_nan=True)


@torch.no_grad()
def test_numbers_that_others_may_write_to_are_proven_bounded() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.own = nn.Conv2d(4, 64, 1), nn.Conv2d(64, 64, 3, 2, groups=64)

        def forward(self, x: Tensor) -> Tensor:
            y = F.relu6(self.up(x))
            y.div_(0)
            z: Tensor = self.own(F.pad(y, (0, 1, 0, 1)))
            return z.clone()

    model = Written()
    expected = fxopt.capture(model.eval(), (X,))
    gm, _ = planned(model)
    for _ in range(2):
        torch.testing.assert_close(gm(X), expected(X), equal_nan=True)


def test_it_follows_the_weights() -> None:
    model = Net()
    gm, region = planned(model)
    plain = fxopt.capture(model, (X,))
    with torch.no_grad():
        for act in (
            lambda: model.own.weight.mul_(2),
            lambda: model.down.load_state_dict(nn.Conv2d(64, 4, 1).state_dict()),
            lambda: setattr(model.head.weight, "data", torch.randn(4, 4)),
        ):
            gm(X)
            act()
            torch.testing.assert_close(gm(X), plain(X))
    assert plans_of(region)


@torch.no_grad()
def test_it_follows_a_weight_that_is_transposed_in_its_memory() -> None:
    model, x = nn.Sequential(nn.Linear(600, 600), nn.GELU(), nn.Linear(600, 600)), torch.randn(4, 600)
    gm, region = planned(model, x)
    gm(x)
    model[0].weight.data = model[0].weight.t()
    torch.testing.assert_close(gm(x), model(x))
    assert plans_of(region)


@torch.no_grad()
def test_layers_are_called_by_keyword_too() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.own, self.last = nn.Conv2d(4, 64, 1), nn.Conv2d(64, 64, 3, 2, groups=64), nn.Linear(64, 4)

        def forward(self, x: Tensor) -> Tensor:
            z: Tensor = self.last(input=self.own(input=self.up(input=x)).mean((2, 3)))
            return z.clone()

    model = Named()
    gm, region = planned(model)
    for _ in range(2):
        torch.testing.assert_close(gm(X), model(X))
        assert not region.by_hand


class Twice(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight * 2


@torch.no_grad()
def test_it_follows_modules_that_are_put_in_later() -> None:
    x = torch.randn(4, 16)
    gm, region = planned(nn.Sequential(nn.Linear(16, 600), nn.Softsign(), nn.Linear(600, 16)), x)
    layer = region.body.get_submodule("2")
    bare = nn.Linear(600, 16, bias=False).eval()

    def make_a_buffer() -> None:
        del bare.weight
        bare.register_buffer("weight", torch.randn(16, 600))

    for act in (
        lambda: register_parametrization(layer, "weight", Twice()).eval(),
        lambda: layer.get_parameter("parametrizations.weight.original").mul_(3),
        lambda: remove_parametrizations(layer, "weight"),
        lambda: setattr(region.body, "1", nn.ReLU().eval()),  # with the same weights
        lambda: setattr(region.body, "2", nn.Linear(600, 16).eval()),
        lambda: setattr(region.body, "2", bare),
        make_a_buffer,
        lambda: bare.get_buffer("weight").mul_(3),
    ):
        gm(x)
        gm(x)
        act()
        torch.testing.assert_close(gm(x), region.body(x))
        assert not region.by_hand


def test_where_somebody_watches_it_computes_node_by_node() -> None:
    gm, region = planned(Net())
    x = X.clone().requires_grad_()
    gm(x).sum().backward()
    assert x.grad is not None
    assert not plans_of(region)
    with torch.no_grad():
        expected = gm(X)
        assert len(plans_of(region)) == 1
        seen: list[tuple[int, ...]] = []
        inner = next(one for one in region.modules() if isinstance(one, PackedConv2d))
        handle = inner.register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))
        assert torch.equal(gm(X), expected)
        handle.remove()
        assert seen == [(1, 64, 64, 64)]
        with torch.autocast("cpu", torch.bfloat16):
            gm(X)
        assert torch.equal(gm(X), expected)
    exported = torch.export.export(gm, (X,)).module()
    torch.testing.assert_close(exported(X), gm(X))


def test_weights_for_which_no_plan_is_made_are_told() -> None:
    with torch.inference_mode():
        gm, region = planned(Net())
        told = f"no plan is made for a region of {len(region.body.graph.nodes)} nodes, which is computed node by node:"
        with pytest.warns(fxopt.FxoptWarning, match=f"{told} a weight is a tensor of inference mode"):
            gm(X)


@torch.no_grad()
def test_a_ninth_kind_of_inputs_is_computed_node_by_node() -> None:
    model = Net()
    gm, region = planned(model)
    before = packed(model)
    for size in range(8):
        gm(torch.randn(1, 4, 16 + 2 * size, 16))
    x = torch.randn(1, 4, 32, 34)
    assert torch.equal(gm(x), before(x))
    assert len(plans_of(region)) == 8


@torch.no_grad()
def test_kinds_of_inputs_without_end_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.engines.region._MOST_KINDS", 10)
    model = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16)).eval()
    gm, region = planned(model, torch.randn(4, 16))
    for size in range(1, 13):
        x = torch.randn(size, 16)
        torch.testing.assert_close(gm(x), model(x))
    (set_up,) = region._set_ups.values()
    assert len(set_up.calls) == 10
    assert list(set_up.calls.values())[-1] is not region.body, "a plan that went makes room for another"


@torch.no_grad()
def test_a_copy_and_a_pickle_make_a_plan_of_their_own() -> None:
    gm, _ = planned(Net())
    expected = gm(X)
    again = pickle.loads(pickle.dumps(gm))
    assert torch.equal(again(X), expected)
    assert torch.equal(again(X), expected)


@pytest.mark.filterwarnings("ignore:PlanRegions")  # it rests on the others, and goes with them
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_it_reverses_in_any_order_with_the_passes_that_pack(order: tuple[int, ...]) -> None:
    model = Net().eval()
    before = fxopt.fingerprint(fxopt.capture(model, (X,)))
    gm, _ = planned(model)
    with torch.inference_mode():
        gm(X)
    again = pickle.loads(pickle.dumps(gm))
    passes = (fxopt.PackConvolutions(), fxopt.PackLinears(), PASS)
    for place in order:
        passes[place](again, reverse=True)
        with torch.inference_mode():
            torch.testing.assert_close(again(X), model(X))
    assert fxopt.fingerprint(again) == before
