"""The end of an act, which two interruptions do not keep from its last line."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def ended(act: Callable[[], T], end: Callable[[], object]) -> T:
    """Run `act`, then `end`, however `act` came out, and once more for each of two interruptions.

    An interruption may come within `end`, and the next one before the second `end` has begun; the third begins then.

    Args:
        end: a call whose repetition does nothing.
    """
    try:
        try:
            try:
                return act()
            finally:
                end()
        finally:
            end()
    finally:
        end()
