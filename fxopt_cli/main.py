"""The command ``fxopt`` and its commands. torch is imported only by a command that needs it."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from fxopt_cli import choosing, inspecting, judging, keeping, page, rewriting, teaching, timing
from fxopt_cli.options import expanded
from fxopt_cli.output import Exit, Form, to_json
from fxopt_cli.sources import ModelFailedError, UsageError

TRACEBACK = "FXOPT_TRACEBACK"
"""Set this variable to see the traceback of a failure."""

_ABOUT = """\
Reversible torch.fx graph transformations: look at a model, rewrite it, judge the rewrite, keep it.

\b
Begin with:
  fxopt models                             the built-in models
  fxopt scan bert-base                     where passes apply, and why not
  fxopt compare bert-base -p MergeLinears  does it compute the same?
  fxopt app                                the page

\b
Exit codes: 0 done, or yes; 1 the answer is no; 2 something wrong was given; 3 the work failed.
"""

cli = typer.Typer(
    name="fxopt",
    help=_ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fxopt {version('fxopt')}")
        raise typer.Exit


@cli.callback(help=_ABOUT)
def _top(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options of the command itself."""


def told(name: str, command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command whose errors are a sentence, or with ``--json`` an object, and an exit code.

    `name` is the one by which it is called.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (UsageError, ModelFailedError) as error:
            code = Exit.wrong if isinstance(error, UsageError) else Exit.failed
            _fail(name, error, code, as_json=kwargs.get("json", False))
        except BrokenPipeError:  # the reader, such as head, has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Exit.yes) from None
        except Exception as error:
            from fxopt import FxoptError, ModelError, RecipeError

            if not isinstance(error, FxoptError):
                raise
            wrong = isinstance(error, ModelError | RecipeError)
            no = isinstance(error, RecipeError) and error.is_refusal
            code = Exit.no if no else Exit.wrong if wrong else Exit.failed
            _fail(name, error, code, as_json=kwargs.get("json", False), remedy=_remedy(name) if no else "")

    return run


def _remedy(command: str) -> str:
    """Return the remedy for a recipe that was refused, in the words of the command."""
    return "--rest takes it as it is." if command == "replay" else "fxopt replay --rest tells which parts still apply."


def _fail(command: str, error: Exception, code: Exit, as_json: bool, remedy: str = "") -> None:
    """Write an error, and end the command with a code. `remedy` takes the place of the one for Python."""
    message = str(error)
    if remedy:
        from fxopt.recipes.replay import APPLIES_THE_REST, TAKES_IT

        message = message.replace(APPLIES_THE_REST, remedy).replace(TAKES_IT, remedy)
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    if as_json:
        facts = {
            name: value
            for name in ("path", "line", "file", "remedy")
            if (value := getattr(error, name, None)) not in (None, "")
        }
        facts = {name: value if isinstance(value, int | str) else str(value) for name, value in facts.items()}
        kind = type(error).__name__
        sys.stdout.write(to_json({"command": command, "error": {"kind": kind, "message": message, **facts}}))
    typer.echo(f"fxopt {command}: {message}", err=True)
    raise typer.Exit(code)


for _name, _command in (
    ("app", page.app),
    ("models", inspecting.models),
    ("passes", inspecting.passes),
    ("capture", inspecting.capture),
    ("scan", inspecting.scan),
    ("draw", inspecting.draw),
    ("apply", rewriting.apply),
    ("reverse", rewriting.reverse),
    ("compare", judging.compare),
    ("bench", judging.bench),
    ("times", timing.times),
    ("bisect", choosing.bisect),
    ("autotune", choosing.autotune),
    ("replay", keeping.replay),
    ("export", keeping.export),
):
    cli.command(_name, cls=page.AppCommand if _name == "app" else TyperCommand)(told(_name, expanded(_command)))

_about_lessons = """\
The lessons of the page: list them, check one of your own, read codes that were handed in.

\b
Examples:
  fxopt lessons list --json
  fxopt lessons check my-lesson.md
  fxopt lessons code CD6C-A4GM-R8FY
"""
_lessons = typer.Typer(help=_about_lessons, no_args_is_help=True)
_lessons.command("list", cls=TyperCommand)(told("lessons list", expanded(teaching.lessons)))
_lessons.command("check", cls=TyperCommand)(told("lessons check", expanded(teaching.check)))
_lessons.command("code", cls=TyperCommand)(told("lessons code", expanded(teaching.code)))
cli.add_typer(_lessons, name="lessons")


def main() -> None:
    """Run the command with the arguments of this process."""
    cli(prog_name="fxopt")


__all__ = ["Form", "cli", "main"]
