"""A page that is served by a process of someone else's: a script, a REPL or a notebook, which goes on as it was."""

from __future__ import annotations

import sys
from types import ModuleType

_MAIN: list[ModuleType] = []
"""The module ``__main__`` of the process, where the page is a guest in it."""


def be_guest() -> None:
    """Take note that this process is not the page's own."""
    _MAIN[:] = [sys.modules["__main__"]]


def is_guest() -> bool:
    return bool(_MAIN)


def give_back_main() -> None:
    """Put the host's ``__main__`` back, which each run of a script by Streamlit replaces.

    Without it, classes that the host defines could not be pickled any more, by ``torch.save`` for example.
    """
    if _MAIN:
        sys.modules["__main__"] = _MAIN[0]
