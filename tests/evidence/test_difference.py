from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fxopt.evidence.difference import difference, largest_error, same_bits, same_numbers

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@given(st.lists(st.floats(width=32), max_size=8), st.sampled_from(FLOATS))
def test_a_tensor_does_not_differ_from_itself(values: list[float], dtype: torch.dtype) -> None:
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    found = difference(x, x.clone())
    assert (found.identical, found.differing, found.max_ulp) == (True, 0, 0)
    assert (found.max_abs, found.max_rel, found.unlike) == (0, 0, 0)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.booleans())
def test_the_next_number_is_one_ulp_away(value: float, up: bool) -> None:
    x = torch.tensor([value], dtype=torch.float32)
    following = torch.nextafter(x, torch.tensor([math.inf if up else -math.inf]))
    if following.isfinite():
        assert difference(x, following).max_ulp == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_ulp_are_counted_across_zero(dtype: torch.dtype) -> None:
    zero = torch.zeros(1, dtype=dtype)
    bits = torch.int16 if dtype.itemsize == 2 else torch.int32 if dtype.itemsize == 4 else torch.int64
    tiny = torch.ones(1, dtype=bits).view(dtype)
    assert difference(tiny, -tiny).max_ulp == 2
    assert difference(zero, -tiny).max_ulp == 1


def test_far_apart_numbers_do_not_overflow() -> None:
    big = torch.tensor([torch.finfo(torch.float64).max], dtype=torch.float64)
    found = difference(big, -big).max_ulp
    assert found is not None
    assert found >= 2**62


def test_the_two_zeros_are_equal_with_other_bits() -> None:
    found = difference(torch.tensor([0.0]), torch.tensor([-0.0]))
    assert (found.identical, found.differing, found.max_ulp) == (False, 0, 0)


def test_nan_and_infinity_are_like_themselves_and_unlike_numbers() -> None:
    one = torch.tensor([math.nan, math.inf, -math.inf, 1.0, math.nan, math.inf])
    other = torch.tensor([math.nan, math.inf, -math.inf, math.nan, 2.0, -math.inf])
    found = difference(one, other)
    assert (found.elements, found.differing, found.unlike) == (6, 3, 3)
    assert (found.max_abs, found.scale) == (0.0, 1.0)


def test_relative_errors_leave_out_zeros_and_absolute_ones_do_not() -> None:
    found = difference(torch.tensor([0.0, 4.0]), torch.tensor([3.0, 5.0]))
    assert (found.max_abs, found.max_rel) == (3.0, 0.25)


def test_errors_are_not_summed() -> None:
    one = torch.zeros(10_000)
    assert difference(one, one + 1e-3).max_abs == pytest.approx(1e-3)


def test_whole_numbers_and_truths_are_compared_exactly() -> None:
    big = torch.tensor([2**60, 7])
    found = difference(big, big + torch.tensor([1, 0]))
    assert (found.identical, found.differing, found.max_ulp) == (False, 1, None)
    assert difference(torch.tensor([True, False]), torch.tensor([True, True])).differing == 1


def test_complex_and_sparse_tensors_are_compared_by_their_parts() -> None:
    z = torch.tensor([1 + 2j])
    assert difference(z, z + 0.5j).max_abs == 0.5
    sparse = torch.eye(3).to_sparse()
    assert difference(sparse, sparse).identical


def test_empty_tensors_are_identical() -> None:
    found = difference(torch.zeros(0, 3), torch.zeros(0, 3))
    assert (found.identical, found.elements, found.max_abs) == (True, 0, 0.0)


def test_differences_merge_into_the_larger_figures() -> None:
    one = difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    other = difference(torch.tensor([8.0]), torch.tensor([8.0]))
    both = one.merged(other)
    assert (both.identical, both.elements, both.differing) == (False, 3, 1)
    assert (both.max_abs, both.scale) == (0.5, 8.0)


def test_the_largest_error_leaves_out_what_is_not_finite() -> None:
    assert largest_error(torch.tensor([1.0, math.nan]), torch.tensor([1.5, 2.0])) == 0.5


def test_bits_depend_on_dtype_and_shape() -> None:
    x = torch.ones(2)
    assert same_bits(x, x.clone())
    assert not same_bits(x, x.double())
    assert not same_bits(x, x[None])
    assert same_bits(torch.ones(2, 3).t(), torch.ones(3, 2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_numbers_are_the_same_with_the_signs_of_zeros_and_any_nan(dtype: torch.dtype) -> None:
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1.5], dtype=dtype)
    nan = torch.full_like(x, torch.nan)
    assert same_numbers(x, x.clone())
    payload = nan.clone()
    payload.view(torch.uint8)[:: dtype.itemsize] ^= 1
    assert same_numbers(nan, payload)
    assert not same_bits(nan, payload)
    assert not same_numbers(x, nan)
    assert torch.equal(x[:1], -x[:1])
    assert not same_numbers(x[:1], -x[:1])
    assert same_numbers(x[:0], x[:0])
    assert not same_numbers(x, x[None])
    assert same_numbers(torch.arange(3), torch.arange(3))
