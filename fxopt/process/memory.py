"""Memory that is free on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from fxopt.errors import ModelError

_GROUP = Path("/sys/fs/cgroup")
_LEFT_FREE = 10
"""One part in so many of the free memory is left to the rest of the machine."""


def available_bytes() -> int:
    """Return the bytes that a process can still take: of the machine, and of the control group that it is in.

    Linux counts the memory that its caches would give back as available. If no system call answers, return 2**63.
    """
    return min(_of_machine(), _of_group())


def check_memory(subject: str, needed: int) -> None:
    """Check that the memory which `subject` takes is free, and that a tenth of it stays so.

    Raises:
        ModelError: it is not.
    """
    there = available_bytes()
    if needed > there - there // _LEFT_FREE:
        raise ModelError(
            f"{subject} {in_words(needed)}; {in_words(there)} of memory are free here, a tenth of which is kept free"
        )


def _of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):  # no Linux
        return 2**63


def _of_group() -> int:
    try:
        most = (_GROUP / "memory.max").read_text().strip()
        now = int((_GROUP / "memory.current").read_text())
        caches = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        return 2**63 if most == "max" else int(most) - now + int(caches.get("inactive_file", 0))
    except (OSError, ValueError):  # no control groups, or of the first version
        return 2**63


def in_words(count: int) -> str:
    """Return a count of bytes for a reader.

    >>> in_words(90_866_404), in_words(10**11)
    ('91 MB', '100 GB')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            number = count / size
            return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"
    return f"{count} bytes"
