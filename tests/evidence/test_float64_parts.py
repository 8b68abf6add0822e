"""Parts of a model that take no float64: scripts, quantized layers, operators of one's own, code that asks."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt.evidence import compare_outputs
from fxopt.evidence.float64 import in_float64, run_in_float64
from fxopt.testing import LawBroken, check_pass

X = torch.randn(3, 4)


@torch.library.custom_op("floats::only", mutates_args=())
def float_only(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        raise RuntimeError(f"expected float, not {x.dtype}")
    return x * 2


float_only.register_fake(torch.empty_like)


class Asserts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.element_size() != 4:
            raise ValueError("floats of 4 bytes only")
        return x * 2


class Operator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.floats.only(x)


@fxopt.rewrite
def wrong(x: Tensor, c: float | int) -> Tensor:  # type: ignore[misc]
    """Replace `x / c` with about `x / c`."""
    yield x / c
    return x * (1.001 / c)


class Around(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.before, self.inner = nn.Linear(4, 4), inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.before(x)) / 3


def of(name: str) -> nn.Module:
    layers = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "script":
            return torch.jit.script(layers)
        if name == "traced":
            return torch.jit.trace(layers, X)
        return torch.ao.quantization.quantize_dynamic(layers, {nn.Linear})


PARTS = {"script": "inner", "traced": "inner", "quantized": "quantized.linear_dynamic", "operator": "floats.only"}


@pytest.mark.parametrize("name", PARTS)
def test_such_a_part_computes_as_ever_and_the_rest_in_float64(name: str) -> None:
    model = Around(Operator() if name == "operator" else of(name)).eval()
    narrow: dict[str, None] = {}
    wide = in_float64(model)
    result = run_in_float64(wide, (X,), {}, narrow)
    assert result.dtype == torch.float64
    torch.testing.assert_close(result.float(), model(X))
    assert list(narrow) == [PARTS[name]]
    part = wide.before(X.double()).float()
    if name != "quantized":  # whose activation is none of the part, and runs in float64
        torch.testing.assert_close(result, model.inner(part).double() / 3, rtol=0, atol=0)

    report = check_pass(fxopt.ChangeTrueDivToMulByInverse(), [(model, (X,))])
    assert report.sites == 1
    assert any(f"{PARTS[name]} runs in its own precision" in line for line in report.skipped)
    compared = compare_outputs(model, model, [((X,), {})])
    assert compared.not_covered == (f"{PARTS[name]}: in its own precision in the float64 reference, too",)
    assert compared.fits


def test_a_model_without_any_run_in_float64_is_compared_with_its_outputs_before() -> None:
    gm = fxopt.capture(Around(Asserts()).eval(), (X,), leaf=Asserts)
    report = check_pass(fxopt.ChangeTrueDivToMulByInverse(), [(gm, (X,))])
    assert report.sites == 1
    assert any("no float64 reference (ValueError: floats of 4 bytes only)" in line for line in report.skipped)
    with pytest.raises(LawBroken, match="off the exact value"):
        check_pass(wrong, [(gm, (X,))])


def test_an_operator_that_fails_in_every_dtype_fails_with_its_own_words() -> None:
    class Fails(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.floats.only(x.to(torch.int32))

    with pytest.raises(RuntimeError, match=r"expected float, not torch\.int32"):
        run_in_float64(in_float64(Fails()), (X,), {})
