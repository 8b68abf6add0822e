"""Inputs and layers called like something that generated code uses: `torch`, `inf`, `nan`, `device`, `slice`.

A placeholder called `inf` is a parameter called `inf` of the generated function, which hides the constant: torch writes
infinity as ``inf`` (pytorch#198072). The input keeps its name, since calls give it by keyword; the generated code
imports the hidden object again once the input has a name of its own.
"""

from __future__ import annotations

import builtins
import re
from typing import Any

from torch.fx import Graph, GraphModule
from torch.fx.graph import _custom_builtins

from fxopt.core.saving import BufferTracer

_OTHER = {"NoneType": "from types import NoneType"}
_IMPORTS = {
    **{name: f"from builtins import {name}" for name in dir(builtins) if name.isidentifier()},
    **{name: _OTHER.get(name, each.import_str) for name, each in _custom_builtins.items()},
}
"""The bare names that generated code refers to, and the statement that brings each back."""

_RENAMED = re.compile(r"(\w+) = (\w+)\n")
"""The statement by which generated code gives an input another name."""


def hidden_names(graph: Graph) -> list[str]:
    """Return the inputs that hide names which generated code may use."""
    return [str(node.target) for node in graph.find_nodes(op="placeholder") if node.target in _IMPORTS]


def keep_apart(graph: Graph) -> None:
    """Let the generated code of `graph`, and of its copies and pickles, bring back the names that its inputs hide.

    A node called ``self``, as that of a layer of this name, gets another name: the code calls the graph module that.
    """
    called_self = [node for node in graph.nodes if node.name == "self"]
    for node in called_self:
        node._rename("self_")
    if called_self:
        graph._tracer_cls = _KeepsApart
    if hidden_names(graph):
        graph.on_generate_code(lambda previous: _bringing_back)
        graph._tracer_cls = _KeepsApart


class _KeepsApart(BufferTracer):
    """Traces a pickled graph module again: a pickle holds code, but not the way in which it was generated."""

    def trace(self, *args: Any, **kwargs: Any) -> Graph:
        graph = super().trace(*args, **kwargs)
        keep_apart(graph)
        return graph


def _bringing_back(body: list[str]) -> list[str]:
    code, found = "".join(body), []
    for line in body:
        found.append(line)
        renamed = _RENAMED.fullmatch(line)
        if renamed and renamed[2] in _IMPORTS and _used(renamed[2], code.replace(line, "", 1)):
            found.append(f"{_IMPORTS[renamed[2]]}\n")
    return found


def _used(name: str, code: str) -> bool:
    return re.search(rf"(?<![\w.]){name}\b", code) is not None


def hidden_in(gm: GraphModule) -> list[str]:
    """Return the inputs of a graph module from elsewhere that hide names which its generated code uses.

    Its nodes and the code that runs then differ.
    """
    if gm.graph._codegen._body_transformer is _bringing_back:
        return []
    body = gm.code.partition("):\n")[2]
    return [name for name in hidden_names(gm.graph) if len(re.findall(rf"(?<![\w.]){name}\b", body)) > 1]
