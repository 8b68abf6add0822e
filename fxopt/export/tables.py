"""Tables as text: CSV for a spreadsheet, Markdown for a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from fxopt.errors import expect


@runtime_checkable
class HasFrame(Protocol):
    """A table of evidence, such as `fxopt.evidence.ParameterTable`."""

    @property
    def frame(self) -> pd.DataFrame:
        """Its rows."""


def to_csv(frame: pd.DataFrame | HasFrame) -> str:
    r"""Return a table, or a report that has one as its `frame`, as CSV, one header line first.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.

    >>> to_csv(pd.DataFrame({"node": ["=q", "a,b"], "MB": [1.5, None]}))
    'node,MB\n\'=q,1.5\n"a,b",\n'

    Raises:
        ArgumentError: it is no table.
    """
    table = _table(frame, "to_csv")
    return csv_of(list(map(str, table.columns)), _rows(table))


def to_markdown(frame: pd.DataFrame | HasFrame, title: str = "") -> str:
    r"""Return a table, or a report that has one as its `frame`, in GitHub's Markdown, under its title.

    Characters of markup in a cell are escaped. GitHub still makes links of addresses, mentions and issue numbers.

    >>> print(to_markdown(pd.DataFrame({"node": ["a|b ~c~ &lt; $x$"], "nodes": [3]}), "Nodes"))
    ### Nodes
    <BLANKLINE>
    | node | nodes |
    | --- | --- |
    | a\|b \~c\~ \&lt; \$x\$ | 3 |
    <BLANKLINE>

    Raises:
        ArgumentError: it is no table.
    """
    table = _table(frame, "to_markdown")
    return markdown_of(list(map(str, table.columns)), _rows(table), title)


def _table(given: pd.DataFrame | HasFrame, call: str) -> pd.DataFrame:
    if isinstance(given, pd.DataFrame):
        return given
    expect(given, HasFrame, call, "a pandas.DataFrame, or a report with a frame")
    return given.frame


def csv_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return rows under columns as CSV; see `to_csv`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_harmless(column) for column in columns])
    writer.writerows([[_harmless(cell) for cell in row] for row in rows])
    return out.getvalue()


def markdown_of(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> str:
    """Return rows under columns as Markdown; see `to_markdown`."""
    lines = [f"### {_cell(title)}", ""] if title else []
    lines += ["| " + " | ".join(map(_cell, columns)) + " |", "|" + " --- |" * len(columns)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _rows(frame: pd.DataFrame) -> Iterable[list[Any]]:
    for row in frame.itertuples(index=False, name=None):
        yield [None if value is None or value is pd.NA or value != value else value for value in row]


def _harmless(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    for character in "\\|`*_<>[]~&$":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
