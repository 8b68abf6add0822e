"""Exactness: how closely a rewritten graph computes the values of before."""

from enum import Enum


class Exactness(Enum):
    """The closeness of the values that a rewritten site computes to those of before."""

    BITWISE = "the same bits"
    ROUNDING = "equal up to floating-point rounding"
    APPROXIMATE = "approximately equal"
    CHANGES = "computes something else"
