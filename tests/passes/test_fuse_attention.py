"""Attention written out becomes one call; one that computes something else, or that is read inside, stays."""

import math
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fxopt import FuseAttention
from fxopt.core import shared_copy
from fxopt.testing import check_pass
from tests.passes.asserts import (
    Net,
    assert_as_exact_as_before,
    assert_close_and_reversible,
    assert_left_alone,
    captured,
)

X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
Attend = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

PATTERNS = (
    [("attention", 0, 0), ("pointwise", 0, 0)],
    [("attention", 0, 0), ("write", 0, 0)],
    [("linear", 0, 0), ("attention", 0, 5), ("linear", 0, 0)],
)


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.view(2, 5, 2, 4).transpose(1, 2)


def around(attend: Attend) -> Callable[[Any, torch.Tensor], Any]:
    """The block around `attend`."""

    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        mixed = attend(m, heads(m.q(x)), heads(m.k(x)), heads(m.v(x)))
        y: torch.Tensor = m.out(mixed.transpose(1, 2).reshape(2, 5, 8))
        return y

    return forward


def layers() -> dict[str, nn.Module]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {**{name: nn.Linear(8, 8) for name in ("q", "k", "v", "out")}, "drop": nn.Dropout(0.5)}


MASK = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, torch.finfo(torch.float32).min)

FUSED: dict[str, Attend] = {
    "scaled": lambda m, q, k, v: (q @ k.transpose(-2, -1) / 2).softmax(-1) @ v,
    "as BERT": lambda m, q, k, v: torch.matmul(
        m.drop(F.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5 + MASK[None, None], dim=-1)), v
    ),
    "as Llama": lambda m, q, k, v: torch.matmul(
        F.dropout(
            F.softmax(torch.matmul(q, k.transpose(2, 3)) * 0.5 + MASK, dim=-1, dtype=torch.float32).to(q.dtype),
            training=False,
        ),
        v,
    ),
    "unscaled": lambda m, q, k, v: torch.softmax(torch.matmul(q, k.transpose(3, 2)), dim=3) @ v,
    "the mask first": lambda m, q, k, v: (MASK + 0.25 * (q @ k.transpose(-1, -2))).softmax(-1) @ v,
}

LEFT: dict[str, tuple[Attend, str]] = {
    "a permuted key": (
        lambda m, q, k, v: (q @ k.transpose(1, 2).permute(0, 2, 3, 1) / 2).softmax(-1) @ v,
        "not the transpose of a key | write the key as k.transpose(-2, -1)",
    ),
    "dropout": (
        lambda m, q, k, v: F.dropout((q @ k.transpose(-2, -1)).softmax(-1), training=True) @ v,
        "sets weights to zero at random | model.eval()",
    ),
    "another dimension": (lambda m, q, k, v: (q @ k.transpose(-2, -1)).softmax(-2) @ v, "is over dimension -2"),
    "two sums": (lambda m, q, k, v: (q @ k.transpose(-2, -1) + MASK + 1.0).softmax(-1) @ v, "adds a number"),
    "a negative scale": (lambda m, q, k, v: (q @ k.transpose(-2, -1) * -1.0).softmax(-1) @ v, "scales by -1.0"),
    "a scale that is computed": (
        lambda m, q, k, v: (q @ k.transpose(-2, -1) * q.mean()).softmax(-1) @ v,
        "scales by a tensor",
    ),
    "a boolean mask": (
        lambda m, q, k, v: (q @ k.transpose(-2, -1) + (MASK < 0)).softmax(-1) @ v,
        "is torch.bool, and transpose torch.float32",
    ),
    "another softmax": (lambda m, q, k, v: (q @ k.transpose(-2, -1)).tanh().softmax(-1) @ v, "is of tanh"),
    "scores that are read": (
        lambda m, q, k, v: (s := q @ k.transpose(-2, -1)).softmax(-1) @ v + s.sum(),
        "matmul, which the fused call would leave out, is also read by sum_1",
    ),
    "a write to the query": (
        lambda m, q, k, v: operator.getitem((q @ k.transpose(-2, -1), q.add_(1)), 0).softmax(-1) @ v,
        "add_ may change transpose in place",
    ),
    "fewer heads": (
        lambda m, q, k, v: (q @ k[:, :1].transpose(-2, -1)).softmax(-1) @ v,
        "takes one batch and number of heads",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attend", FUSED.values(), ids=FUSED)
def test_every_way_of_writing_it_becomes_one_call(attend: Attend) -> None:
    gm = captured(around(attend), X, **layers())
    assert_close_and_reversible(FuseAttention(), gm, X)
    FuseAttention()(gm)
    targets = [node.target for node in gm.graph.nodes]
    assert targets.count(F.scaled_dot_product_attention) == 1
    assert not {torch.matmul, operator.matmul, F.softmax, "softmax"} & set(targets)


@pytest.mark.parametrize(("attend", "reason"), LEFT.values(), ids=LEFT)
def test_what_only_looks_like_it_stays_with_its_reason(attend: Attend, reason: str) -> None:
    assert_left_alone(FuseAttention(), captured(around(attend), X, **layers()), *reason.split(" | "))


def test_the_laws_hold() -> None:
    report = check_pass(FuseAttention(), [(Net(around(FUSED["as BERT"]), **layers()).eval(), (X,))])
    assert report.sites == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_it_is_as_exact_in_every_dtype(dtype: torch.dtype) -> None:
    assert_as_exact_as_before(FuseAttention(), around(FUSED["scaled"]), X.to(dtype), **layers())


def test_a_view_of_the_result_is_given_the_memory_that_it_asks_for() -> None:
    forward = around(lambda m, q, k, v: FUSED["scaled"](m, q, k, v).view(2, 2, 20).view(2, 2, 5, 4))
    gm = captured(forward, X, **layers())
    assert_close_and_reversible(FuseAttention(), gm, X)


def test_the_explanation_has_the_scale_and_the_scores() -> None:
    gm = captured(around(FUSED["as BERT"]), X, **layers())
    (match,) = FuseAttention().scan(gm).matches
    said = FuseAttention().explain(match)
    assert "* 0.5 + " in said
    assert "2 x 5 x 5" in said
    assert math.isclose(match.scale, 0.5)
    assert "minus infinity for a whole row, that row is NaN before and 0 after" in said
    (unmasked,) = FuseAttention().scan(captured(around(FUSED["scaled"]), X, **layers())).matches
    assert "minus infinity" not in FuseAttention().explain(unmasked)


def test_an_exported_program_calls_the_operator() -> None:
    model = Net(around(FUSED["scaled"]), **layers()).eval()
    gm = torch.export.export(model, (X,)).module()
    before = gm(X)
    fused = FuseAttention()(shared_copy(gm))  # type: ignore[arg-type]
    targets = [node.target for node in fused.graph.nodes]
    assert torch.ops.aten.scaled_dot_product_attention.default in targets
    torch.testing.assert_close(fused(X), before)
