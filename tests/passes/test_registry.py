"""The registry: one line for each pass, and no pass knows another."""

import ast
import inspect
import sys
from pathlib import Path

from fxopt import ALL_PASSES
from fxopt.core import Pass


def imported_by(module: str) -> set[str]:
    tree = ast.parse(Path(inspect.getfile(sys.modules[module])).read_text())
    froms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return froms | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


def test_every_pass_file_is_registered_once() -> None:
    folder = Path(inspect.getfile(ALL_PASSES[0])).parent
    modules = [f"fxopt.passes.{file.stem}" for file in folder.glob("*.py") if file.stem != "__init__"]
    found = [
        kind
        for module in modules
        for kind in vars(sys.modules[module]).values()
        if isinstance(kind, type) and issubclass(kind, Pass) and kind.__module__ == module
    ]
    assert sorted(found, key=str) == sorted(ALL_PASSES, key=str)


def test_no_pass_imports_another() -> None:
    homes = {kind.__module__ for kind in ALL_PASSES}
    assert len(homes) == len(ALL_PASSES)
    for home in homes:
        assert not imported_by(home) & (homes | {"fxopt.passes"}), home
