"""Models that are had only by running code: a file of Python, or a program that `torch.export.save` wrote.

Reading either runs its author's code, with all rights of this process. So each caller first has the word of the
person: the command line by the name that they gave, the page by ``fxopt app --allow-code``.
"""

from __future__ import annotations

import inspect
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from fxopt.errors import FxoptError, ModelError
from fxopt.models.source import Inputs
from fxopt.process.modules import module_of_file
from fxopt.tracing import example_inputs

PROGRAM_RUNS_CODE = "reading a .pt2 file can run code of whoever wrote it"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".h5", ".msgpack")
"""The endings of weights that run code as they are read, and are refused."""
_FIRST = ("make_model", "make")
"""The names of the function that is called where a file has several."""


@dataclass(frozen=True, eq=False)
class Made:
    """A model with an example call."""

    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def from_program(file: Path, name: str = "") -> Made:
    """Return the module of a program of `torch.export`, with the example that it was exported with.

    Args:
        name: of the file, for messages; its path if not given.

    Raises:
        ModelError: torch cannot read the file, or the program has no example.
    """
    name = name or str(file)
    told = logging.getLogger("torch.export")
    level = told.level
    told.setLevel(logging.CRITICAL)  # torch logs the traceback of each way of reading that fails
    try:
        program = torch.export.load(file)
    except Exception as error:  # torch raises errors of many kinds for a file that is none
        raise ModelError(f"{name}: torch.export cannot read it: {type(error).__name__}: {error}") from error
    finally:
        told.setLevel(level)
    if program.example_inputs is None:
        raise ModelError(f"{name}: it has no example inputs; export the model again with torch {torch.__version__}")
    args, kwargs = program.example_inputs
    return Made(program.module(), tuple(args), dict(kwargs))


def from_python(file: Path, name: str = "") -> Made:
    """Return the model that a function of a file of Python makes: a model, (model, args) or (model, args, kwargs).

    The function is ``make_model``, else ``make``, else the only one that can be called without arguments.

    Args:
        name: of the file, for messages; its path if not given.

    Raises:
        ModelError: the file or the function fails, with its line, or the function makes something else.
    """
    name = name or str(file)

    def made() -> Any:
        return maker_in(module_of_file(file, f"{file.stem}_{secrets.token_hex(8)}"), name)()

    model, example = parts_of(_run(name, made), name)
    if example is not None:
        return Made(model, *example)
    try:
        return Made(model, (), example_inputs(model))
    except (FxoptError, TypeError, ValueError) as error:
        raise ModelError(
            f"{name}: the inputs of its model are unknown; let the function return (model, args). {error}"
        ) from error


def parts_of(made: Any, name: str) -> tuple[nn.Module, Inputs | None]:
    """Return the model that a function made, in evaluation mode, and its example where it came with one.

    Args:
        name: of the function or its file, for messages.

    Raises:
        ModelError: it is no model, (model, args) or (model, args, kwargs).
    """
    model, *rest = made if isinstance(made, tuple) else (made,)
    if not isinstance(model, nn.Module) or len(rest) > 2 or not isinstance(rest[1] if rest[1:] else {}, Mapping):
        kinds = ", ".join(type(one).__name__ for one in (model, *rest))
        raise ModelError(f"{name} made {kinds}; it has to make a model, (model, args) or (model, args, kwargs)")
    model.eval()
    if not rest:
        return model, None
    args = rest[0] if isinstance(rest[0], tuple | list) else (rest[0],)
    return model, (tuple(args), dict(rest[1]) if rest[1:] else {})


def maker_in(module: ModuleType, name: str, remedy: str = "call the one to use make_model") -> Callable[[], Any]:
    """Return the function of a module that makes its model: `from_python` says which one.

    Args:
        name: of the file, for messages.
        remedy: for a file with several; ``{}`` stands for the name of the first.

    Raises:
        ModelError: there is none, or there are several.
    """
    functions = {key: one for key, one in vars(module).items() if _can_be_called(one, module)}
    if not functions:
        raise ModelError(f"{name} needs a function without arguments that makes a model; write def make_model(): ...")
    chosen = next((key for key in _FIRST if key in functions), "")
    if not chosen and len(functions) > 1:
        told = remedy.replace("{}", next(iter(functions)))
        raise ModelError(f"{name} has several functions ({', '.join(functions)}); {told}")
    return functions[chosen or next(iter(functions))]


def place_of(error: BaseException) -> tuple[str, int | None]:
    """Return file and line at which someone's code failed."""
    if isinstance(error, SyntaxError):
        return str(error.filename), error.lineno
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return (frame.tb_frame.f_code.co_filename, frame.tb_lineno) if frame is not None else ("", None)


def _can_be_called(value: object, module: ModuleType) -> bool:
    """Return whether a value is a public function of this module that takes no arguments, or only optional ones."""
    if not inspect.isfunction(value) or value.__module__ != module.__name__ or value.__name__.startswith("_"):
        return False
    try:
        inspect.signature(value).bind()
    except TypeError:
        return False
    return True


def _run(name: str, work: Callable[[], Any]) -> Any:
    """Return the answer of someone's code; its failure is told with its line."""
    try:
        return work()
    except ModelError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"{name} failed at line {place_of(error)[1]}: {type(error).__name__}: {error}") from error
