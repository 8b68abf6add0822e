"""Limits that a child process sets itself: memory, processor time, size of files, and the life of its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl


def die_with(parent: int) -> None:
    """Let this process end with its parent (Linux); end at once where the parent has ended already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before this could be asked for
            os._exit(1)


def limit(*, memory: int, seconds: int, file: int) -> None:
    """Limit this process, where the system can.

    Args:
        memory: bytes of address space.
        seconds: of a processor.
        file: bytes of a file that it writes.
    """
    if sys.platform != "win32":
        import resource

        for kind, most, beyond in (
            (resource.RLIMIT_AS, memory, 0),
            (resource.RLIMIT_CPU, seconds, 1),  # at the soft limit the signal says why, at the hard one it only kills
            (resource.RLIMIT_FSIZE, file, 0),
        ):
            _, hard = resource.getrlimit(kind)
            hard = most + beyond if hard == resource.RLIM_INFINITY else min(most + beyond, hard)
            resource.setrlimit(kind, (min(most, hard), hard))
