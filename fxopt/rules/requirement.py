"""Conditions inside a rule: an unmet one is a miss of the pass, with its reason."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from fxopt.errors import FxoptError
from fxopt.graph.conditions import Unmet

met: ContextVar[int] = ContextVar("met", default=0)
"""The count of requirements that the running rule has met so far."""


class RequirementError(FxoptError):
    """A requirement of a rule is unmet. The rule turns it into a `Miss`, so it never surfaces as an error."""

    def __init__(self, unmet: Unmet) -> None:
        super().__init__(unmet.reason)
        self.unmet = unmet


def require(condition: Any, reason: str = "", remedy: str = "", *, actual: str = "", needed: str = "") -> None:
    """Let a rule apply only where `condition` holds; elsewhere the site is a `Miss` with the reason.

    Without a reason, there is nothing to say elsewhere: `require(c == 1)` after `yield x * c`.

    Call it between the ``yield`` and the ``return`` of a rule; see `rewrite`.

    Args:
        condition: anything that is true or false at scan time; values that the model computes when it runs are not.
        reason: the fact that rules the site out, with names and values.
        remedy: a step that a user could take.
        actual, needed: the value found and the value required, in a few words.
    """
    if not condition:
        raise RequirementError(Unmet(reason, remedy, actual, needed))
    met.set(met.get() + 1)
