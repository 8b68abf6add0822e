"""The answer of a command, and its forms: rich tables for a reader, JSON, CSV or Markdown for a program or a page."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

NAME = 30
"""A column of texts up to this length is shown unbroken, unless it is the last."""


LEAST = 12
"""The characters that a column of broken texts has at least, about."""
_MARGIN = 3
"""The blanks around a column."""


class Form(StrEnum):
    """The form of an answer."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


class Exit(IntEnum):
    """The exit codes of the command."""

    yes = 0
    """Done; where it is a question, the answer is yes."""
    no = 1
    """The answer is no: not exact, not explained by rounding, a recipe that does not apply."""
    wrong = 2
    """The command was given something wrong: an option, a model, a pass, a file."""
    failed = 3
    """The work failed: the model cannot be captured, built or run."""


@dataclass(frozen=True)
class Table:
    """Rows under columns; `title` heads them where there are several."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class Answer:
    """The answer of a command.

    `data` is its JSON, `lines` are sentences, and `tables` the same as tables; `text` is printed as it is, for code
    and graphs.
    """

    data: Mapping[str, Any]
    lines: Sequence[str] = ()
    tables: Sequence[Table] = ()
    text: str = ""
    exit: Exit = Exit.yes
    notes: Sequence[str] = field(default=())
    """Sentences for a reader only, written to standard error."""


def show(answer: Answer, form: Form, command: str) -> None:
    """Write an answer to standard output in one of its forms."""
    if form is Form.json:
        sys.stdout.write(to_json({"command": command, **answer.data}))
        return
    if form is Form.csv:
        from fxopt.export.tables import csv_of

        sys.stdout.write("\n".join(csv_of(table.columns, table.rows) for table in answer.tables))
        return
    if form is Form.markdown:
        from fxopt.export.tables import markdown_of

        sys.stdout.write("\n".join(markdown_of(table.columns, table.rows, table.title) for table in answer.tables))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in answer.lines:
        console.print(Text(line))
    for table in answer.tables:
        width = max(console.width, (LEAST + _MARGIN) * len(table.columns))  # narrower, a column would vanish
        Console(highlight=False, width=width).print(_rich(table, width))
    if answer.text:
        sys.stdout.write(answer.text if answer.text.endswith("\n") else f"{answer.text}\n")
    for note in answer.notes:
        Console(stderr=True, highlight=False, soft_wrap=True).print(Text(note))


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count in words.

    >>> counted(1, "site"), counted(2, "site"), counted(2, "near miss", "near misses")
    ('1 site', '2 sites', '2 near misses')
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def to_json(data: Mapping[str, Any]) -> str:
    """Return data as JSON text. Numbers that JSON lacks become null."""
    return json.dumps(_plain(data), indent=2, allow_nan=False, ensure_ascii=True) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, Sequence | frozenset | set):
        return [_plain(inner) for inner in value]
    return str(value)


def _rich(table: Table, width: int) -> RichTable:
    """Return a table for a terminal of `width` characters. In one too narrow for unbroken names, all texts break."""
    names = [i for i in range(len(table.columns) - 1) if all(len(_short(row[i])) <= NAME for row in table.rows)]
    taken = sum(max(len(_short(row[i])) for row in [table.columns, *table.rows]) for i in names)
    others = len(table.columns) - len(names)
    if taken + LEAST * others + _MARGIN * len(table.columns) > width:
        names = []
    title = Text(table.title) if table.title else None
    made = RichTable(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, header_style="dim")
    for i, column in enumerate(table.columns):
        is_number = bool(table.rows) and all(isinstance(row[i], int | float) for row in table.rows)
        made.add_column(column, justify="right" if is_number else "left", overflow="fold", no_wrap=i in names)
    for row in table.rows:
        made.add_row(*(Text(_short(cell)) for cell in row))
    return made


def _short(cell: Any) -> str:
    if isinstance(cell, bool) or cell is None:
        return {True: "yes", False: "no", None: ""}[cell]
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


@contextmanager
def progress(text: str, form: Form) -> Iterator[Any]:
    """Show a spinner and the present stage on standard error, where a person reads a table there.

    It yields a function that takes the next stage in words.
    """
    console = Console(stderr=True)
    if form is not Form.table or not console.is_terminal:
        yield lambda stage: None
        return
    with console.status(Text(text)) as status:
        yield lambda stage: status.update(Text(f"{text}: {stage}"))
