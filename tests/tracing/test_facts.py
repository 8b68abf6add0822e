"""A forward that decides by a fact of its input is guarded; one that asks without effect takes all inputs."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxopt.tracing import CaptureError, InputError, capture

X = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
TRANSPOSED = X.transpose(1, 2).contiguous().transpose(1, 2)
IMAGES = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
LEAF = X.clone().requires_grad_()
COMPUTED = LEAF * 1
PARAMETER = nn.Parameter(X.clone(), requires_grad=False)
LAST = IMAGES.contiguous(memory_format=torch.channels_last)


def in_inference(x: Tensor) -> Tensor:
    with torch.inference_mode():
        return x.clone()


class Decides(nn.Module):
    """Doubles or triples its input, by the answer to a question."""

    def __init__(self, question: Callable[[Tensor], Any], taped: bool = True, otherwise: float = 3.0) -> None:
        super().__init__()
        self.question, self.taped, self.otherwise = question, taped, otherwise

    def forward(self, x: Tensor) -> Tensor:
        if self.taped:
            len(x)  # which torch.fx itself refuses
        return x * 2.0 if self.question(x) else x * self.otherwise


QUESTIONS: dict[str, tuple[Callable[[Tensor], Any], Tensor, Tensor, str]] = {
    "is_contiguous": (lambda x: x.is_contiguous(), X, TRANSPOSED, r"x is contiguous, here .* x\.contiguous\(\)"),
    "stride": (lambda x: x.stride(-1) == 1, X, TRANSPOSED, "x is contiguous"),
    "dim_order": (lambda x: x.dim_order() == (0, 1, 2), X, TRANSPOSED, "x is contiguous"),
    "a derived tensor": (lambda x: x.relu().is_contiguous(), X, TRANSPOSED, "x is contiguous"),
    "a view": (lambda x: x.transpose(1, 2).is_contiguous(), X, TRANSPOSED, "x is contiguous"),
    "channels_last": (
        lambda x: x.is_contiguous(memory_format=torch.channels_last), IMAGES, LAST, "here it is in the format ch"
    ),
    "storage_offset": (lambda x: x.storage_offset(), X, torch.cat([X, X])[2:], r"storage of its own, .*x\.clone\(\)"),
    "_is_view": (lambda x: x._is_view(), X, X[:], "here it is a part of another tensor"),
    "requires_grad": (lambda x: x.requires_grad, X, LEAF, r"x requires no gradient.*x\.detach\(\)"),
    "requires_grad of a sum": (lambda x: (x + 1).requires_grad, X, LEAF, "x requires no gradient"),
    "is_leaf": (lambda x: x.is_leaf, X, COMPUTED, "comes from operations that a gradient passes"),
    "grad_fn": (lambda x: x.grad_fn is None, X, COMPUTED, "a gradient or requires no gradient"),
    "a parameter": (lambda x: isinstance(x, nn.Parameter), X, PARAMETER, "here it is a parameter"),
    "dtype": (lambda x: x.dtype == torch.float32, X, X.double(), r"x is torch\.float32.*give x\.to\(torch\.float32\)"),
    "dtype of a sum": (lambda x: (x + 1).dtype == torch.float32, X, X.bfloat16(), "here it is torch.bfloat16"),
    "element_size": (lambda x: x.element_size() == 4, X, X.half(), "here it is torch.float16"),
    "dtype of a mask": (lambda x: x.dtype == torch.bool, X > 0, (X > 0).long(), "x is torch.bool"),
    "layout": (lambda x: x.layout == torch.strided, X, X.to_sparse(), r"torch\.strided, .*x\.to_dense\(\)"),
    "is_conj": (lambda x: x.is_conj(), X * 1j, (X * 1j).conj(), r"x\.resolve_conj\(\)"),
    "is_inference": (lambda x: x.is_inference(), X, in_inference(X), "under inference_mode"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_input_of_which_the_fact_is_another_is_refused(name: str) -> None:
    question, example, other, message = QUESTIONS[name]
    model = Decides(question).eval()
    captured = capture(model, (example,))
    assert any("elsewhere the model goes another way" in note for note in captured.meta["fxopt"].notes)
    for gm in (captured, copy.deepcopy(captured)):
        torch.testing.assert_close(gm(example), model(example))
        with pytest.raises(InputError, match=message):
            gm(other)
        with pytest.raises(InputError, match="goes another way there"):
            gm(other)
    checks = captured.meta["fxopt"].checks
    assert pickle.loads(pickle.dumps(checks)) == checks


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_without_effect_refuses_nothing(name: str) -> None:
    question, example, other, _ = QUESTIONS[name]
    model = Decides(question, otherwise=2.0).eval()
    gm = capture(model, (example,))
    assert gm.meta["fxopt"].notes == ()
    torch.testing.assert_close(gm(other), model(other))


@pytest.mark.parametrize("other", [X.half(), X.bfloat16()])
def test_a_comparison_of_identity_is_seen_by_torch_fx_too(other: Tensor) -> None:
    gm = capture(Decides(lambda x: x.dtype is other.dtype, taped=False).eval(), (X,))
    assert gm.meta["fxopt"].rung == "plain"
    with pytest.raises(InputError, match=r"x is torch\.\w+ or torch|x is torch"):
        gm(other)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def double_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


MODES: dict[str, tuple[Callable[[Tensor], Any], Callable[[], Any]]] = {
    "grad mode is off": (lambda x: torch.is_grad_enabled(), torch.enable_grad),
    "inference mode is off": (lambda x: torch.is_inference_mode_enabled(), torch.inference_mode),
    "autocast is off": (lambda x: torch.is_autocast_enabled("cpu"), lambda: torch.autocast("cpu", torch.bfloat16)),
    "deterministic algorithms is off": (lambda x: torch.are_deterministic_algorithms_enabled(), deterministic),
    "the default dtype is torch.float32": (lambda x: torch.get_default_dtype() == torch.float64, double_by_default),
}


@pytest.mark.parametrize("taped", [False, True], ids=["torch.fx", "tape"])
@pytest.mark.parametrize("mode", MODES)
@torch.no_grad()
def test_a_mode_by_which_the_model_decides_is_guarded(mode: str, taped: bool) -> None:
    question, entered = MODES[mode]
    model = Decides(question, taped).eval()
    gm = capture(model, (X,))
    torch.testing.assert_close(gm(X), model(X))
    with entered(), pytest.raises(InputError, match=rf"captured where {mode}, here .*asks at test_facts.py"):
        gm(X)


@torch.no_grad()
def test_a_mode_without_effect_refuses_nothing() -> None:
    for mode in ("grad mode is off", "inference mode is off", "autocast is off"):
        question, entered = MODES[mode]
        gm = capture(Decides(question, otherwise=2.0).eval(), (X,))
        with entered():
            gm(X)


def test_a_capture_with_gradients_of_a_model_that_decides_by_grad_mode_is_told_the_remedy() -> None:
    with pytest.raises(CaptureError, match=r"agrees where grad mode is on.* capture under torch.no_grad\(\)"):
        capture(Decides(MODES["grad mode is off"][0]).eval(), (X,))


class Pair(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        len(x)
        return x + y if y.is_contiguous() else x - y


def test_the_input_that_matters_is_named_and_the_other_is_free() -> None:
    model = Pair().eval()
    gm = capture(model, (X, X))
    torch.testing.assert_close(gm(TRANSPOSED, X), model(TRANSPOSED, X))
    with pytest.raises(
        InputError, match=r"y is contiguous, here it is not contiguous; the model asks at test_facts\.py"
    ):
        gm(X, TRANSPOSED)


class Dense(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        dense = x.to_dense()
        len(dense)
        return dense * 2.0 if dense.is_contiguous() else dense * 3.0


def test_an_input_of_which_no_other_strides_are_to_be_had_is_captured() -> None:
    sparse = X.to_sparse()
    gm = capture(Dense().eval(), (sparse,))
    torch.testing.assert_close(gm(sparse), X * 2)
