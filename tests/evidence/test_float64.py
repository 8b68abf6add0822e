from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import symbolic_trace

from fxopt.evidence.float64 import in_float64, run_in_float64
from fxopt.models import ZOO, ModelSource


class Narrow(nn.Module):
    """Asks for low precision in all the ways there are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.tied = self.linear
        self.register_buffer("table", torch.linspace(0, 1, 4))
        self.constant = torch.tensor([0.1, 0.2, 0.3, 0.4])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        ones = torch.ones(4, 4)
        return {
            "factory": self.linear(x) @ ones,
            "cast": (x.float() @ ones).to(torch.float32).half().bfloat16() * self.table,
            "keyword": x.softmax(-1, dtype=torch.float32) + torch.full((4,), 0.1, dtype=torch.float16),
            "constant": x * self.constant,
            "count": (x > 0).sum(-1),
        }


@pytest.mark.parametrize("trace", [False, True])
def test_all_that_is_computed_is_float64(trace: bool) -> None:
    model: Any = symbolic_trace(Narrow()) if trace else Narrow()
    result = run_in_float64(in_float64(model), (torch.ones(2, 4),), {})
    assert {name: tensor.dtype for name, tensor in result.items()} == {
        "factory": torch.float64,
        "cast": torch.float64,
        "keyword": torch.float64,
        "constant": torch.float64,
        "count": torch.int64,
    }


@pytest.mark.parametrize(
    "narrowed",
    [
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.bfloat16),
        lambda x: x.type(torch.float16),
        lambda x: x.float(),
        lambda x: x.half(),
        lambda x: x.sum(-1, dtype=torch.float32),
    ],
)
def test_no_digits_are_lost_where_the_code_asks_for_less(narrowed: Any) -> None:
    class Third(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return narrowed(x / 3) * 3

    result = run_in_float64(Third(), (torch.ones(1),), {})
    assert abs(result.item() - 1) < 1e-15


def test_the_original_keeps_its_tensors() -> None:
    model = Narrow()
    held = {name: (tensor, tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    wide = in_float64(model)
    assert wide is not model
    for name, tensor in model.state_dict(keep_vars=True).items():
        assert tensor is held[name][0]
        assert torch.equal(tensor, held[name][1])
    assert model.constant.dtype == torch.float32


def test_ties_stay_ties_and_values_stay_values() -> None:
    model = Narrow()
    wide = in_float64(model)
    assert wide.tied is wide.linear
    assert wide.linear.weight.dtype == torch.float64
    assert torch.equal(wide.linear.weight.float(), model.linear.weight)


def test_the_result_is_finer_than_the_original() -> None:
    torch_sum = nn.Linear(10_000, 1, bias=False)
    with torch.no_grad():
        torch_sum.weight.fill_(0.1)
    exact = 10_000 * float(torch.tensor(0.1))
    result = run_in_float64(in_float64(torch_sum), (torch.ones(1, 10_000),), {})
    assert result.item() == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("source", ZOO[:2], ids=lambda source: source.key)
def test_models_of_the_zoo_run_in_float64(source: ModelSource) -> None:
    model = source.build()
    args, kwargs = source.inputs(model, 2)
    result = run_in_float64(in_float64(model), args, kwargs)
    assert result.dtype == torch.float64
    assert (result - model(*args, **kwargs)).abs().max() < 1e-4
