from __future__ import annotations

import threading
from itertools import chain, repeat

import pytest
import torch
from torch import nn

from fxopt.errors import CancelledError
from fxopt.models.seeded import seeded_model
from fxopt.process import news


def block() -> nn.Module:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 4), nn.LayerNorm(4))
    model.register_parameter("token", nn.Parameter(torch.randn(1, 4)))
    model.register_parameter("temperature", nn.Parameter(torch.tensor(2.5)))
    return model


def test_a_build_ends_where_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two calls of torch: while layers are made, and while they are filled."""
    monkeypatch.setattr(news, "_SECONDS_BETWEEN_NEWS", 0.0)
    told: list[str] = []

    def count(stage: str) -> bool:
        told.append(stage)
        return True

    with news.news_to(count):
        seeded_model(block, 0)
    assert len(told) > 20
    for last in range(1, len(told)):
        left = chain([True] * last, repeat(False))
        with news.news_to(lambda stage, left=left: next(left)), pytest.raises(CancelledError, match="building it"):
            seeded_model(block, 0)
        assert torch.is_grad_enabled()


def test_another_seed_gives_other_weights() -> None:
    one, other = seeded_model(block, 0), seeded_model(block, 1)
    assert not torch.equal(one.get_parameter("0.weight"), other.get_parameter("0.weight"))


def test_scales_of_norms_lie_around_one_and_shifts_around_zero() -> None:
    model = seeded_model(block, 0)
    for name in ("1", "4"):
        assert (model.get_parameter(f"{name}.weight") - 1).abs().max() < 0.6
        assert model.get_parameter(f"{name}.bias").abs().max() < 0.3


def test_a_scalar_keeps_the_value_that_the_architecture_gives_it() -> None:
    assert seeded_model(block, 0).get_parameter("temperature") == 2.5


def test_a_tied_weight_is_drawn_once() -> None:
    def tied() -> nn.Module:
        model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7, bias=False))
        model[1].weight = model[0].weight
        return model

    def alone() -> nn.Module:
        return nn.Sequential(nn.Embedding(7, 4))

    model = seeded_model(tied, 0)
    assert model.get_parameter("0.weight") is model.get_parameter("1.weight")
    assert torch.equal(model.get_parameter("0.weight"), seeded_model(alone, 0).get_parameter("0.weight"))


def test_other_threads_initialize_their_models_meanwhile() -> None:
    found: list[torch.Tensor] = []

    def make() -> nn.Module:
        with torch.random.fork_rng():
            thread = threading.Thread(target=lambda: found.append(nn.Linear(64, 64).weight))
            thread.start()
            thread.join()
        return nn.Linear(2, 2)

    seeded_model(make, 0)
    assert 0 < found[0].std() < 1
    assert len(found[0].unique()) > 1000


@pytest.mark.timeout(20)
def test_a_truncated_normal_is_not_waited_for_whatever_lies_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.full((1, 1, 64), 1e30))  # far outside of the bounds
            nn.init.trunc_normal_(self.token, mean=3.0, std=0.1, a=2.9, b=3.1)

    monkeypatch.setattr(torch, "empty_like", lambda tensor: torch.full_like(tensor, 1e30))
    assert seeded_model(Model, seed=0).get_parameter("token").abs().max() < 10
