"""The history of choices, for undo and redo."""

from __future__ import annotations

from fxopt.workbench.timeline import Act, Choices


class History:
    """The choices of each step, and the acts between them. A new step ends the redoable ones."""

    def __init__(self, first: Choices) -> None:
        self._steps = [first]
        self._acts: list[Act] = []
        self._at = 0

    @property
    def acts(self) -> tuple[Act, ...]:
        """Return the acts, those that were undone included: each leads from one step to the next."""
        return tuple(self._acts)

    @property
    def at(self) -> int:
        """Return the number of acts that are done."""
        return self._at

    @property
    def now(self) -> Choices:
        return self._steps[self._at]

    @property
    def before(self) -> Choices | None:
        """Return the choices that `undo` goes back to; None at the first step."""
        return self._steps[self._at - 1] if self._at > 0 else None

    @property
    def after(self) -> Choices | None:
        """Return the choices that `redo` goes on to; None at the last step."""
        return self._steps[self._at + 1] if self._at + 1 < len(self._steps) else None

    @property
    def signatures(self) -> set[str]:
        """Return the signatures of all passes in any step."""
        return {choice.signature for step in self._steps for choice in step}

    def go(self, choices: Choices) -> bool:
        """Make a step to `choices`; return False, and stay, if they equal the present ones."""
        if choices == self.now:
            return False
        self._steps[self._at + 1 :] = [choices]
        del self._acts[self._at :]
        self._at += 1
        return True

    def note(self, act: Act) -> None:
        """Record the act that led to the present step."""
        self._acts.append(act)

    def go_to(self, done: int) -> None:
        """Go to the step after so many acts; all acts stay."""
        self._at = done

    def undo(self) -> None:
        self._at -= 1

    def redo(self) -> None:
        self._at += 1
