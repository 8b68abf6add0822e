"""Conditions inside a rule: what is not met there is a miss of the pass, with its reason."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from fxopt.core.conditions import Unmet
from fxopt.core.errors import FxoptError

met: ContextVar[int] = ContextVar("met", default=0)
"""How many requirements of the rule that is running were met so far."""


class RequirementError(FxoptError):
    """A requirement of a rule is not met. In a rule it makes a `Miss`, so nobody sees it as an error."""

    def __init__(self, unmet: Unmet) -> None:
        super().__init__(unmet.reason)
        self.unmet = unmet


def require(condition: Any, reason: str, remedy: str = "", *, actual: str = "", needed: str = "") -> None:
    """Let a rule apply only where `condition` holds; elsewhere the site is a `Miss` that says why.

    Call it between the ``yield`` and the ``return`` of a rule; see `rewrite`.

    Args:
        condition: anything that is true or false now. What the model computes when it runs is not.
        reason: why the rule does not apply where it does not hold: the fact, with names and values.
        remedy: what a user could do about it.
        actual, needed: the value found, and what it would have to be, in a few words.
    """
    if not condition:
        raise RequirementError(Unmet(reason, remedy, actual, needed))
    met.set(met.get() + 1)
