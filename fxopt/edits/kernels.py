"""Kernel check: has torch code for a call on these dtypes and dimensions? Fake tensors leave that open.

The call is tried on ones and zeros of the same shapes, where these are small. Weights and inputs stay unread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node
from torch.utils._pytree import tree_map_only

from fxopt.edits.draft import Step

SMALL = 2**20
"""The most numbers that are made to try a call."""

_SIGNS = ("not implemented for", "not supported", "does not support", "unsupported", "Dimension out of range")
"""Marks of an error that is independent of the numbers. Torch's code for fake tensors lacks some checks."""


def missing_kernel(step: Step, value_of: Callable[[Node | Step], Any]) -> str:
    """Return the error of torch if it has no code for `step` on these dtypes, else an empty text.

    A call on more than `SMALL` numbers is left untried.
    """
    given: list[Any] = []

    def stand_in(part: Node | Step) -> Any:
        given.append(value_of(part))
        if numel_of(given) > SMALL:
            raise _TooLargeError
        return tree_map_only(torch.Tensor, _ones, given[-1])

    with unset_fake_temporarily():
        try:
            step.run(stand_in)
        except _TooLargeError:
            return ""
        except Exception as error:  # noqa: BLE001 - an error about ones as indices, say, is no evidence
            line = str(error).strip().partition("\n")[0]
            return line if any(sign in line for sign in _SIGNS) else ""
    return ""


def numel_of(value: Any) -> int:
    """Count the numbers in a result: a tensor, or lists, tuples and dicts of them."""
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, list | tuple | dict):
        return sum(map(numel_of, value.values() if isinstance(value, dict) else value))
    return 0


class _TooLargeError(Exception):
    pass


def _ones(fake: torch.Tensor) -> torch.Tensor:
    make = torch.ones if fake.is_floating_point() or fake.is_complex() else torch.zeros
    return make(tuple(fake.shape), dtype=fake.dtype, device=fake.device)
