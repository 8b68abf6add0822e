"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fxopt_cli.names import complete_model, complete_pass
from fxopt_cli.output import Form

_SIZES, _CHOICE, _FORM = "The model and its inputs", "The passes", "The answer"

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A built-in model (see: fxopt models), module:callable, file.py:callable, or a folder with config.json "
        "and safetensors. A callable makes the model, (model, args) or (model, args, kwargs); it runs as your code.",
        autocompletion=complete_model,
    ),
]
Batch = Annotated[int | None, typer.Option("--batch", help="Examples in the inputs.", rich_help_panel=_SIZES)]
Sequence = Annotated[int | None, typer.Option("--sequence", help="Tokens in the inputs.", rich_help_panel=_SIZES)]
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
        help="Turn a pass on, by name or with arguments: MergeLinears, \"MergeLinears(keep='view')\". Repeat it for "
        "several; they run in this order.",
        rich_help_panel=_CHOICE,
        autocompletion=complete_pass,
    ),
]
Every = Annotated[bool, typer.Option("--all", help="Turn every pass on.", rich_help_panel=_CHOICE)]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="PASS:SITE", help="Turn on this site of a pass, and others so named.", rich_help_panel=_CHOICE
    ),
]
Without = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="PASS:SITE", help="Leave this site out.", rich_help_panel=_CHOICE),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        "--recipe", metavar="FILE", help="Begin with the passes, sites and edits of a recipe.", rich_help_panel=_CHOICE
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON (docs/cli.md has its shape).", rich_help_panel=_FORM)]
AsCsv = Annotated[bool, typer.Option("--csv", help="Write the tables as CSV.", rich_help_panel=_FORM)]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Write the tables as Markdown.", rich_help_panel=_FORM)]


def form_of(json: bool, csv: bool = False, markdown: bool = False) -> Form:
    """Return the form that the flags choose.

    Raises:
        typer.BadParameter: they choose several.
    """
    chosen = [form for form, flag in ((Form.json, json), (Form.csv, csv), (Form.markdown, markdown)) if flag]
    if len(chosen) > 1:
        raise typer.BadParameter("give one of --json, --csv and --markdown")
    return chosen[0] if chosen else Form.table
