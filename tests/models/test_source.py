from __future__ import annotations

from typing import Any

import pytest

from fxopt.errors import ModelError
from fxopt.models import SizeRange, Sizes

TEXT = Sizes(batch=SizeRange(1, most=8), sequence=SizeRange(32, most=128))
IMAGES = Sizes(batch=SizeRange(4, most=8))


def test_sizes_that_are_not_given_are_the_defaults() -> None:
    assert TEXT.checked("text", None, None) == (1, 32)
    assert IMAGES.checked("images", None, None) == (4, None)


def test_both_ends_of_a_range_are_allowed() -> None:
    assert TEXT.checked("text", 1, 128) == (1, 128)
    assert TEXT.checked("text", 8, 1) == (8, 1)


@pytest.mark.parametrize("batch", [0, -1, 9, 2.0, True, "2"])
def test_a_batch_out_of_range_is_refused_with_the_range(batch: Any) -> None:
    with pytest.raises(ModelError, match=r"text: batch is .*; give a whole number from 1 to 8"):
        TEXT.checked("text", batch, None)


@pytest.mark.parametrize("sequence", [0, -3, 129])
def test_a_sequence_out_of_range_is_refused_with_the_range(sequence: int) -> None:
    with pytest.raises(ModelError, match=rf"text: sequence is {sequence}; give a whole number from 1 to 128"):
        TEXT.checked("text", 1, sequence)


def test_a_sequence_for_images_is_refused() -> None:
    with pytest.raises(ModelError, match="no sequence length"):
        IMAGES.checked("images", 1, 16)
