"""``fxopt app``: the page."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fxopt_cli.options import Inputs
from fxopt_cli.sources import UsageError, model_of

HERE = "127.0.0.1"
"""That of `fxopt.ui.command`, whose import would take seconds."""
LOOPBACK = (HERE, "localhost", "::1")


def _offer(models: Sequence[str], inputs: Sequence[str]) -> None:
    """Build models, and offer them in the picker of the page."""
    if not models:
        return
    from fxopt.ui.own_models import OwnModel, offer

    given = [model_of(text, None, None, inputs) for text in models]
    builtin = next((text for text, one in zip(models, given) if one.source.kind in ("zoo", "folder")), None)
    if builtin is not None:
        raise UsageError(
            f"{builtin}: the picker of the page opens it; give module:callable, file.py:callable or a .pt2 here"
        )
    models_here = [OwnModel.of(one.title, one.model, one.args, one.kwargs) for one in given]
    offer(models_here)
    for one in models_here:
        for told in (*one.remarks, *([str(one.captured)] if isinstance(one.captured, Exception) else [])):
            typer.echo(f"fxopt app: {one.title}: {told}", err=True)


class AppCommand(TyperCommand):
    """A command whose ``--folders`` takes several values: ``--folders /a /b`` is ``--folders /a --folders /b``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _repeated(args, "--folders"))


def _repeated(args: list[str], option: str) -> list[str]:
    """Return the arguments with the option before each of its values.

    >>> _repeated(["--folders", "/a", "/b", "--port", "1"], "--folders")
    ['--folders', '/a', '--folders', '/b', '--port', '1']
    """
    found: list[str] = []
    inside = False
    for i, one in enumerate(args):
        if one == option and i + 1 < len(args) and not args[i + 1].startswith("-"):
            inside = True
            continue
        inside = inside and not one.startswith("-")
        found += [option, one] if inside else [one]
    return found


def app(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL]...",
            help="Your own models to begin with: module:callable, file.py:callable or a .pt2; they run as your code.",
        ),
    ] = None,
    input: Inputs = None,
    serve: Annotated[
        str,
        typer.Option(
            "--serve", metavar="HOST", help="The address to listen at; 0.0.0.0 is every network of this machine."
        ),
    ] = HERE,
    folders: Annotated[
        list[Path] | None,
        typer.Option(
            "--folders", metavar="FOLDER...", help="Open folders with weights only where they lie below these."
        ),
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port to listen at.")] = 8501,
    lessons: Annotated[
        list[Path] | None,
        typer.Option("--lessons", metavar="FILE", help="A lesson of your own, read anew as you save it, and checked."),
    ] = None,
    headless: Annotated[bool, typer.Option("--headless", help="Open no browser.")] = False,
    allow_code: Annotated[
        bool,
        typer.Option("--allow-code", help="Let users of this machine write rules in the page, which are run on it."),
    ] = False,
    workshop: Annotated[
        bool,
        typer.Option(
            "--workshop", help="Serve a class: small models, captured before it begins, and less for each run."
        ),
    ] = False,
) -> None:
    """Serve the page.

    It listens on this machine alone, and asks no other one for anything. With --serve, others can use it too. They may
    open the models of the picker, and of this machine's folders those below --folders. One run may take 4 GB beside
    the weights and 2 TFLOP: FXOPT_MOST_GB and FXOPT_MOST_TFLOP say otherwise. With --workshop it serves a class:
    docs/workshop.md has the whole of it.

    \b
    Examples:
      fxopt app
      fxopt app model.py:make_model other_package.models:make --headless
      fxopt app --lessons my-lesson.md
      fxopt app --allow-code
      fxopt app --workshop --serve 0.0.0.0 --headless
      fxopt app --serve 0.0.0.0 --folders /models /more-models --headless
    """
    for folder in folders or ():
        if not folder.is_dir() or os.pathsep in str(folder):
            raise UsageError(f"--folders: {folder} is no folder")
    if workshop and folders:
        raise UsageError("--workshop opens no folders of this machine; leave --folders out")
    if allow_code and (workshop or serve not in LOOPBACK):
        raise UsageError("--allow-code is for this machine alone; leave it out with --serve and --workshop")
    for file in lessons or ():
        if not file.is_file():
            raise UsageError(f"--lessons: {file} is no file")
    _offer(models or (), input or ())
    from fxopt.ui import command

    if lessons:
        from fxopt.ui.own_lessons import offer_lessons

        offer_lessons([file.absolute() for file in lessons])
    below = tuple(os.path.abspath(folder) for folder in folders or ())
    command.serve(command.Serving(serve, below, port, headless, allow_code, workshop))
