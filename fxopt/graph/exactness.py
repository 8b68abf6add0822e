"""Exactness: how closely a rewritten graph computes the values of before."""

from enum import Enum


class Exactness(Enum):
    """The closeness of the values that a rewritten site computes to those of before.

    The same bits include the signs of zeros, and NaN at the same places; the payload of a NaN is left to the processor.
    """

    BITWISE = "the same bits"
    ROUNDING = "equal up to floating-point rounding"
    APPROXIMATE = "approximately equal"
    CHANGES = "computes something else"
