"""Answers that were made for the last states of a visitor's page: the page is made for going back and forth."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from itertools import zip_longest
from typing import Any, TypeVar

from fxopt.ui.job import Job
from fxopt.ui.open_model import OpenModel
from fxopt.ui.own_models import OwnModel
from fxopt.ui.recent import keep_recent
from fxopt.workbench import Workbench

T = TypeVar("T")

RECENT = 4
"""So many of the last states keep their pictures and tables."""


class Memo:
    """The answers of one visitor, and the way to those that every visitor of the model shares."""

    def __init__(self, opened: OpenModel, workbench: Workbench) -> None:
        self._opened = opened
        self._workbench = workbench
        self._kept: dict[str, dict[Hashable, Any]] = {}

    def remember(self, question: str, key: Hashable, make: Callable[[], T], answers: int = 1) -> T:
        """Return the answer to `question` at `key`, made unless one of the last answers was for this key.

        A job that ended before its turn, or as its visitor was away or went on, is no answer: it is made anew.

        Args:
            question: its name; each question has answers of its own.
            answers: the number that is kept. Give more than one only for plain data that depends on `key` alone: nodes
                and modules of the current graph are others once it comes back to the same choices.
        """
        kept = self._kept.setdefault(question, {})
        found = kept.get(key)
        is_answer = key in kept and not (isinstance(found, Job) and found.is_unanswered)
        answer: T = kept[key] if is_answer else make()
        keep_recent(kept, key, answer, answers)
        return answer

    def known(self, question: str, key: Hashable) -> Any:
        """Return the answer to `question` at `key` where it is kept, and None where it would have to be made."""
        return self._kept.get(question, {}).get(key)

    def once(self, question: str, make: Callable[[], T]) -> T:
        """Return plain data that depends on the current graph alone, as every visitor with the same choices has it."""
        if self._is_own:
            return self.remember(question, self._workbench.choices, make, answers=RECENT)
        return self._opened.once.answer((question, self._workbench.choices), make)

    def sharing(self, question: str) -> Callable[[Callable[[], T]], T]:
        """Return the way to an answer about the graph and its weights as they are now, for work in another thread.

        It makes the answer, unless it is there or on its way for another visitor. A model of someone's own may be
        trained meanwhile: about it the answer is made each time.
        """
        if self._is_own or isinstance(self._opened.source, OwnModel):
            return lambda make: make()
        once, asked = self._opened.once, (question, self._workbench.choices)
        return lambda make: once.answer(asked, make)

    def measuring(self, question: str, is_whole: Callable[[T], bool]) -> Callable[[Callable[[], T]], T]:
        """Return the way to a measurement of the graph as it is now, for work that may wait in a line.

        It makes it, unless one that `is_whole` was made of the same graph meanwhile, for another visitor.
        """
        if self._is_own or isinstance(self._opened.source, OwnModel):
            return lambda make: make()
        latest, asked, now = self._opened.latest, (question, self._workbench.choices), time.monotonic()
        return lambda make: latest.answer(asked, now, make, is_whole)

    @property
    def _is_own(self) -> bool:
        """Whether the graph has passes, edits or a failure of the visitor's own."""
        pairs = zip_longest(self._workbench.known, self._opened.workbench.passes)
        return any(mine is not other for mine, other in pairs) or any(one.error for one in self._workbench.states)

    def clear(self) -> None:
        """Drop the visitor's own answers."""
        self._kept.clear()
