"""``fxopt app``: the page."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from fxopt_cli.names import complete_lesson, complete_model
from fxopt_cli.options import Inputs
from fxopt_cli.output import Answer, Form, show
from fxopt_cli.sources import FORMS, UsageError, data_source, model_of

if TYPE_CHECKING:
    from fxopt.ui.command import Serving

HERE = "127.0.0.1"
"""That of `fxopt.ui.command`, whose import would take seconds."""
LOOPBACK = (HERE, "localhost", "::1")


def _offer(models: Sequence[str], inputs: Sequence[str], serving: Serving) -> list[str]:
    """Offer models in the picker of the page, those of one's own captured, and return their names.

    The page opens on the first one. It opens a built-in model or a folder itself: there is one such model at most.
    """
    if not models:
        return []
    from fxopt.ui.opening import FOLDER
    from fxopt.ui.own_models import OwnModel, begin_with, offer

    known = [(text, data) for text in models if (data := data_source(text)) is not None]
    for text, (source, name) in known[:1]:
        if len(known) > 1:
            raise UsageError(
                f"{known[1][0]}: the page begins with one built-in model or folder; its picker opens others"
            )
        if inputs:
            raise UsageError(f"{text} draws its own inputs; leave --input out, and choose sizes on the page")
        if text != models[0]:
            raise UsageError(f"{text}: the page begins with it, so name it first")
        if serving.workshop:
            raise UsageError(f"{text}: a workshop begins with its small models; leave it out")
        if name.kind == "folder" and (serving.address not in LOOPBACK or serving.folders):
            raise UsageError(f"{text}: with --folders, or where others use the page, folders are opened on the page")
        source.sizes  # noqa: B018 - a folder without a config is told here
    given = [model_of(text, None, None, inputs) for text in models if text not in [text for text, _ in known]]
    models_here = [OwnModel.of(one.title, one.model, one.args, one.kwargs) for one in given]
    offer(models_here)
    for text, (_, name) in known:
        if text == models[0]:
            begin_with(*((FOLDER, name.name) if name.kind == "folder" else (name.name,)))
    for one in models_here:
        for told in (*one.remarks, *([str(one.captured)] if isinstance(one.captured, Exception) else [])):
            typer.echo(f"fxopt app: {one.title}: {told}", err=True)
    return list(models)


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
            metavar="MODEL",
            help=f"Models to begin with, each {FORMS}. A callable runs as your code, and so can a .pt2.",
            autocompletion=complete_model,
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
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port to listen at; 0 is any that is free.")
    ] = 8501,
    lessons: Annotated[
        list[Path] | None,
        typer.Option(
            "--lessons",
            metavar="FILE",
            help="A lesson of your own, read anew as you save it, and checked.",
            autocompletion=complete_lesson,
        ),
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
    json: Annotated[
        bool, typer.Option("--json", help="Write address and models as JSON (docs/cli.md has its shape), then serve.")
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
      fxopt app bert-base
      fxopt app path/to/weights
      fxopt app model.py:make_model other_package.models:make --headless
      fxopt app --lessons my-lesson.md
      fxopt app --allow-code
      fxopt app --workshop --serve 0.0.0.0 --headless
      fxopt app --serve 0.0.0.0 --folders /models /more-models --headless
    """
    for folder in folders or ():
        if not folder.is_dir() or os.pathsep in str(folder):
            raise UsageError(f"--folders: {folder} is not a folder")
    if workshop and folders:
        raise UsageError("--workshop keeps the folders of this machine closed; leave --folders out")
    if allow_code and (workshop or serve not in LOOPBACK):
        raise UsageError("--allow-code is for this machine alone; leave it out with --serve and --workshop")
    for file in lessons or ():
        if not file.is_file():
            raise UsageError(f"--lessons: {file} is not a file")
    from fxopt.ui import command

    below = tuple(os.path.abspath(folder) for folder in folders or ())
    serving = command.Serving(serve, below, port, headless, allow_code, workshop)
    offered = _offer(models or (), input or (), serving)
    if lessons:
        from fxopt.ui.own_lessons import offer_lessons

        offer_lessons([file.absolute() for file in lessons])
    try:
        _serve(serving, offered, json)
    except command.AddressError as error:
        raise UsageError(str(error)) from None


def _serve(serving: Serving, offered: Sequence[str], json: bool) -> None:
    from fxopt.ui import command

    if not json:
        command.serve(serving)
        return
    serving = command.at_free_port(serving)
    show(Answer({"address": serving.url, "models": offered}), Form.json, "app")
    sys.stdout.flush()
    with redirect_stdout(sys.stderr):  # Streamlit greets there
        command.serve(serving)
