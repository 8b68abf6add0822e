"""Names for the completion of a shell, read out of the sources of `fxopt`: importing them would take seconds."""

from __future__ import annotations

import ast
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path


def _source(*parts: str) -> ast.Module:
    spec = find_spec("fxopt")
    folder = Path(str(spec.origin)).parent if spec is not None else Path()
    return ast.parse(folder.joinpath(*parts).read_text(encoding="utf-8"))


def pass_names() -> list[str]:
    """Return the names of the registered passes: those that stand in ``ALL_PASSES``, then those of other packages.

    That a package's pass can be imported is not checked here.
    """
    built_in = _built_in_names()
    others = sorted(
        entry_points(group="fxopt.passes"), key=lambda point: (str(point.dist and point.dist.name), point.name)
    )
    return list(dict.fromkeys([*built_in, *(point.name for point in others)]))


def _built_in_names() -> list[str]:
    for node in _source("passes", "__init__.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "ALL_PASSES":
            call = node.value
            return [ast.unparse(one) for one in call.args] if isinstance(call, ast.Call) else []
    return []


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
    """Return the built-in models that begin with a text, for the shell."""
    return [name for name in model_names() if name.startswith(incomplete)]
