"""Comparison of values and containers, and restoration of the contents of a container."""

from __future__ import annotations

from operator import eq, is_
from typing import Any

import torch

from fxopt.recording.node_record import Ref

CONTAINERS = (dict, list, set)


def same_value(a: Any, b: Any) -> bool:
    """Return whether two values are one for all purposes: 1 is not True, 0.0 is not -0.0; objects equal themselves."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same_value, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_value(a[key], b[key]) for key in a)
    if isinstance(a, slice):
        return same_value((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    plain = (str, int, float, complex, bool, bytes, Ref, torch.dtype, torch.device, torch.memory_format)
    return isinstance(a, plain) and repr(a) == repr(b)


def same_items(a: Any, b: Any) -> bool:
    """Return whether two containers hold the same things in the same order."""
    if not a or not b:
        return not a and not b
    if len(a) != len(b) or isinstance(a, set):
        return bool(a == b)
    if isinstance(a, dict):
        return all(map(is_, a.values(), b.values())) and all(map(eq, a, b))
    return all(map(is_, a, b))


def refill(container: Any, items: Any) -> None:
    """Let a list, dictionary or set hold exactly `items`, in their order."""
    if same_items(container, items):
        return
    container.clear()
    container.extend(items) if isinstance(container, list) else container.update(items)
