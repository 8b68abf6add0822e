"""Locks that are free in a fork of this process (`fxopt.process.forked`), whoever holds them at that moment."""

from __future__ import annotations

import os
import weakref
from typing import Any, TypeVar

L = TypeVar("L")

_LOCKS: weakref.WeakSet[Any] = weakref.WeakSet()


def free_in_forks(lock: L) -> L:
    """Return a lock of `threading`, which will be free in a fork: the thread that holds it is missing there."""
    _LOCKS.add(lock)
    return lock


def _free() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
