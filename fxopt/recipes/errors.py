"""The one error of recipes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from fxopt.errors import FxoptError

Path: TypeAlias = tuple[str | int, ...]
"""The keys and numbers that lead to a value in JSON."""


class RecipeError(FxoptError, ValueError):
    """A recipe that cannot be read, written or replayed.

    `path` is the place in the JSON, such as ``steps[2].arguments.value``, and `line` its line in the file, counted
    from 1; each is empty (None) where it does not apply. `is_refusal` says that the recipe was read, and its replay was
    refused; `problems` are then the parts that do not apply.
    """

    def __init__(
        self,
        reason: str,
        path: Path = (),
        line: int | None = None,
        file: str = "",
        *,
        problems: Sequence[object] = (),
        is_refusal: bool = False,
    ) -> None:
        self.reason, self.steps, self.line, self.file = reason, path, line, file
        self.problems, self.is_refusal = tuple(problems), is_refusal
        where = (file, f"line {line}" if line is not None else "", self.path)
        super().__init__(": ".join(filter(None, (", ".join(filter(None, where)), reason))))

    @property
    def path(self) -> str:
        return written(self.steps)

    def at(self, line: int | None, file: str = "") -> RecipeError:
        """Return the same error with its line, or its file."""
        known = self.line if line is None else line
        return RecipeError(
            self.reason, self.steps, known, file or self.file, problems=self.problems, is_refusal=self.is_refusal
        )


def written(path: Path) -> str:
    """Return a path as text.

    >>> written(("steps", 2, "arguments", "value"))
    'steps[2].arguments.value'
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
