"""A broken law."""

from __future__ import annotations


class LawBroken(AssertionError):  # noqa: N818 - the fault is in the pass, not in the program that raises it
    """A pass breaks a law; the message names the pass, the model, the law and the fact."""


def demand(holds: bool, fact: str) -> None:
    if not holds:
        raise LawBroken(fact)
