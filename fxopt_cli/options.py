"""The options that commands share, each declared once.

A command takes a whole group of them as one parameter, `sizes: Sizes`; `expanded` makes options of its fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from fxopt_cli.names import complete_model, complete_pass, complete_recipe
from fxopt_cli.output import Form
from fxopt_cli.sources import FORMS

_SIZES, _CHOICE, _FORM = "The model and its inputs", "The passes", "The answer"

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help=f"{FORMS[0].upper()}{FORMS[1:]}. A callable makes the model, (model, args) or (model, args, kwargs); it "
        "runs as your code, and so can a .pt2. Of a file alone, it is make_model, make, or its only function.",
        autocompletion=complete_model,
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SIZES",
        help="One input of a callable's model, by dtype and sizes: 2x3x224x224, int64:2x16. Repeat it in the order of "
        "the arguments.",
        rich_help_panel=_SIZES,
    ),
]


Passes = Annotated[
    list[str] | None,
    typer.Option(
        "--pass",
        "-p",
        metavar="PASS",
        help="Turn a pass on, by name or with arguments: MergeLinears, \"MergeLinears(keep='view')\". "
        "Repeat it for several; they run in this order.",
        rich_help_panel=_CHOICE,
        autocompletion=complete_pass,
    ),
]

Budget = Annotated[float, typer.Option("--budget", min=0.1, help="Seconds after which it ends, about.")]
Code = Annotated[bool, typer.Option("--code", help="Print the code of the graph.")]


@dataclass(frozen=True)
class Sizes:
    """The sizes and inputs that a command was given for its model."""

    batch: Annotated[int | None, typer.Option("--batch", help="Examples in the inputs.", rich_help_panel=_SIZES)] = None
    sequence: Annotated[
        int | None, typer.Option("--sequence", help="Tokens in the inputs.", rich_help_panel=_SIZES)
    ] = None
    input: Inputs = None


@dataclass(frozen=True)
class Choice:
    """The passes and sites that a command was given."""

    passes: Passes = None
    every: Annotated[bool, typer.Option("--all", help="Turn every pass on.", rich_help_panel=_CHOICE)] = False
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="PASS:SITE",
            help="Turn on this site of a pass, and others so named.",
            rich_help_panel=_CHOICE,
        ),
    ] = None
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="PASS:SITE", help="Leave this site out.", rich_help_panel=_CHOICE),
    ] = None
    recipe: Annotated[
        Path | None,
        typer.Option(
            "--recipe",
            metavar="FILE",
            help="Begin with the passes, sites and edits of a recipe.",
            rich_help_panel=_CHOICE,
            autocompletion=complete_recipe,
        ),
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is turned on."""
        return not (self.passes or self.every or self.only or self.recipe)


@dataclass(frozen=True)
class Plain:
    """The form of an answer without tables: sentences or JSON."""

    json: Annotated[
        bool, typer.Option("--json", help="Write JSON (docs/cli.md has its shape).", rich_help_panel=_FORM)
    ] = False

    @property
    def form(self) -> Form:
        return Form.json if self.json else Form.table


@dataclass(frozen=True)
class Tables(Plain):
    """The form of an answer with tables."""

    csv: Annotated[bool, typer.Option("--csv", help="Write the tables as CSV.", rich_help_panel=_FORM)] = False
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Write the tables as Markdown.", rich_help_panel=_FORM)
    ] = False

    @property
    def form(self) -> Form:
        """The form that the flags choose.

        Raises:
            typer.BadParameter: they choose several.
        """
        flags = ((Form.json, self.json), (Form.csv, self.csv), (Form.markdown, self.markdown))
        chosen = [form for form, flag in flags if flag]
        if len(chosen) > 1:
            raise typer.BadParameter("give one of --json, --csv and --markdown")
        return chosen[0] if chosen else Form.table


def flowing(text: str) -> str:
    """Return a docstring with each paragraph on one line, but for those that begin with ``\\b``.

    >>> flowing("First.\\n\\n    One\\n    two.\\n\\n    \\b\\n    a\\n    b\\n    ")
    'First.\\n\\nOne two.\\n\\n\\x08\\na\\nb'
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(one if one.startswith("\b") else one.replace("\n", " ") for one in paragraphs)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of one of these classes are replaced by the options that the class holds.

    The paragraphs of its docstring, which is its help, are one line each: the terminal breaks them where it ends.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options = {
        name: [(one.name, one.default) for one in fields(groups[name])] if name in groups else [(name, given.default)]
        for name, given in inspect.signature(command).parameters.items()
    }

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {name: group(**{one: given.pop(one) for one, _ in options[name]}) for name, group in groups.items()}
        command(**made, **given)

    types = hints | {
        name: hint for group in groups.values() for name, hint in get_type_hints(group, include_extras=True).items()
    }
    keywords = [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[one])
        for each in options.values()
        for one, default in each
    ]
    run.__doc__ = flowing(command.__doc__ or "")
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in keywords}
    return run
