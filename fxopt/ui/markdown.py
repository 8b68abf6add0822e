"""Text of models and passes as Markdown that shows it as it is."""

from __future__ import annotations

import inspect
import re

_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&])")


def escaped(text: str) -> str:
    r"""Return Markdown that reads as `text`, line by line.

    >>> print(escaped("a_b: [1]"))
    a\_b\: \[1\]
    """
    return "  \n".join(_SPECIAL.sub(r"\\\1", line) for line in sendable(text).splitlines())


def sendable(text: str) -> str:
    r"""Return `text` with a question mark for each half of a character, which UTF-8 cannot carry.

    The name of a file in another encoding than UTF-8 has such halves in Python.

    >>> sendable("a\udcff")
    'a?'
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def code(text: str) -> str:
    """Return `text` as inline code, with any backticks it holds.

    >>> code("a`b")
    '`` a`b ``'
    """
    text = re.sub(r"\s+", " ", sendable(text)).strip()
    if not text:
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {text} {fence}" if longest else f"`{text}`"


def with_code(text: str) -> str:
    r"""Return Markdown that reads as `text`, where whatever stands between two backticks is code.

    >>> print(with_code("Replace `x * 1` with a_b."))
    Replace `x * 1` with a\_b\.
    """
    parts = re.split(r"`([^`\n]+)`", text)
    return "".join(code(part) if i % 2 else escaped(part) for i, part in enumerate(parts))


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "site"), counted(1200, "near miss", "near misses")
    ('1 site', '1,200 near misses')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def from_docstring(docstring: str | None) -> str:
    r"""Return a docstring of ours as Markdown: double backticks are code, and doctests stand in blocks.

    >>> from_docstring("Replace ``x``.\n\n>>> 1 + 1")
    'Replace `x`.\n\n```python\n>>> 1 + 1\n```'
    """
    paragraphs = inspect.cleandoc(docstring or "").strip().split("\n\n")
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if text.lstrip().startswith(">>>"):
        return f"```python\n{text}\n```"
    if text.startswith("    "):
        return f"```text\n{inspect.cleandoc(text)}\n```"
    return text.replace("``", "`")


def spoken(text: str) -> str:
    """Return a text without the signs of Markdown for code, emphasis and formulas, to be heard.

    >>> spoken("The node `pool_1` of *Merge linears* is $x$.")
    'The node pool_1 of Merge linears is x.'
    """
    return _SIGNS.sub("", text)


_SIGNS = re.compile(r"[`*$]+(?=\S)|(?<=\S)[`*$]+")
