"""The forward of a graph as plain Python: its source, its imports, and the classes of its results."""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import Graph, GraphModule, Node

from fxopt.export.spelling import UnspelledError, text_of
from fxopt.graph.copying import shared_copy

_ALLOWED = ("torch", "math", "operator", "_operator", "builtins", "collections", "functools", "itertools", "typing")
"""The packages that an exported file may import from: torch, and Python's own."""

_BARE = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "from types import NoneType",
    "device": "from torch import device",
}


OUTPUT = '''
class Output(dict):
    """A result with named parts: ``out.logits``, ``out["logits"]`` and ``out[0]``; parts that are None are left out."""

    fields = ()

    def __init__(self, *values, **named):
        given = {**dict(zip(self.fields, values)), **named}
        super().__init__({name: given[name] for name in self.fields if given.get(name) is not None})

    def __getattr__(self, name):
        if name in self.fields:
            return self.get(name)
        raise AttributeError(name)

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def to_tuple(self):
        return tuple(self.values())
'''.strip()
"""The base class of results of transformers in an exported file."""


@dataclass(frozen=True)
class Forward:
    """The source of ``forward``, the imports and classes that it needs, and the reasons why it cannot be written."""

    source: str
    imports: tuple[str, ...]
    classes: tuple[str, ...]
    problems: tuple[str, ...]


def forward_of(gm: GraphModule) -> Forward:
    """Return the forward of a graph module as Python source."""
    codegen = type(gm.graph._codegen).__name__
    if codegen != "CodeGen":
        problem = f"its code is written by {codegen}, as for a module of torch.export; capture the eager model instead"
        return Forward("", (), (), (problem,))
    graph = shared_copy(gm, compiled=False).graph
    for node in graph.nodes:
        if not _is_plain_type(node.type):
            node.type = None
    code = graph.python_code("self")
    imports, classes, problems = [], [], []
    for name, value in code.globals.items():
        if not re.search(rf"(?<![\w.]){re.escape(name)}\b", code.src) or name == "torch":
            continue
        try:
            statement = _BARE.get(name) or _import(name, value)
            if statement is None:
                classes.append(_class(name, value))
            elif statement:
                imports.append(statement)
        except UnspelledError as error:
            problems.append(f"{_users(graph, value)}: {error}")
    if any("(Output)" in one for one in classes):
        classes.insert(0, OUTPUT)
    return Forward(code.src.strip("\n"), tuple(dict.fromkeys(imports)), tuple(classes), tuple(problems))


def _is_plain_type(kind: Any) -> bool:
    return kind is None or (isinstance(kind, type) and kind.__module__.partition(".")[0] in ("torch", "builtins"))


def _import(name: str, value: Any) -> str | None:
    """Return the statement that imports a global, empty if it needs none; None for a class to be written out.

    Raises:
        UnspelledError: it stands in a package that an exported file does not import.
    """
    if getattr(builtins, name, None) is value:
        return ""
    module, own = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if isinstance(value, type) and (dataclasses.is_dataclass(value) or _is_named_tuple(value)):
        return None
    if isinstance(module, str) and isinstance(own, str) and module.partition(".")[0] in _ALLOWED:
        found: Any = importlib.import_module(module)
        if getattr(found, own, None) is value:
            return f"from {module} import {own}" + (f" as {name}" if name != own else "")
    where = f"{module}.{own}" if own else repr(value)
    raise UnspelledError(f"{where} is code outside of torch, which the file cannot import")


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _class(name: str, kind: Any) -> str:
    """Return the source of a class of results, with the same fields.

    A ``ModelOutput`` of transformers becomes an `Output`, which gives its parts by name and by number as that one does.

    Raises:
        UnspelledError: it has code or defaults of its own.
    """
    if _is_named_tuple(kind):
        defaults = text_of(tuple(kind._field_defaults[f] for f in kind._fields if f in kind._field_defaults))
        return f"{name} = namedtuple({name!r}, {text_of(tuple(kind._fields))}, defaults={defaults})"
    fields = dataclasses.fields(kind)
    names = text_of(tuple(field.name for field in fields))
    if any(base.__name__ == "ModelOutput" for base in kind.__mro__):
        return f'class {name}(Output):\n    """Result of the model."""\n\n    fields = {names}'
    if "__post_init__" in dir(kind):
        raise UnspelledError(
            f"{kind.__module__}.{kind.__qualname__} has code of its own; return a tuple or dict instead"
        )
    lines = [f"@dataclass\nclass {name}:"]
    for field in fields:
        has_default = field.default is not dataclasses.MISSING
        if field.default_factory is not dataclasses.MISSING:
            raise UnspelledError(f"{kind.__qualname__}.{field.name} has a default that is made by a function")
        lines.append(f"    {field.name}: object" + (f" = {text_of(field.default)}" if has_default else ""))
    return "\n".join(lines)


def _users(graph: Graph, value: Any) -> str:
    """Return the nodes that use a global, in words."""

    def uses(node: Node) -> Iterator[bool]:
        yield node.target is value
        yield any(arg is value or type(arg) is value for arg in (*node.args, *node.kwargs.values()))

    names = [node.name for node in graph.nodes if any(uses(node))]
    return ", ".join(names[:3]) or "the graph"
