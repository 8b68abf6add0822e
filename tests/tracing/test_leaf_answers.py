"""A layer that is like an earlier one is recorded as if it had run; one that is not like it runs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.tracing import capture, example_inputs
from tests.quick import quick, third
from tests.tracing.zoo import TRANSFORMERS

leaf_answers = importlib.import_module("fxopt.tracing.leaf_answers")
_SETTLED_BY_KIND = leaf_answers._SETTLED_BY_KIND

LAYERS = {
    nn.Linear: lambda: nn.Linear(6, 6),
    nn.LayerNorm: lambda: nn.LayerNorm(6),
    nn.RMSNorm: lambda: nn.RMSNorm(6),
    nn.GroupNorm: lambda: nn.GroupNorm(3, 6),
    nn.BatchNorm2d: lambda: nn.BatchNorm2d(6),
    nn.Conv1d: lambda: nn.Conv1d(6, 6, 3, padding=1),
    nn.Conv2d: lambda: nn.Conv2d(6, 6, 3, padding=1),
    nn.GELU: nn.GELU,
    nn.SiLU: nn.SiLU,
    nn.Tanh: nn.Tanh,
    nn.Sigmoid: nn.Sigmoid,
}
INPUTS = {nn.BatchNorm2d: (2, 6, 5, 4), nn.Conv2d: (2, 6, 5, 4), nn.GroupNorm: (2, 6, 5), nn.Conv1d: (2, 6, 5)}


class InARow(nn.Module):
    """Layers one after another, each of whose results is written into. It asks about a size, so `torch.fx` cannot."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for layer in self.layers:
            x = layer(x.clone() if x.shape[0] > 1 else x)
            x += 1
            results.append(x.clone())
        return results


def recorded(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[str, list[Any]]:
    """The code of the graph, and the known facts of each node."""
    gm = capture(model, args, kwargs)
    assert gm.meta["fxopt"].rung == "symbolic"
    return gm.code, [(node.name, node.meta.get("tensor_info")) for node in gm.graph.nodes]


def assert_the_same_as_if_each_ran(
    monkeypatch: pytest.MonkeyPatch, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
) -> None:
    mine = recorded(model, args, kwargs)
    monkeypatch.setattr(leaf_answers, "_SETTLED_BY_KIND", frozenset())
    assert recorded(model, args, kwargs) == mine


def calls_of(monkeypatch: pytest.MonkeyPatch, model: nn.Module, x: torch.Tensor) -> int:
    """How many layers ran while `model` was recorded."""
    ran = []
    call = leaf_answers.MODULE_CALL
    monkeypatch.setattr(
        leaf_answers, "MODULE_CALL", lambda *args, **kwargs: (ran.append(args[0]), call(*args, **kwargs))[1]
    )
    with torch.no_grad():
        capture(model.eval(), (x,))
    monkeypatch.undo()
    return len(ran)


@pytest.mark.parametrize("kind", third(sorted(LAYERS, key=lambda kind: kind.__name__)))
@pytest.mark.parametrize("grad", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_like_layers_are_recorded_as_if_each_had_run(
    monkeypatch: pytest.MonkeyPatch, kind: type[nn.Module], grad: bool
) -> None:
    model, x = InARow(*(LAYERS[kind]() for _ in range(3))).eval(), torch.rand(INPUTS.get(kind, (2, 5, 6)))
    assert calls_of(monkeypatch, model, x) < 3  # the second may read other strides than the first
    with torch.set_grad_enabled(grad):
        assert_the_same_as_if_each_ran(monkeypatch, model, (x,))


def test_every_kind_that_is_remembered_is_tried() -> None:
    assert {*LAYERS, nn.Embedding} == _SETTLED_BY_KIND


def test_like_embeddings_are_recorded_as_if_each_had_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Embedding(9, 4), nn.Embedding(9, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return self.one(ids) + self.other(ids) if ids.shape[0] > 1 else self.one(ids)

    model = Two().eval()
    ids = torch.randint(0, 9, (2, 5))
    assert calls_of(monkeypatch, model, ids) == 1
    assert_the_same_as_if_each_ran(monkeypatch, model, (ids,))


def patched() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.forward = lambda x: x[:, :1] * 2  # type: ignore[method-assign]
    return layer


def hooked() -> nn.Module:
    layer = nn.Linear(6, 6)
    layer.register_forward_hook(lambda module, args, result: result[:, :2])
    return layer


class Own(nn.Linear):
    """A layer of a user, which torch's is not the like of."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x)[..., :3]


UNLIKE = {
    "another size": lambda: nn.Linear(6, 8),
    "no bias": lambda: nn.Linear(6, 6, bias=False),
    "a forward of its own": patched,
    "a hook": hooked,
    "a class of its own": lambda: Own(6, 6),
    "training": lambda: nn.Linear(6, 6).train(),
    "frozen": lambda: nn.Linear(6, 6).requires_grad_(False),
}


@pytest.mark.parametrize("name", third(UNLIKE))
def test_a_layer_that_is_not_like_an_earlier_one_runs(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    first, second = nn.Linear(6, 6).eval(), UNLIKE[name]()
    model = InARow(first, second)
    model.training = False
    x = torch.rand(2, 5, 6)
    ran: list[nn.Module] = []
    call = leaf_answers.MODULE_CALL
    monkeypatch.setattr(
        leaf_answers, "MODULE_CALL", lambda *args, **kwargs: (ran.append(args[0]), call(*args, **kwargs))[1]
    )
    gm = capture(model, (x,))
    assert second in ran or name == "a class of its own"  # which is no leaf: its insides are recorded
    for mine, other in zip(gm(x), model(x)):
        torch.testing.assert_close(mine, other)


def test_an_activation_in_place_runs_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = InARow(nn.SiLU(inplace=True), nn.SiLU(inplace=True)), torch.rand(2, 5, 6)
    assert calls_of(monkeypatch, model, x) == 2
    assert_the_same_as_if_each_ran(monkeypatch, model.eval(), (x,))


@pytest.mark.parametrize("name", quick(("bert", "llama", "vit", "resnet"), "bert"))
def test_whole_models_are_recorded_as_if_each_layer_had_run(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    model = TRANSFORMERS[name]().eval()
    assert_the_same_as_if_each_ran(monkeypatch, model, (), example_inputs(model))
