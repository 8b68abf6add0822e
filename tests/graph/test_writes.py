"""Writes to memory between two readers of it, by operators that torch declares and by unknown ones."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import prune

import fxopt
from fxopt import FuseBiasInLinear, MergeLinears, Miss, Pass
from fxopt.core import GraphIndex
from tests.fuzz.rules import RULES


@torch.library.custom_op("fxopt_tests::triple_in_place", mutates_args={"x"})
def triple_in_place(x: Tensor, y: Tensor) -> None:
    x.mul_(3).add_(y)


@torch.library.custom_op("fxopt_tests::tripled", mutates_args=())
def tripled(x: Tensor) -> Tensor:
    return x * 3


class Triple(nn.Module):
    def forward(self, x: Tensor) -> None:
        x.mul_(3)


class TripleView(nn.Module):
    def forward(self, x: Tensor) -> None:
        x.view(-1)[:4].mul_(3)


@torch.fx.wrap
def triple(x: Tensor) -> None:
    x.mul_(3)


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.mul_(3)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


def hooked() -> nn.Module:
    module = nn.Identity()
    module.register_forward_hook(lambda module, args, output: output.mul_(3))
    return module


def of_its_own() -> nn.Module:
    module = nn.Identity()
    module.__dict__["forward"] = lambda x: x.mul_(3)
    return module


ops = torch.ops.fxopt_tests
SEEN: dict[str, tuple[Any, Callable[[Any, Tensor], Any]]] = {
    "packet": (None, lambda m, h: ops.triple_in_place(h, h * 0)),
    "overload": (None, lambda m, h: ops.triple_in_place.default(h, h * 0)),
    "packet by keyword": (None, lambda m, h: ops.triple_in_place(x=h, y=h * 0)),
    "of a view": (None, lambda m, h: ops.triple_in_place(h[:1], h[:1] * 0)),
    "of a reshaped one": (None, lambda m, h: ops.triple_in_place(h.reshape(-1), h.reshape(-1) * 0)),
    "in place on a view": (None, lambda m, h: h.narrow(0, 0, 1).mul_(3)),
    "aten packet": (None, lambda m, h: torch.ops.aten.mul_(h, 3)),
    "foreach": (None, lambda m, h: torch._foreach_mul_([h], 3)),
    "out": (None, lambda m, h: torch.mul(h, 3, out=h)),
    "method of an assignment": (None, lambda m, h: h.__imul__(3)),
    "by a name of its own": (None, lambda m, h: torch.nn.init.constant_(tensor=h, val=3.0)),
    "data": (None, lambda m, h: h.data.mul_(3)),
    "module": (Triple(), lambda m, h: m(h)),
    "module on a view": (TripleView(), lambda m, h: m(h)),
    "module inside of one of torch": (nn.Sequential(Triple()), lambda m, h: m(h)),
    "in place inside of one of torch": (nn.Sequential(nn.ReLU(inplace=True)), lambda m, h: m(h)),
    "module with hooks": (hooked(), lambda m, h: m(h)),
    "module with a forward of its own": (of_its_own(), lambda m, h: m(h)),
    "wrapped function": (None, lambda m, h: triple(h)),
    "autograd function": (None, lambda m, h: Tripled.apply(h)),  # type: ignore[no-untyped-call]
}


class Between(nn.Module):
    def __init__(self, module: nn.Module | None, act: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)
        self.module, self.act = module, act

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = x * 1.5
        q = self.q(h)
        self.act(self.module, h)
        return q, self.k(h)


class Tracer(torch.fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return module_qualified_name.startswith(("q", "k", "module"))


def traced(module: nn.Module | None, act: Callable[[Any, Tensor], Any]) -> torch.fx.GraphModule:
    model = Between(module, act).eval()
    return torch.fx.GraphModule(model, Tracer().trace(model))


@pytest.mark.parametrize(("module", "act"), SEEN.values(), ids=SEEN)
@pytest.mark.parametrize("pass_", [MergeLinears(), FuseBiasInLinear()], ids=lambda pass_: pass_.name)
def test_no_linear_is_moved_over_a_write_to_its_input(
    pass_: Any, module: nn.Module | None, act: Callable[[Any, Tensor], Any]
) -> None:
    gm = traced(module, act)
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = gm(x)
        pass_(gm)
        torch.testing.assert_close(gm(x), expected)


def miss_of(gm: torch.fx.GraphModule) -> Miss:
    return MergeLinears().scan(gm).misses[-1]


def test_the_reason_names_the_module_and_the_remedy() -> None:
    miss = miss_of(traced(Triple(), lambda m, h: m(h)))
    assert miss.reason.endswith(
        "may change mul in place between q and k: it is a call of a Triple, which is not a module of torch, "
        "which may write to what it is given"
    )
    assert "torch.library.custom_op" in miss.remedy
    assert "capture what is inside it" in miss.remedy


def test_the_reason_of_a_declared_write_is_as_of_any_other() -> None:
    miss = miss_of(traced(None, lambda m, h: ops.triple_in_place(h, h * 0)))
    assert miss.reason == "triple_in_place changes mul in place between q and k"
    assert not miss.remedy


UNHARMFUL: dict[str, tuple[Any, Callable[[Any, Tensor], Any]]] = {
    "custom operator that writes to another": (None, lambda m, h: ops.triple_in_place(h * 0, h)),
    "custom operator that writes nothing": (None, lambda m, h: ops.tripled(h)),
    "dropout": (nn.Dropout(), lambda m, h: m(h)),
    "container of torch's": (nn.Sequential(nn.LayerNorm(4), nn.ReLU()), lambda m, h: m(h)),
    "in place on a copy": (None, lambda m, h: h.clone().mul_(3)),
    "shape of it": (None, lambda m, h: triple(h.shape[0] * torch.ones(()))),
    "weight norm": (nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), lambda m, h: m(h)),
    "pruned": (prune.identity(nn.Linear(4, 4), "weight"), lambda m, h: m(h)),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize(("module", "act"), UNHARMFUL.values(), ids=UNHARMFUL)
def test_what_writes_to_something_else_is_in_nobodys_way(
    module: nn.Module | None, act: Callable[[Any, Tensor], Any]
) -> None:
    gm = traced(module, act)
    assert len(MergeLinears().scan(gm).matches) == 1


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_one(x: Tensor):  # type: ignore[no-untyped-def]
    """Replace `x * 1` with `x`."""
    yield x * 1
    return x


@pytest.mark.parametrize(("module", "act"), SEEN.values(), ids=SEEN)
def test_a_rule_leaves_alone_what_is_written_later(module: Any, act: Callable[[Any, Tensor], Any]) -> None:
    class Copied(Between):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            h = x * 1.5
            own = h * 1
            self.act(self.module, h)
            return own + h, h

    model = Copied(module, act).eval()
    gm = torch.fx.GraphModule(model, Tracer().trace(model))
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(1))
    fxopt.annotate(gm, x)  # the rule needs the type of `h`; the write alone is left to keep it away
    with torch.no_grad():
        expected = gm(x)
        remove_one(gm)
        torch.testing.assert_close(gm(x), expected)


def test_what_only_holds_tensors_writes_nothing() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    calls = [graph.call_function(dict, (), {"x": x}), graph.call_function(operator.getitem, (x, 0))]
    graph.output(calls)
    index = GraphIndex(torch.fx.GraphModule(nn.Module(), graph))
    assert [index.effects(call).written for call in calls] == [(), ()]


class Aliased(nn.Module):
    """Layers whose weights and statistics share memory with buffers that each run writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.conv, self.images = nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4)
        self.register_buffer("of_a", self.a.weight.data[0])
        self.register_buffer("of_b", self.b.bias.detach()[:2])
        self.register_buffer("of_conv", self.conv.weight.detach().view(-1))
        self.register_buffer("of_norm", self.norm.running_mean.view(2, 2))

    def forward(self, x: Tensor) -> Tensor:
        for buffer in (self.of_a, self.of_b, self.of_conv, self.of_norm):
            buffer.add_(1)
        h = self.images(self.conv(x[:, None, None]))[:, 0, 0]
        return self.norm(self.a(h)) + self.b(h) * 2.0


@pytest.mark.parametrize("pass_", [*(kind() for kind in fxopt.ALL_PASSES), fxopt.JoinLinears(), *RULES])
def test_a_layer_stays_as_it_is_where_a_buffer_that_is_written_to_shares_memory_with_it(pass_: Pass[Any]) -> None:
    torch.manual_seed(0)
    model, x = Aliased().eval(), torch.rand(3, 4)
    gm = fxopt.capture(model, (x,))
    numbers = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with torch.no_grad():
        old = [model(x) for _ in range(2)]
    for name, tensor in model.state_dict().items():
        tensor.copy_(numbers[name])
    pass_(gm)
    with torch.no_grad():
        new = [gm(x) for _ in range(2)]
    torch.testing.assert_close(new, old)


def test_a_miss_names_the_writer_and_the_buffer_that_shares_memory() -> None:
    (first, *_) = MergeLinears().scan(fxopt.capture(Aliased().eval(), (torch.rand(3, 4),))).misses
    assert first.reason == "add_ may write to of_a, which shares memory with a.weight"
    assert first.remedy == "give each memory of its own"
