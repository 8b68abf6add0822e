"""Numerics over variants of the inputs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxopt.evidence import RunStoppedError, numerics
from fxopt.evidence.float64 import in_float64
from fxopt.evidence.sweep import sweep
from fxopt.evidence.variants import left_as_they_are, variants

X = torch.linspace(-3, 3, 12).view(3, 4)


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def swept(before: Any, after: Any, *args: Tensor) -> Any:
    return sweep(Function(before), Function(after), variants(args or (X,)))


def test_an_input_of_floats_has_the_numbers_that_are_special_to_them() -> None:
    found = {one.name: one.inputs[0][0] for one in variants((X,), seeds=2)}
    assert torch.equal(found["the example"], X)
    assert not torch.equal(found["draw 1"], found["draw 2"])
    assert found["draw 1"].abs().max() <= 3
    assert not found["zeros"].any()
    assert found["an infinity"].isinf().sum() == found["a NaN"].isnan().sum() == 1
    assert torch.equal(X, torch.linspace(-3, 3, 12).view(3, 4))


def test_ids_are_drawn_from_their_range_and_masks_stay() -> None:
    kwargs = {"ids": torch.tensor([[3, 9, 5, 7]]), "mask": torch.ones(1, 4, dtype=torch.long)}
    first, *draws = variants((), kwargs)
    assert [one.name for one in draws] == ["draw 1", "draw 2", "draw 3"]
    assert all(3 <= int(one.inputs[1]["ids"].min()) <= int(one.inputs[1]["ids"].max()) <= 9 for one in draws)
    assert all(torch.equal(one.inputs[1]["mask"], kwargs["mask"]) for one in draws)
    assert torch.equal(first.inputs[1]["ids"], kwargs["ids"])
    assert left_as_they_are((), kwargs) == ("mask",)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_denormal_numbers_are_denormal_in_each_type(dtype: torch.dtype) -> None:
    found = {one.name: one.inputs[0][0] for one in variants((X.to(dtype),))}
    assert found["denormal"].dtype is dtype
    assert ((found["denormal"] > 0) & (found["denormal"] < torch.finfo(dtype).tiny)).all()


@pytest.mark.parametrize("low", [-math.inf, torch.finfo(torch.float32).min])
def test_a_mask_that_is_added_stays_and_numbers_beside_an_infinity_are_drawn(low: float) -> None:
    mask = torch.tensor([[0.0, low], [0.0, 0.0]])
    assert all(torch.equal(one.inputs[0][1], mask) for one in variants((X, mask)))
    assert left_as_they_are((X, mask)) == ("[1]",)
    odd = X.clone()
    odd[0, 0] = low
    assert all(one.inputs[0][0].isfinite().any() for one in variants((odd,)) if one.name.startswith("draw"))


def test_the_original_is_copied_once_for_its_float64_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(model: nn.Module) -> nn.Module:
        made.append(model)
        return in_float64(model)

    monkeypatch.setattr(numerics, "in_float64", counted)
    assert swept(lambda x: x / 3, lambda x: x * (1 / 3)).fits
    assert len(made) == 1


def test_a_variant_without_a_reference_leaves_the_next_ones_theirs() -> None:
    def choosy(x: Tensor) -> Tensor:
        if x.dtype is torch.float64 and not x.any():
            raise ValueError("no zeros in float64, please")
        return x / 3

    found = dict(swept(choosy, lambda x: x * (1 / 3)).reports)
    assert any("no zeros in float64" in told for told in found["zeros"].not_covered)
    assert found["large"].fits
    assert not found["large"].not_covered


def test_a_rewrite_that_holds_for_ordinary_numbers_alone_is_found_out() -> None:
    for after, name in (
        (lambda x: torch.where(x.isnan(), 0.0, x), "a NaN"),
        (lambda x: x.clamp(-1e30, 1e30), "an infinity"),
        (lambda x: x.clamp(-100, 100), "large"),
    ):
        found = swept(lambda x: x + 0, after)
        assert found.fits is False
        assert f"{name}: " in found.verdict
        assert next(one for one, report in found.reports if report.fits is False) == name
        assert len(found.frame) == 10


def test_identical_bits_and_rounding_are_told_apart() -> None:
    assert swept(torch.sin, torch.sin).verdict == "identical bits for all of 10 variants of the inputs"
    found = swept(lambda x: x / 3, lambda x: x * (1 / 3))
    assert found.fits
    assert found.verdict == "explained by rounding for all of 10 variants of the inputs"


def test_a_variant_that_the_original_refuses_is_told_as_not_covered() -> None:
    def choosy(x: Tensor) -> Tensor:
        if x.isnan().any():
            raise ValueError("no NaN, please")
        return x + 1

    found = swept(choosy, lambda x: x + 1)
    assert len(found.reports) == 9
    assert "a NaN: the original fails on input 1: ValueError: no NaN, please" in found.not_covered


def test_a_new_graph_that_fails_for_one_variant_fails_there() -> None:
    def choosy(x: Tensor) -> Tensor:
        if not x.any():
            raise ValueError("no zeros, please")
        return x + 1

    found = swept(lambda x: x + 1, choosy)
    assert found.fits is False
    assert "zeros: the new graph fails on input 1" in found.verdict
    assert "no zeros, please" in found.frame.loc[found.frame["inputs"] == "zeros", "verdict"].item()


def test_it_can_be_stopped() -> None:
    with pytest.raises(RunStoppedError):
        sweep(Function(torch.sin), Function(torch.sin), variants((X,)), on_progress=lambda share: share < 0.3)
