"""Search by text or regular expression. Of an expression that could take long, the text itself is looked for.

Python tries all ways to match, and holds its lock meanwhile: ``(a+)+$`` on 40 letters would stop the server for
everyone. So the ways are counted before an expression is used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any, TypeVar

T = TypeVar("T")

MOST_WAYS = 2 * 10**7
"""Ways to match one text that may be tried; less than a second."""
MOST_SECONDS = 1.5
"""The time that all texts may take together."""
MOST_TEXT = 500
"""Characters of an expression."""

_ONE_CHARACTER = {_constants.LITERAL, _constants.NOT_LITERAL, _constants.ANY, _constants.IN, _constants.AT,
                  _constants.RANGE, _constants.CATEGORY}  # fmt: skip
_REPEATS = {_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT}
_AHEAD = {_constants.ASSERT, _constants.ASSERT_NOT}


def found(asked: str, among: Sequence[T], texts_of: Callable[[T], Iterable[str]]) -> tuple[list[T], str]:
    """Return those of `among` with a text that `asked` fits, and a sentence if it is searched for as plain text."""
    texts = [(one, tuple(texts_of(one))) for one in among]
    longest = max((len(text) for _, of in texts for text in of), default=0)
    pattern, fault = _compiled(asked, longest)
    plain = asked.lower()
    if pattern is not None:
        fitting, end = [], time.monotonic() + MOST_SECONDS
        for one, of in texts:
            if any(plain in text.lower() or pattern.search(text) for text in of):
                fitting.append(one)
            if time.monotonic() > end:
                break
        else:
            return fitting, ""
        fault = "it takes too long"
    fitting = [one for one, of in texts if any(plain in text.lower() for text in of)]
    return fitting, f"Taken as plain text: {fault}"


def _compiled(asked: str, longest: int) -> tuple[re.Pattern[str] | None, str]:
    if len(asked) > MOST_TEXT:
        return None, f"an expression has at most {MOST_TEXT} characters"
    try:
        if ways(asked, longest) > MOST_WAYS:
            return None, "there are too many ways in which it could match; write it with fewer repeats"
        return re.compile(asked, re.IGNORECASE), ""
    except (re.error, RecursionError, OverflowError, FutureWarning, DeprecationWarning) as error:
        return None, f"it is no regular expression: {error}"


def ways(expression: str, length: int) -> float:
    """Return an upper bound of the ways to match a part of a text of so many characters; infinity for unknown syntax.

    >>> ways("linear|matmul", 40), ways(".*query", 40), ways("(a+)+$", 40) > 1e12
    (80, 1640, True)
    """
    return length * _ways(_parser.parse(expression, re.IGNORECASE), length)


def _ways(items: Any, length: int) -> float:
    product: float = 1
    for kind, detail in items:
        product *= _ways_of(kind, detail, length)
    return product


def _ways_of(kind: Any, detail: Any, length: int) -> float:
    if kind in _ONE_CHARACTER:
        return 1
    if kind is _constants.GROUPREF:
        return length
    if kind is _constants.SUBPATTERN:
        return _ways(detail[-1], length)
    if kind is _constants.ATOMIC_GROUP:
        return _ways(detail, length)
    if kind in _AHEAD:
        return _ways(detail[1], length)
    if kind is _constants.BRANCH:
        return sum(_ways(branch, length) for branch in detail[1])
    if kind in _REPEATS:
        least, most, body = detail
        counts = max(min(int(most), length) - least + 1, 1)
        of_one = _ways(body, length)
        return counts if of_one <= 1 else _power(of_one, min(int(most), length + 1)) * counts
    return float("inf")


def _power(base: float, exponent: int) -> float:
    try:
        return float(base) ** exponent
    except OverflowError:
        return float("inf")
