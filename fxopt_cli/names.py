"""Completion for a shell: models, passes, files. Names are read out of sources: imports of them take seconds."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path


def _source(*parts: str) -> ast.Module:
    spec = find_spec("fxopt")
    folder = Path(str(spec.origin)).parent if spec is not None else Path()
    return ast.parse(folder.joinpath(*parts).read_text(encoding="utf-8"))


def pass_names() -> list[str]:
    """Return the names of the passes: those of ``ALL_PASSES``, the approximate ones, then those of other packages.

    That a package's pass can be imported is not checked here.
    """
    built_in = _built_in_names()
    others = sorted(
        entry_points(group="fxopt.passes"), key=lambda point: (str(point.dist and point.dist.name), point.name)
    )
    return list(dict.fromkeys([*built_in, *(point.name for point in others)]))


def _built_in_names() -> list[str]:
    found = []
    for node in _source("passes", "__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("ALL_PASSES", "APPROXIMATE_PASSES"):
            found += [ast.unparse(one) for one in node.value.args] if isinstance(node.value, ast.Call) else []
    return found


def model_names() -> list[str]:
    """Return the keys of the built-in models, those of the zoo."""
    found = []
    for file in ("trained.py", "architectures.py", "teaching.py"):
        for node in ast.walk(_source("models", file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "TrainedModel",
                "Architecture",
                "TeachingModel",
            ):
                found += [ast.literal_eval(key.value) for key in node.keywords if key.arg == "key"]
    return found


def complete_pass(incomplete: str) -> list[str]:
    """Return the passes that begin with a text, for the shell."""
    return [name for name in pass_names() if name.lower().startswith(incomplete.lower())]


def complete_model(incomplete: str) -> list[str]:
    """Return the values of MODEL that begin with a text, for the shell.

    That is a built-in model, a model in the cache of Hugging Face, a folder, a ``.pt2``, or a Python file. Of a file
    that is alone, it is each function that can make a model: ``model.py:make``.
    """
    before, colon, name = incomplete.rpartition(":")
    if colon and before.endswith(".py"):
        return [f"{before}:{one}" for one in _makers(before) if one.startswith(name)]
    known = [one for one in (*model_names(), *_cached_ids()) if one.startswith(incomplete)]
    found = known + complete_file(incomplete, ".py", ".pt2")
    if len(found) == 1 and found[0].endswith(".py"):
        return [f"{found[0]}:{one}" for one in _makers(found[0])] or found
    return found


def complete_recipe(incomplete: str) -> list[str]:
    """Return the JSON files and the folders that begin with a text, for the shell."""
    return complete_file(incomplete, ".json")


def complete_lesson(incomplete: str) -> list[str]:
    """Return the Markdown files and the folders that begin with a text, for the shell."""
    return complete_file(incomplete, ".md")


def complete_file(incomplete: str, *endings: str) -> list[str]:
    """Return the folders, each with a slash at its end, and the files of some endings that begin with a text.

    A folder that is alone is opened, so that the shell goes on in it. Hidden ones are named where a dot was written.
    """
    folder, beginning = os.path.split(incomplete)
    found = []
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda one: one.name)
    except OSError:  # no such folder, or one that is closed to this user: there is nothing to complete
        return []
    for entry in entries:
        is_named = entry.name.startswith(beginning) and entry.name.startswith(".") <= beginning.startswith(".")
        if is_named and (entry.is_dir() or entry.name.endswith(endings)):
            found.append(os.path.join(folder, entry.name) + ("/" if entry.is_dir() else ""))
    if len(found) == 1 and found[0].endswith("/"):
        found += complete_file(found[0], *endings)
    return found


def _makers(file: str) -> Iterator[str]:
    """Yield the public functions of a Python file that can be called without arguments."""
    try:
        tree = ast.parse(Path(file).expanduser().read_bytes())
    except (OSError, SyntaxError, ValueError):  # a file that cannot be read has no names to complete
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            given = node.args
            if len(given.posonlyargs) + len(given.args) <= len(given.defaults) and None not in given.kw_defaults:
                yield node.name


def _cached_ids() -> list[str]:
    """Return the ids of the models in the cache of Hugging Face on this machine."""
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")).expanduser()
    parts = [one.name.split("--") for one in sorted(cache.glob("models--*--*"))]
    return ["/".join(one[1:]) for one in parts if len(one) == 3]
