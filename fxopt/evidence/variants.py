"""Inputs for numerics beyond the example: zeros, other draws, large, tiny and denormal numbers, infinity and NaN.

An input of floating-point numbers gets all of them. One of integers, such as token ids, gets other draws from the range
that the example has, since numbers outside of it may index nothing. Booleans, and integers of which the example has two
or fewer, such as masks, stay as they are; so do masks that are added, which have the lowest number or -inf, and zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fxopt.evidence.numerics import Inputs
from fxopt.evidence.running import copied, leaves_of

_FEW = 2


@dataclass(frozen=True, eq=False)
class Variant:
    """Inputs, and their name in words."""

    name: str
    inputs: Inputs


def variants(args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, seeds: int = 3) -> tuple[Variant, ...]:
    """Return the example, and others of the same shapes.

    Args:
        seeds: the number of random draws.

    >>> [one.name for one in variants((torch.rand(2, 3),), seeds=2)]
    ['the example', 'draw 1', 'draw 2', 'zeros', 'large', 'tiny', 'denormal', 'an infinity', 'a NaN']
    >>> [one.name for one in variants((torch.arange(8),), seeds=2)]
    ['the example', 'draw 1', 'draw 2']
    """
    example = args, dict(kwargs or {})
    tensors = [leaf for _, leaf in leaves_of(example) if isinstance(leaf, Tensor)]
    found = [Variant("the example", example)]
    if any(map(_is_real, tensors)) or any(map(_is_drawn, tensors)):
        for seed in range(1, seeds + 1):
            draw = functools.partial(_drawn, generator=torch.Generator().manual_seed(seed))
            found.append(_variant(f"draw {seed}", example, draw))
    if any(map(_is_real, tensors)):
        changes: dict[str, Callable[[Tensor], Tensor]] = {
            "zeros": torch.zeros_like,
            "large": lambda x: x * 1e3,
            "tiny": lambda x: x * 1e-6,
            "denormal": lambda x: torch.full_like(x, denormal(x.dtype)),
            "an infinity": lambda x: _with_one(x, math.inf),
            "a NaN": lambda x: _with_one(x, math.nan),
        }
        found += [_variant(name, example, _of_floats(change)) for name, change in changes.items()]
    return tuple(found)


def denormal(dtype: torch.dtype) -> float:
    """Return a number of this type below the smallest normal one.

    >>> [denormal(one) < torch.finfo(one).tiny for one in (torch.float16, torch.float64)]
    [True, True]
    """
    return torch.finfo(dtype).tiny / 4


def left_as_they_are(args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> tuple[str, ...]:
    """Return the tensors that are the same in every variant, by their paths."""
    named = [*leaves_of(args), *leaves_of(dict(kwargs or {}))]
    tensors = [(path, leaf) for path, leaf in named if isinstance(leaf, Tensor)]
    return tuple(path for path, leaf in tensors if not (_is_real(leaf) or _is_drawn(leaf)))


def _is_real(x: Tensor) -> bool:
    return x.dtype.is_floating_point and x.numel() > 0 and not _is_added_mask(x)


def _is_added_mask(x: Tensor) -> bool:
    """Check that `x` has the lowest number of its type or -inf, and zeros or nothing beside them."""
    lowest = x <= torch.finfo(x.dtype).min
    return bool(lowest.any()) and bool((lowest | (x == 0)).all())


def _is_drawn(x: Tensor) -> bool:
    """Check that `x` has integers of more than two kinds: those of fewer are masks, types or positions."""
    is_integer = not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype is torch.bool)
    return is_integer and len(x.unique()) > _FEW


def _variant(name: str, example: Inputs, change: Callable[[Tensor], Tensor]) -> Variant:
    args, kwargs = copied(example, change)
    return Variant(name, (args, kwargs))


def _of_floats(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda x: change(x.clone()) if _is_real(x) else x.clone()


def _drawn(x: Tensor, generator: torch.Generator) -> Tensor:
    """Return other numbers, of the same mean and spread, or from the same range of integers."""
    if _is_real(x):
        wide = x.double().flatten()
        wide = wide[wide.isfinite()]
        if not wide.numel():
            return x.clone()
        spread = float(wide.std()) if wide.numel() > 1 else 1.0
        new = torch.randn(x.shape, generator=generator) * (spread or 1.0) + float(wide.mean())
        return new.clamp(float(wide.min()), float(wide.max())).to(x.dtype).to(x.device) if spread else new.to(x)
    if _is_drawn(x):
        return torch.randint(int(x.min()), int(x.max()) + 1, x.shape, generator=generator).to(x)
    return x.clone()


def _with_one(x: Tensor, value: float) -> Tensor:
    """Return `x` with one number replaced, at about a third of the way."""
    new = x.clone(memory_format=torch.contiguous_format)
    new.view(-1)[x.numel() // 3] = value
    return new
