"""Figures for a reader."""

from __future__ import annotations

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def two_digits(value: float) -> str:
    """Return a number in its first two digits.

    >>> two_digits(6.081), two_digits(259), two_digits(2.06e-6)
    ('6.1', '260', '2.1e-06')
    """
    return f"{float(f'{value:.1e}'):g}"


def power_of_ten(value: float) -> str:
    """Return a number in two digits, and a power of ten where it is very small or large; it stays on one line.

    >>> power_of_ten(9.5e-7), power_of_ten(6.081)
    ('9.5·10⁻⁷', '6.1')
    """
    if 0.01 <= abs(value) < 1000:
        return two_digits(value)
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_RAISED)}" if value else "0"
