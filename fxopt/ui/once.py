"""Answers that are the same for every visitor: made once, while whoever else asks waits, and kept.

Those of a measurement are kept for whoever asked before it began.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from fxopt.ui.recent import keep_recent

T = TypeVar("T")


class Once:
    """The last answers, by question. They are plain data that everyone leaves unchanged.

    >>> once = Once(most=2)
    >>> once.answer("a", lambda: 1), once.answer("a", lambda: 2)
    (1, 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[Hashable, Future[Any]] = {}
        self._lock = threading.Lock()

    def answer(self, asked: Hashable, make: Callable[[], T]) -> T:
        """Return the answer to `asked`, which depends on nothing else; the first who asks has `make` make it.

        If `make` fails for one who asks, the next one tries again.
        """
        while True:
            with self._lock:
                found = self._answers.get(asked)
                future: Future[T] = Future() if found is None else found
                keep_recent(self._answers, asked, future, self._most)
            if found is None:
                return self._made(asked, future, make)
            if future.exception() is None:
                return future.result()

    def _made(self, asked: Hashable, future: Future[T], make: Callable[[], T]) -> T:
        try:
            made = make()
        except BaseException as error:
            with self._lock:
                if self._answers.get(asked) is future:
                    del self._answers[asked]
            future.set_exception(error)
            raise
        future.set_result(made)
        return made


class Latest:
    """The latest answers, by question: each is good for whoever asked before the work on it began.

    >>> latest, asked = Latest(most=2), time.monotonic()
    >>> latest.answer("a", asked, lambda: 1), latest.answer("a", asked, lambda: 2)
    (1, 1)
    >>> latest.answer("a", time.monotonic(), lambda: 3)
    3
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answers: dict[Hashable, tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def answer(
        self, asked: Hashable, since: float, make: Callable[[], T], is_whole: Callable[[T], bool] = lambda answer: True
    ) -> T:
        """Return the answer to a question that was asked at a time of the monotonic clock. One that is not whole is
        for whoever had it made alone."""
        with self._lock:
            begun, found = self._answers.get(asked, (-math.inf, None))
        if begun >= since:
            answer: T = found
            return answer
        begun, answer = time.monotonic(), make()
        if is_whole(answer):
            with self._lock:
                keep_recent(self._answers, asked, (begun, answer), self._most)
        return answer
