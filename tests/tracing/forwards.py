"""Answers and refusals of models, for the tests of forwards."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.tracing import CaptureError, CaptureReport, capture
from fxopt.tracing.structure import tensors_of
from tests.tracing.zoo import vector


@torch.no_grad()
def answer(call: nn.Module, *args: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [part.to_dense() if part.is_sparse else part for part in tensors_of(copy.deepcopy(call)(*args))]


def assert_right(model: nn.Module, *sizes: int, **options: Any) -> CaptureReport:
    """The graph answers as the model does at the example, which has a batch of 4, and at these batches."""
    gm = capture(model, (vector(4),), **options)
    for size in (4, *sizes):
        for expected, replayed in zip(answer(model, vector(size)), answer(gm, vector(size)), strict=True):
            torch.testing.assert_close(replayed, expected)
    return gm.meta["fxopt"]


def refusal(model: nn.Module, **options: Any) -> str:
    with pytest.raises(CaptureError) as caught:
        capture(model, (vector(4),), **options)
    return str(caught.value)


class LoopsInGenerator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        for _ in range(3):
            x = self.layer(x)
            yield x
