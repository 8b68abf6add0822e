"""How closely a rewritten graph computes what it computed before."""

from enum import Enum


class Exactness(Enum):
    """How closely a rewritten site computes what it computed before."""

    BITWISE = "the same bits"
    ROUNDING = "equal up to floating-point rounding"
    APPROXIMATE = "approximately equal"
    CHANGES = "computes something else"
