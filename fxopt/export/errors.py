"""The error of an export."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt.errors import FxoptError

_FEW = 10


class ExportError(FxoptError, ValueError):
    """A graph module of which parts cannot be exported; `problems` has a sentence for each."""

    def __init__(self, problems: Sequence[str], form: str = "Python that needs torch alone") -> None:
        self.problems = tuple(problems)
        more = [f"- and {len(problems) - _FEW} more"] if len(problems) > _FEW else []
        told = "\n".join([*(f"- {problem}" for problem in problems[:_FEW]), *more])
        super().__init__(f"this cannot be exported as {form}; nothing was written\n{told}")
