"""Width of a text, found without a font: the layout is made before a browser sees it."""

from __future__ import annotations

import unicodedata

TITLE_CHARACTER, SUBTITLE_CHARACTER = 6.9, 5.6
"""Pixels a character at the sizes of graph.css: 11.5 px monospace above, 10.5 px sans below (generous)."""

PADDING = 22
NARROWEST, WIDEST = 64, 250
NODE_HEIGHT, GROUP_HEIGHT = 36, 44


def columns(text: str) -> int:
    """Return the number of monospace columns that `text` takes: wide characters two, combining marks none.

    >>> columns("abc"), columns("層"), columns("e" + chr(0x301))
    (3, 2, 1)
    """
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


def box_size(title: str, subtitle: str, group: bool) -> tuple[int, int]:
    """Return width and height of a box in pixels. A longer text is cut in the middle when it is drawn."""
    width = max(columns(title) * TITLE_CHARACTER, columns(subtitle) * SUBTITLE_CHARACTER) + PADDING
    # A folded module carries the small box that opens it.
    width = min(max(width + 18 * group, NARROWEST), WIDEST)
    return round(width), GROUP_HEIGHT if group else NODE_HEIGHT
