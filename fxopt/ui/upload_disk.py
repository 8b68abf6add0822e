"""The bytes that the uploads of all visitors together have on the disk of this machine, and their bound."""

from __future__ import annotations

import shutil
import tempfile
import threading

from fxopt.errors import ModelError
from fxopt.process.memory import in_words
from fxopt.ui.workshop import most_uploads_megabytes

_LEFT_FREE = 10
"""One part in so many of the free disk is left to the rest of the machine."""

_lock = threading.RLock()  # a finalizer may give back in the thread that takes
_taken = 0


def check_disk(size: int) -> None:
    """Check that uploads may have so many bytes more.

    Raises:
        ModelError: they may not, or the disk lacks them.
    """
    most = most_uploads_megabytes() * 2**20
    if _taken + size > most:
        raise ModelError(
            f"the models that visitors have uploaded here take {in_words(_taken)}, and may take {in_words(most)} "
            f"together; this one takes {in_words(size)}. They go as their visitors leave: try again later"
        )
    there = shutil.disk_usage(tempfile.gettempdir()).free
    if size > there - there // _LEFT_FREE:
        raise ModelError(
            f"the upload takes {in_words(size)} of the disk of this server; {in_words(there)} are free, a tenth of "
            "which is kept free"
        )


def take(size: int) -> None:
    """Count so many bytes as those of an upload.

    Raises:
        ModelError: see `check_disk`.
    """
    global _taken
    with _lock:
        check_disk(size)
        _taken += size


def give_back(folder: str, size: int) -> None:
    """Remove the folder of an upload, and give its bytes back."""
    global _taken
    shutil.rmtree(folder, ignore_errors=True)
    with _lock:
        _taken -= size


def taken() -> int:
    """Return the bytes that all uploads have."""
    return _taken
