"""Models by name: a built-in one, a callable in a module or file, or a folder of weights."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fxopt.process.modules import module_of_file

if TYPE_CHECKING:
    from fxopt.models import ModelSource
    from fxopt.recipes import Model

FORMS = (
    "a built-in model (fxopt models), module:callable, file.py:callable, file.py alone, a folder with config.json and "
    "safetensors, owner/name of a Hugging Face model in the cache of this machine, or a .pt2 of torch.export"
)
_CALLABLE = re.compile(r"(?P<where>.+):(?P<name>[A-Za-z_][\w.]*)")


class UsageError(Exception):
    """Something wrong that the command was given; the message names it and its remedy."""


def check_target(option: str, file: Path | None) -> None:
    """Check that a file can be written where an option says, before the work that it is to keep.

    Raises:
        UsageError: there is no such folder, the file is a folder, or it cannot be written there.
    """
    if file is None:
        return
    try:
        if file.is_dir():
            raise UsageError(f"{option} {file}: this is a folder; give a file")
        if not file.parent.is_dir():
            raise UsageError(f"{option} {file}: there is no folder {file.parent}; make it first")
        place = file if file.exists() else file.parent
    except OSError as error:  # a name that is too long, or a folder that cannot be looked into
        raise UsageError(f"{option} {file}: it cannot be written ({error.strerror})") from None
    if not os.access(place, os.W_OK):
        raise UsageError(f"{option} {file}: it cannot be written (no permission for {place})")


class ModelFailedError(Exception):
    """The user's own code failed; the message has the error and its line."""


@dataclass(frozen=True, eq=False)
class Given:
    """A model in eval mode with its example inputs, and its source for a recipe."""

    title: str
    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    source: Model
    batch: int | None = None
    sequence: int | None = None


def model_of(text: str, batch: int | None, sequence: int | None, inputs: Sequence[str]) -> Given:
    """Return the model that a text names, with example inputs.

    Raises:
        UsageError: the text names no model, or the inputs are none.
        ModelFailedError: code of the user's failed.
        fxopt.FxoptError: the model cannot be built.
    """
    from fxopt.models import ZOO
    from fxopt.models.from_code import PICKLES

    data = data_source(text)
    if data is not None:
        return _sized(*data, batch, sequence, inputs)
    if text.endswith(".pt2"):
        return _program(text, batch, sequence, inputs)
    if text.endswith(PICKLES):
        raise UsageError(
            f"{text}: such a file can run code when it is read, so fxopt leaves it unread. Save safetensors beside a "
            "config.json (model.save_pretrained), or load it in a function of yours and give file.py:function"
        )
    if text.endswith((".safetensors", ".json")):
        raise UsageError(f"{text}: give the folder in which config.json and the safetensors lie together")
    if text.endswith(".py"):
        return _called(text, text, "", batch, sequence, inputs)
    found = _CALLABLE.fullmatch(text)
    if found is None:
        raise UsageError(_unknown(text, [source.key for source in ZOO]))
    return _called(text, found["where"], found["name"], batch, sequence, inputs)


def data_source(text: str) -> tuple[ModelSource, Model] | None:
    """Return the source of a model that is data, and its name in a recipe; None for one that code makes.

    Data is a built-in model, a folder, and a model in the cache of Hugging Face.

    Raises:
        fxopt.ModelError: the text is an id of Hugging Face, and there is no such model in the cache.
    """
    from fxopt.models import ZOO, CachedModel, LocalFolder, model_source
    from fxopt.models.from_code import PICKLES
    from fxopt.models.hugging_face import is_hub_id
    from fxopt.recipes import Model

    if text in [source.key for source in ZOO]:
        return model_source(text), Model("zoo", text)
    if Path(text).is_dir():
        return LocalFolder(Path(text)), Model("folder", os.path.abspath(text))
    if is_hub_id(text) and not text.endswith((".py", ".pt2", *PICKLES)):
        return CachedModel.of(text), Model("folder", text)
    return None


def _unknown(text: str, known: Sequence[str]) -> str:
    from fxopt.errors import did_you_mean

    return f"no model is called {text!r}.{did_you_mean(text, known)} A model is {FORMS}"


def _program(text: str, batch: int | None, sequence: int | None, inputs: Sequence[str]) -> Given:
    """Return the module of a program of `torch.export`, after a word of warning."""
    from fxopt.models.from_code import PROGRAM_RUNS_CODE, from_program
    from fxopt.recipes import Model

    if not Path(text).is_file():
        raise UsageError(f"there is no file {text}")
    if batch is not None or sequence is not None:
        raise UsageError(f"{text} has the inputs that it was exported with; give others with --input, as 2x3x224x224")
    sys.stderr.write(f"fxopt: {text}: {PROGRAM_RUNS_CODE}\n")
    made = from_program(Path(text))
    args, kwargs = (tuple(map(_tensor, inputs)), {}) if inputs else (made.args, made.kwargs)
    return Given(text, made.model, args, kwargs, Model("given", text))


def _sized(source: Any, model: Model, batch: int | None, sequence: int | None, inputs: Sequence[str]) -> Given:
    if inputs:
        raise UsageError(f"{source.title} draws its own inputs; choose --batch and --sequence instead of --input")
    batch, sequence = source.sizes.checked(source.title, batch, sequence)
    built = source.build()
    args, kwargs = source.inputs(built, batch, sequence)
    return Given(source.title, built, args, kwargs, model, batch, sequence)


def _called(text: str, where: str, name: str, batch: int | None, sequence: int | None, inputs: Sequence[str]) -> Given:
    """Return the model of a callable, or with an empty `name` that of a file as a whole."""
    from fxopt.models.from_code import parts_of
    from fxopt.recipes import Model

    with _own_code(text):
        model, example = parts_of(_made(text, _module(where), name), text)
    args, kwargs = _inputs(text, model, example, batch, sequence, inputs)
    return Given(text, model, args, kwargs, Model("python", text), batch, sequence)


def _made(text: str, module: ModuleType, name: str) -> Any:
    from torch import nn

    from fxopt.errors import did_you_mean
    from fxopt.models.from_code import maker_in

    if not name:
        return maker_in(module, text, f"give one, as {text}:{{}}")()
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            public = sorted(
                one for one, value in vars(found).items() if not (one.startswith("_") or isinstance(value, ModuleType))
            )
            known = ", ".join(public[:20]) or "nothing"
            where = text.removesuffix(":" + name)
            raise UsageError(f"{where} has no {part!r}; it has {known}.{did_you_mean(part, public)}")
        found = getattr(found, part)
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        raise UsageError(f"{text} is a {type(found).__name__}; it has to be a model or a function that makes one")
    _check_arguments(text, found)
    return found()


def _check_arguments(text: str, made: Any) -> None:
    try:
        inspect.signature(made).bind()
    except TypeError as error:
        raise UsageError(
            f"{text} needs arguments ({error}); give a function that makes the model without any"
        ) from None
    except ValueError:
        return  # it has no signature: the call says more


def _inputs(
    text: str, model: Any, example: Any, batch: int | None, sequence: int | None, inputs: Sequence[str]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Return the inputs of --input, those that came with the model, or made ones."""
    import fxopt

    if (inputs or example is not None) and (batch is not None or sequence is not None):
        brought = "--input gives" if inputs else f"{text} brings"
        raise UsageError(
            f"{brought} the inputs with their sizes; leave --batch and --sequence out, or give other inputs with "
            "--input, as 2x3x224x224"
        )
    if inputs:
        return tuple(map(_tensor, inputs)), {}
    if example is not None:
        return example
    sizes: dict[str, Any] = {
        name: size for name, size in (("batch", batch), ("sequence", sequence)) if size is not None
    }
    try:
        return (), fxopt.example_inputs(model, **sizes)
    except (fxopt.FxoptError, TypeError, ValueError) as error:
        raise UsageError(
            f"the inputs of {text} are unknown. Give each as dtype and sizes, as in --input 2x3x224x224 or "
            f"--input int64:2x16, or let the function return (model, args). {error}"
        ) from None


def _tensor(text: str) -> Any:
    """Return a tensor of a spec such as ``2x3x8x8`` or ``int64:2x16``: the same on each call."""
    import torch

    kind, _, sizes = text.rpartition(":")
    dtype = getattr(torch, kind or "float32", None)
    if not isinstance(dtype, torch.dtype) or not re.fullmatch(r"\d+(x\d+)*|scalar", sizes):
        raise UsageError(f"--input {text}: write it as a dtype and sizes, such as 2x3x224x224 or int64:2x16")
    shape = [] if sizes == "scalar" else [int(size) for size in sizes.split("x")]
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.ones(shape, dtype=dtype)


def _module(where: str) -> ModuleType:
    is_file = where.endswith(".py")
    if is_file and not Path(where).is_file():
        raise UsageError(f"there is no file {where}")
    folder = str(Path(where).resolve().parent) if is_file else os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as for a script, and for python -m
    if not is_file:
        if not all(part.isidentifier() for part in where.split(".")):
            raise UsageError(f"{where!r} is neither a module nor a .py file; a model is {FORMS}")
        return importlib.import_module(where)
    return module_of_file(Path(where), Path(where).stem, replaces=False)


@contextlib.contextmanager
def _own_code(text: str) -> Iterator[None]:
    """Run the user's code: its prints go to standard error, and its failure is told with its line."""
    from fxopt.errors import ModelError

    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (UsageError, ModelError):
        raise
    except ModuleNotFoundError as error:
        if error.name and text.startswith(error.name):
            raise UsageError(f"there is no module {error.name}; it is looked for in {os.getcwd()} too") from None
        raise ModelFailedError(_told(text, error)) from error
    except (Exception, SystemExit) as error:
        raise ModelFailedError(_told(text, error)) from error


def _told(text: str, error: BaseException) -> str:
    from fxopt.models.from_code import place_of

    file, line = place_of(error)
    return f"{text} failed at {file}:{line}: {type(error).__name__}: {error}"
