from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx import symbolic_trace
from torch.nn.utils.fusion import fuse_conv_bn_eval

from fxopt.evidence import EvidenceError, RunStoppedError, compare_outputs, stopping_unless
from fxopt.evidence.in_words import two_digits
from fxopt.models import model_source

X = torch.linspace(-3, 3, 12).view(3, 4)


class Function(nn.Module):
    """A model that is a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@dataclass
class Result:
    logits: Tensor
    extra: Any = None


def compare(before: Any, after: Any, *inputs: Tensor, **options: Any) -> Any:
    inputs = inputs or (X,)
    return compare_outputs(Function(before), Function(after), [((x,), {}) for x in inputs], **options)


@pytest.fixture(scope="module")
def folded() -> tuple[Any, Any, Any]:
    """The convolutional digits model, its graph with three batch norms folded, and its source."""
    source = model_source("digits_conv_net")
    gm = symbolic_trace(source.build())
    new = copy.deepcopy(gm)
    for path in ("stem", "residual.first", "pre_norm.conv"):
        block: Any = new.get_submodule(path)
        block.conv, block.norm = fuse_conv_bn_eval(block.conv, block.norm), nn.Identity()
    return gm, new, source


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_comparison_that_nobody_waits_for_has_no_verdict(calls: int) -> None:
    wanted = iter([True] * calls)
    with stopping_unless(lambda: next(wanted, False)), pytest.raises(RunStoppedError):
        compare(torch.sin, torch.sin)


def test_a_copy_has_identical_bits(folded: Any) -> None:
    gm, _, source = folded
    report = compare_outputs(gm, copy.deepcopy(gm), [source.inputs(gm, batch) for batch in (1, 5)])
    assert report.verdict == "identical bits over 2 inputs"
    assert (report.identical, report.fits, report.not_covered) == (True, True, ())


def test_a_right_fold_is_explained_by_rounding(folded: Any) -> None:
    gm, new, source = folded
    report = compare_outputs(gm, new, [source.inputs(gm, batch) for batch in (1, 64)])
    assert (report.identical, report.fits) == (False, True)
    assert "error against float64" in report.verdict
    assert "the original's was" in report.verdict
    (output,) = report.outputs
    assert output.shape == "1 x 10, 64 x 10"
    assert output.difference is not None
    assert 0 < output.difference.max_abs < 1e-4
    assert output.error_before is not None
    assert output.error_after is not None
    assert 0 < output.error_after < 10 * output.error_before


def test_a_fold_that_forgets_to_scale_the_bias_is_not(folded: Any) -> None:
    gm, new, source = folded
    wrong = copy.deepcopy(new)
    original_bias, scale = gm.stem.conv.bias, gm.stem.norm.weight / gm.stem.norm.running_var.sqrt()
    with torch.no_grad():
        wrong.stem.conv.bias += original_bias * (1 - scale)
    report = compare_outputs(gm, wrong, [source.inputs(gm)])
    assert report.fits is False
    apart = two_digits(report.outputs[0].difference.max_abs)
    assert report.verdict.startswith(f"differs, within {apart} of outputs up to ")
    assert "rounding explains" in report.verdict


def test_the_verdict_over_several_inputs_says_the_figures_of_the_table() -> None:
    # Of the two inputs, the second has the larger error, and the first lies further beyond what rounding explains.
    report = compare(lambda x: x, lambda x: x + 0.01 + 0.001 * x.abs().max(), X, 8 * X)
    [row] = report.frame.to_dict("records")
    assert report.fits is False
    assert f"within {two_digits(row['max abs error'])} of outputs" in report.verdict
    assert f"against float64 {two_digits(row['new against float64'])}" in report.verdict


def test_a_difference_on_one_input_of_many_is_reported() -> None:
    report = compare(lambda x: x + 1, lambda x: x + 1 + 0.01 * (x.max() > 5), X, 2 * X, X)
    assert report.fits is False
    assert report.verdict.endswith("over 3 inputs")


def test_the_verdict_speaks_of_the_output_that_is_furthest_off() -> None:
    report = compare(
        lambda x: {"same": x * 3, "close": x / 3, "wrong": x},
        lambda x: {"same": x * 3, "close": x * (1 / 3), "wrong": x + 0.1},
    )
    assert [output.fits for output in report.outputs] == [True, True, False]
    assert report.verdict.startswith("wrong: differs")


def test_few_ulp_are_said_in_ulp() -> None:
    report = compare(lambda x: x / 3, lambda x: x * (1 / 3))
    assert report.fits is True
    assert report.verdict.startswith("within 1 ulp; error against float64")


def test_outputs_are_found_in_dataclasses_and_dicts() -> None:
    report = compare(lambda x: Result(x, {"a": [x]}), lambda x: Result(x, {"a": [x + 1]}))
    assert [(output.name, output.fits) for output in report.outputs] == [("logits", True), ("extra.a[0]", False)]


def test_nan_in_the_same_places_is_no_difference() -> None:
    report = compare(torch.sqrt, lambda x: x.sqrt())
    assert report.identical


def test_nan_in_one_only_is_a_difference() -> None:
    report = compare(lambda x: x, lambda x: x.where(x < 3, torch.nan))
    assert report.verdict == "differs: 1 of 12 elements are NaN or infinite in one only, over 1 input"
    assert report.fits is False


def test_other_shapes_dtypes_and_missing_outputs_are_differences() -> None:
    report = compare(
        lambda x: {"shape": x, "dtype": x, "gone": x, "none": x},
        lambda x: {"shape": x[:2], "dtype": x.double(), "none": None},
    )
    assert [output.verdict for output in report.outputs] == [
        "differs: shape 3 x 4 became 2 x 4",
        "differs: dtype float32 became float64",
        "differs: a tensor of 3 x 4 became None",
        "differs: a tensor of 3 x 4 became None",
    ]
    assert report.fits is False


def test_whole_numbers_must_be_equal() -> None:
    report = compare(lambda x: x.argmax(-1), lambda x: x.argmin(-1))
    assert report.verdict == "differs in 3 of 3 elements, over 1 input"
    assert compare(lambda x: x.argmax(-1), lambda x: x.argmax(-1)).identical


def test_numbers_that_are_no_tensors_must_be_equal_too() -> None:
    assert compare(lambda x: (x, x.shape[0]), lambda x: (x, x.shape[0])).fits is True
    report = compare(lambda x: (x, 1), lambda x: (x, 2))
    assert report.fits is False
    assert report.verdict == "[1]: differs: 1 became 2, over 1 input"


def test_what_cannot_be_compared_is_said() -> None:
    report = compare(lambda x: (x, object()), lambda x: (x, object()))
    assert report.not_covered == ("[1]: object cannot be compared",)
    assert report.fits is True


def test_without_a_reference_a_difference_is_not_judged() -> None:
    report = compare(lambda x: x / 3, lambda x: x * (1 / 3), reference=False)
    assert report.fits is None
    assert "not judged" in report.verdict
    assert report.not_covered == ("float64 was not asked for",)


def test_a_model_that_cannot_run_in_float64_is_said() -> None:
    def bit_trick(x: Tensor) -> Tensor:
        return x.view(torch.int32).view(x.shape[0], 4).view(torch.float32) / 3

    report = compare(bit_trick, lambda x: x * (1 / 3))
    assert report.fits is None
    (problem,) = report.not_covered
    assert problem.startswith("no float64 reference: ")


def test_a_new_graph_that_fails_is_an_answer_and_an_original_that_fails_is_an_error() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError("no such size")

    report = compare(lambda x: x, fails, X, X)
    assert report.verdict == "the new graph fails on input 1: ValueError: no such size"
    assert report.fits is False
    with pytest.raises(EvidenceError, match="the original fails on input 1: ValueError: no such size"):
        compare(fails, lambda x: x)


def test_no_inputs_is_an_error() -> None:
    with pytest.raises(EvidenceError, match="no inputs"):
        compare_outputs(Function(torch.neg), Function(torch.neg), [])


def test_without_any_tensor_nothing_is_called_identical() -> None:
    report = compare(lambda x: 3, lambda x: 3)
    assert (report.identical, report.fits, report.verdict) == (False, True, "equal, over 1 input")
    report = compare(lambda x: object(), lambda x: object())
    assert (report.identical, report.fits, report.verdict) == (False, None, "no output that can be compared")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rounding_of_low_precision_is_judged_by_its_own_eps(dtype: torch.dtype) -> None:
    report = compare(lambda x: x / 3, lambda x: x * (1 / 3), X.to(dtype))
    assert report.fits is True


def test_inputs_that_a_model_changes_are_as_they_were_for_the_next() -> None:
    x = X.clone()
    report = compare(lambda x: x.mul_(2), lambda x: x * 2, x)
    assert report.identical
    assert torch.equal(x, X)


def test_the_frame_has_a_row_for_each_output(folded: Any) -> None:
    gm, new, source = folded
    frame = compare_outputs(gm, new, [source.inputs(gm)]).frame
    assert list(frame["output"]) == ["output"]
    assert frame["max abs error"][0] > 0
    assert not frame["identical"][0]
