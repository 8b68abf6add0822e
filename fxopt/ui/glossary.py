"""The few words of the page that are its own, each in a sentence: for the help of elements, and the sheet of keys."""

from __future__ import annotations

import re

GLOSSARY = {
    "site": "A place in the graph where a pass can rewrite something, switched on and off by itself.",
    "near miss": "A place that a pass leaves alone for one condition that is not met; it names the condition.",
    "exactness": "The promise of a rewrite: same bits, same up to rounding, close, or other results on purpose.",
    "fold": "To compute now, once, a thing that each run computes anew: a batch norm goes into a weight.",
    "ulp": "Unit in the last place: from a floating-point number to the next. Rounding errs by at most half of it.",
    "= same bits": "The rewrite returns the same numbers, to the last bit.",
    "≈ rounding": "The rewrite computes the same formula, and only the last digits may be rounded otherwise.",
    "~ approximate": "The rewrite computes another formula that comes close.",
    "≠ changes results": "The rewrite returns other numbers on purpose.",
    "index arithmetic": "Calls that compute positions, sizes and masks rather than features; a run of them is one box.",
    "free": "A size, such as the batch, at which the graph runs as it is, whatever the example had.",
    "replayed": "The captured graph was run on the example, and its outputs are those of the model.",
    "restored": "The graph, its modules, weights and code are bit for bit those of before the first switch.",
}

_FORMS = {
    "site": r"sites?",
    "near miss": r"near miss(?:es)?",
    "exactness": r"exactness|how exact",
    "fold": r"fold(?:s|ed|ing)?",
    "ulp": r"ulp",
    "restored": r"restored",
}
"""The words that texts are searched for, in their forms."""


def words_in(text: str) -> tuple[str, ...]:
    """Return the words of the glossary that a text has, in the order of the glossary.

    >>> words_in("Near misses are listed below the sites; website is another word.")
    ('site', 'near miss')
    """
    return tuple(word for word, form in _FORMS.items() if re.search(rf"\b(?:{form})\b", text, re.IGNORECASE))
