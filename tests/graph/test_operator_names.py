"""Both names of an operator, called on real tensors: the same numbers, in the same memory."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fxopt.graph.operator_names import PYTHON, PYTHON_IN_PLACE, SECOND_NAMES, canonical

_ONE = {"neg", "abs", "bitwise_not", "acos", "acosh", "asin", "asinh", "atan", "atanh", "trunc",
        "round", "sigmoid", "expm1", "exp2", "log1p", "erf", "erfc", "erfinv", "logit"}  # fmt: skip
_OTHER: dict[str, tuple[Any, ...]] = {
    "clamp": (-1.0, 1.0),
    "transpose": (0, 1),
    "movedim": (0, 1),
}


def operands(name: str) -> tuple[Any, ...]:
    """Arguments for the operator, the first with its rows apart."""
    whole = torch.linspace(-2, 2, 32).reshape(4, 8)[:, :4]
    bits = name.startswith("bitwise")
    first = (whole * 4).to(torch.int64) if bits else whole.abs() + 0.5 if name == "pow" else whole
    if name == "cat":
        return ([first, first * 2],)
    if name in _ONE:
        return (first,)
    return (first, *_OTHER.get(name, (first.flip(0) + (0 if bits else 0.3),)))


def assert_same(a: torch.Tensor, b: torch.Tensor, first: Any) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, check_stride=True)
    if isinstance(first, torch.Tensor):
        assert len({x.untyped_storage().data_ptr() == first.untyped_storage().data_ptr() for x in (a, b)}) == 1


@pytest.mark.parametrize(("function", "name"), PYTHON.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_an_operator_of_python_is_that_of_aten(function: Callable[..., Any], name: str) -> None:
    given = operands(name)
    assert_same(function(*given), getattr(torch.ops.aten, name)(*given), given[0])
    assert canonical(function.__name__) == name


@pytest.mark.parametrize(("function", "name"), PYTHON_IN_PLACE.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_an_operator_of_python_with_equals_writes_as_that_of_aten(function: Callable[..., Any], name: str) -> None:
    first, other = operands(name.removesuffix("_"))
    one, two = first.clone(), first.clone()
    assert function(one, other) is one
    getattr(torch.ops.aten, name)(two, other)
    assert_same(one, two, None)
    assert canonical(function.__name__) == name


@pytest.mark.parametrize(("second", "name"), SECOND_NAMES.items())
def test_a_second_name_is_the_same_operator(second: str, name: str) -> None:
    given = operands(name)
    a, b = (getattr(torch.ops.aten, one)(*given) for one in (second, name))
    assert_same(a, b, given[0])
    assert canonical(second) == name == canonical(name)


def test_names_of_operators_that_differ_stay_apart() -> None:
    assert {canonical(name) for name in ("sub", "rsub", "floor_divide", "div", "reshape", "view")} == {
        "sub", "rsub", "floor_divide", "div", "reshape", "view",
    }  # fmt: skip
