"""Python modules made of a file, beside those that are imported by name."""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType


def module_of_file(file: Path, name: str, *, replaces: bool = True) -> ModuleType:
    """Return the module of a Python file, run under this name and registered among those of the process.

    Args:
        replaces: whether it is registered in the place of another one of its name.

    Raises:
        Exception: whatever the file raises.
    """
    path = str(file.absolute())
    loader = SourceFileLoader(name, path)
    spec = ModuleSpec(name, loader, origin=path)
    spec.has_location = True  # it becomes `__file__`
    module = importlib.util.module_from_spec(spec)
    if replaces or name not in sys.modules:
        sys.modules[name] = module  # dataclasses and pickles look their module up
    loader.exec_module(module)
    return module
