"""Calls through which the data of a tensor reaches Python: a number, a decision, the size of a result."""

from __future__ import annotations

from typing import Any

import torch

from fxopt.tracing.lines import calling_line
from fxopt.tracing.report import BakedValue

_READS = frozenset(
    {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__complex__", "numpy", "equal",
     "allclose", "is_nonzero", "__contains__", "__array__", "data_ptr"}
)  # fmt: skip
_SIZED_BY_SHAPES = frozenset({"linalg_lstsq", "_ctc_loss"})
"""Operations whose sizes follow from shapes, though torch marks them as decided by data."""


def read_by(name: str, result: Any) -> BakedValue | None:
    """Return the value that a call of this name reads from a tensor; None if it reads none."""
    return BakedValue(name, repr(result)[:60], calling_line()) if name in _READS else None


def size_given_by(function: Any, args: tuple[Any, ...], result: Any) -> BakedValue | None:
    """Return the size of a result of `nonzero`, `repeat_interleave`, `x[mask]`: data decides it.

    It is an ordinary int for the model, which may cut another tensor to it: that is then a constant.
    """
    if torch.Tag.dynamic_output_shape not in function.tags or not isinstance(result, torch.Tensor):
        return None
    name = function.overloadpacket.__name__
    if name in _SIZED_BY_SHAPES or (name == "index" and not any(map(_selects, args[1]))):
        return None
    return BakedValue(name, f"a result of size {tuple(result.shape)}", calling_line())


def _selects(index: torch.Tensor | None) -> bool:
    """Return whether the index is a mask, which selects as many elements as it has ones."""
    return index is not None and index.dtype in (torch.bool, torch.uint8)
