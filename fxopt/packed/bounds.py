"""Bounds of tensors: proof, in one fast pass, that products of them have neither NaN nor infinity."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_MOST = 1e36
"""Of a sum of squares."""
LARGEST = 1e18
"""The largest number, without its sign, in a tensor that is bounded."""


def is_bounded(x: Tensor) -> bool:
    """Check that the sum of squares of `x` is at most 1e36, so that none of its numbers is NaN or infinite.

    By the inequality of Cauchy and Schwarz, every sum of products of numbers of two such tensors, and every part of it,
    is at most 1e36 as well: it stays finite, also with a third one added, for float32 ends at 3.4e38. Tensors that lie
    in memory neither image by image nor channel by channel are not looked at: the answer is False.

    >>> is_bounded(torch.ones(2, 3)), is_bounded(torch.tensor([1.0, math.nan])), is_bounded(torch.tensor([1e30]))
    (True, False, False)
    """
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    if not (last or x.is_contiguous()):
        return False
    numbers = x.detach().as_strided((x.numel(),), (1,))
    total = float(torch.dot(numbers, numbers))
    return math.isfinite(total) and total <= _MOST
