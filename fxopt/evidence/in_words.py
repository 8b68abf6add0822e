"""Figures for a reader."""

from __future__ import annotations

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(value: float) -> str:
    """Return a very small or large number in two digits and a power of ten; it stays on one line.

    >>> power_of_ten(9.5e-7)
    '9.5·10⁻⁷'
    """
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}" if value else "0"
