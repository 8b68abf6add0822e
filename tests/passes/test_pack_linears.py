import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import PackLinears
from fxopt.core import info_of, shared_copy
from fxopt.packed import PackedLinear
from fxopt.testing import check_pass
from tests.examples import outputs
from tests.passes.asserts import assert_left_alone, captured

PATTERNS = (
    [("linear", 0, 0)],
    [("linear", 0, 0), ("pointwise", 0, 1)],
    [("linear", 0, 0), ("view", 0, 6), ("pointwise", 0, 1)],
    [("linear", 0, 0), ("view", 0, 6), ("pointwise", 0, 1), ("write", 0, 0)],
    [("linear", 0, 0), ("layer", 0, 2)],
    [("linear", 0, 0), ("combine", 0, 1)],
    [("linear", 0, 0), ("write", 0, 0), ("combine", 0, 1)],
)
X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


class Mlp(nn.Module):
    """A block as in a transformer: an activation behind the first linear, the residual behind the second."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = x + self.down(F.gelu(self.up(self.norm(x))))
        return y


def names(gm: torch.fx.GraphModule) -> list[str]:
    return [node.name for node in gm.graph.nodes]


def test_the_laws_hold_with_an_activation_and_a_sum() -> None:
    linears = nn.Sequential(nn.Linear(8, 4, bias=False), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.SiLU()).eval()
    report = check_pass(PackLinears(), [(Mlp().eval(), (X,)), (linears, (X,))])
    assert report.sites == 4


def test_an_activation_and_a_sum_go_into_the_call_of_the_linear_before_them() -> None:
    gm = fxopt.capture(Mlp().eval(), (X,))
    scan = PackLinears().scan(gm)
    assert PackLinears().explain(scan.matches[0]).endswith("applies gelu in the same call")
    assert "adds x in the same call" in PackLinears().explain(scan.matches[1])
    assert names(PackLinears()(gm)) == ["x", "norm", "up", "down", "output"]
    assert str(gm.up) == "PackedLinear(in_features=8, out_features=32, bias=True, activation=gelu)"


class Reshaped(nn.Module):
    """As in GPT-2: the layer computes on rows, and its activation reads them in another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.up(x.view(-1, 8))
        y: torch.Tensor = self.down(F.gelu(rows.view(x.shape[0], -1, 32), approximate="tanh"))
        return y


def test_an_activation_behind_a_reshape_goes_into_the_call_and_the_reshape_stays() -> None:
    x = torch.randn(2, 3, 8)
    check_pass(PackLinears(), [(Reshaped().eval(), (x,))])
    gm = fxopt.capture(Reshaped().eval(), (x,))
    before, infos = names(gm), {node.name: info_of(node) for node in gm.graph.nodes}
    PackLinears()(gm)
    assert names(gm) == [name for name in before if name != "gelu"]
    assert str(gm.up) == "PackedLinear(in_features=8, out_features=32, bias=True, activation=gelu(tanh))"
    assert all(info_of(node) == infos[node.name] for node in gm.graph.nodes)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: (F.gelu(y := m.a(x).view(-1)), y),
        lambda m, x: (F.gelu((y := m.a(x)).view(-1)), y),
        lambda m, x: torch.relu(m.a(x).view(torch.int32)),
        lambda m, x: torch.relu(x.view(m.a(x).view(-1).shape)),
    ],
)
def test_an_activation_of_other_numbers_behind_a_reshape_stays(forward: object) -> None:
    gm = captured(forward, X, a=nn.Linear(8, 8))  # type: ignore[arg-type]
    before = names(gm)
    assert names(PackLinears()(gm)) == before


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: (F.gelu(y := m.a(x)), y),  # another reader of the product
        lambda m, x: torch.add(x, m.a(x), alpha=2),
        lambda m, x: m.a(x) + x[:1],  # of another shape
        lambda m, x: (y := m.a(x)) + y,
        lambda m, x: F.mish(m.a(x)),
        lambda m, x: m.a(x) + x.double(),
    ],
)
def test_what_is_no_part_of_the_call_stays_beside_it(forward: object) -> None:
    gm = captured(forward, X, a=nn.Linear(8, 8))  # type: ignore[arg-type]
    old = outputs(gm, (X,))
    before = names(gm)
    assert names(PackLinears()(gm)) == before
    for a, b in zip(old, outputs(gm, (X,)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_a_residual_that_is_written_before_the_sum_stays_beside_the_call() -> None:
    def forward(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
        kept = x * 2
        y: torch.Tensor = m.a(x)
        kept.add_(1)
        return y + kept

    gm = captured(forward, X, a=nn.Linear(8, 8))
    assert "add" in names(PackLinears()(gm))


def test_tied_weights_stay_tied_and_the_state_dict_is_that_of_before() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(5, 8), nn.Linear(8, 5, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.head(self.embedding(x))
            return y

    gm = fxopt.capture(Tied().eval(), (torch.tensor([[1, 2]]),))
    keys = list(gm.state_dict())
    PackLinears()(gm)
    assert isinstance(gm.head, PackedLinear)
    assert gm.head.weight is gm.embedding.weight
    assert list(gm.state_dict()) == keys


def test_a_function_on_parameters_becomes_a_packed_module_that_holds_them() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q_weight, self.q_bias = nn.Parameter(torch.randn(4, 8)), nn.Parameter(torch.randn(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(F.linear(x, self.q_weight, self.q_bias))

    model = Functional().eval()
    gm = fxopt.capture(model, (X,))
    PackLinears()(gm)
    assert gm.q_packed.weight is model.q_weight
    assert list(gm.state_dict()) == ["q_packed.weight", "q_packed.bias"]
    with torch.no_grad():
        model.q_bias.add_(1)  # the model trains on, and the way back leads to its parameters
    PackLinears()(gm, reverse=True)
    assert gm.q_bias is model.q_bias


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (nn.Linear(8, 4).double(), "torch.float64, and oneDNN packs float32 and bfloat16"),
        (nn.Linear(8, 4).train(), "in training mode"),
        (torch.nn.utils.parametrizations.weight_norm(nn.Linear(8, 4)), "by a parametrization"),
    ],
    ids=["double", "training", "parametrized"],
)
def test_layers_that_cannot_be_packed_are_left_alone_with_the_reason(layer: nn.Module, said: str) -> None:
    gm = captured(lambda m, x: m.a(x), X.to(next(layer.parameters()).dtype), a=layer)
    if said == "in training mode":
        gm.a.train()
    assert_left_alone(PackLinears(), gm, said)


def test_a_processor_without_bfloat16_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.passes.packing.supports", lambda dtype: dtype is torch.float32)
    gm = captured(lambda m, x: m.a(x), X.bfloat16(), a=nn.Linear(8, 4).bfloat16())
    assert_left_alone(PackLinears(), gm, "this processor has no instructions for torch.bfloat16")


def test_a_build_without_onednn_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.passes.packing.is_available", lambda: False)
    assert_left_alone(PackLinears(), captured(lambda m, x: m.a(x), X, a=nn.Linear(8, 4)), "no operators of oneDNN")


def test_a_packed_graph_is_copied_pickled_and_exported_and_takes_gradients() -> None:
    model = Mlp().eval()
    gm = PackLinears()(fxopt.capture(model, (X,)))
    expected = model(X)
    with torch.inference_mode():
        gm(X)
        for twin in (gm, copy.deepcopy(gm), pickle.loads(pickle.dumps(gm)), shared_copy(gm)):
            torch.testing.assert_close(twin(X), expected.detach())
    loss = gm(X).square().sum()
    loss.backward()
    assert model.up.weight.grad is not None
    targets = {str(node.target) for node in torch.export.export(gm, (X,)).graph.nodes}
    assert "aten.linear.default" in targets
    assert not any("mkldnn" in target for target in targets)
