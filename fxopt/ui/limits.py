"""Limits of the runs of one visitor: predicted before a run begins, and refused with the numbers."""

from __future__ import annotations

import os

from fxopt.errors import ModelError
from fxopt.evidence import Demand

MOST_BYTES = int(float(os.environ.get("FXOPT_MOST_GB", "4")) * 10**9)
"""Memory of one run beside the weights; who serves the page may allow more."""
MOST_FLOPS = int(float(os.environ.get("FXOPT_MOST_TFLOP", "2")) * 10**12)
"""Work of one run; a core does 2 TFLOP in about a minute."""


def check_demand(subject: str, demand: Demand, factor: int = 1, beside: int = 0) -> None:
    """Check that a run may be begun.

    Args:
        subject: the model and its sizes, for the message.
        demand: of one run in the precision of the model.
        factor: by which its numbers are larger in the run.
        beside: bytes that are taken by other things.

    Raises:
        ModelError: it takes more memory or work than a visitor may use.
    """
    needed = demand.peak_bytes * factor + beside
    if needed <= MOST_BYTES and demand.flops <= MOST_FLOPS:
        return
    takes = f"one run takes {_in_words(needed)} beside the weights and {demand.flops / 1e12:,.1f} TFLOP"
    allowed = f"{_in_words(MOST_BYTES)} and {MOST_FLOPS / 1e12:,.1f} TFLOP are allowed here"
    raise ModelError(f"{subject} is too large: {takes}, and {allowed}. Choose a smaller batch or sequence.")


def _in_words(count: int) -> str:
    """Return a count of bytes for a reader.

    >>> _in_words(9_211_000_000), _in_words(20_000_000)
    ('9.2 GB', '20 MB')
    """
    return f"{count / 1e9:,.1f} GB" if count >= 10**9 else f"{count / 1e6:,.0f} MB"
