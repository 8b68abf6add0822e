"""The one error of lessons."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fxopt.errors import FxoptError

_FEW = 12


class LessonError(FxoptError, ValueError):
    """A lesson that cannot be read, or that cannot be walked. `line` is counted from 1; None where no line has it."""

    def __init__(self, reason: str, line: int | None = None, file: str = "") -> None:
        self.reason, self.line, self.file = reason, line, file
        where = ", ".join(filter(None, (file, f"line {line}" if line is not None else "")))
        super().__init__(": ".join(filter(None, (where, reason))))

    def at(self, line: int | None, file: str = "") -> LessonError:
        """Return the same error with its line, or its file, where they were unknown."""
        return LessonError(self.reason, line if self.line is None else self.line, self.file or file)


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence that refuses a name, with the nearest known one.

    >>> unknown("view", "Dif", ["Now", "Diff"])
    "there is no view 'Dif'; did you mean 'Diff'? There are Now, Diff"
    """
    names = list(known)
    lower = {one.lower(): one for one in names}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
    guess = f"; did you mean {lower[near[0]]!r}?" if near else ";"
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    there = "There are" if near else "there are"
    return f"there is no {kind} {name!r}{guess} {there} {', '.join(names[:_FEW]) or 'none'}{more}"
