"""A graph module as frozen plain data: the source of every picture, table and export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from operator import attrgetter
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxopt.errors import expect_graph
from fxopt.graph.nodes import TensorInfo, info_of, inputs_of, module_of, module_stack_of, target_name
from fxopt.view.kinds import kind_of
from fxopt.view.node_view import NodeView
from fxopt.view.operands import Operands
from fxopt.view.parts import with_parts


@dataclass(frozen=True)
class GraphView:
    """Nodes in program order, the data edges between them as pairs of names, and the places in which nodes are read.

    >>> from torch import nn
    >>> view = GraphView.of(torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))
    >>> [(node.name, node.kind) for node in view.nodes]
    [('input_1', 'io'), ('_0', 'linear'), ('_1', 'activation'), ('output', 'io')]
    >>> view.edges[0]
    ('input_1', '_0')
    """

    nodes: tuple[NodeView, ...]
    edges: tuple[tuple[str, str], ...]
    operands: tuple[Operands, ...] = ()

    def __repr__(self) -> str:
        return f"GraphView({len(self.nodes)} nodes, {len(self.edges)} edges)"

    @classmethod
    def of(cls, gm: GraphModule) -> GraphView:
        expect_graph(gm, "GraphView.of")
        nodes = list(gm.graph.nodes)
        sizes = _size_nodes(nodes)
        views = [_node_view(node, node in sizes) for node in nodes]
        edges = [(other.name, node.name) for node in nodes for other in inputs_of(node)]
        operands = filter(None, map(Operands.of, nodes))
        return cls(tuple(with_parts(views)), tuple(edges), tuple(operands))

    @cached_property
    def digest(self) -> str:
        """The same for the same picture, in every process: a key for caches."""
        state = blake2b(digest_size=12)
        for node in self.nodes:
            state.update(repr(_FIELDS(node)).encode())
        state.update(repr((self.edges, self.operands)).encode())
        return state.hexdigest()

    @cached_property
    def by_name(self) -> Mapping[str, NodeView]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def module_classes(self) -> Mapping[str, str]:
        """The class name of every module that could be folded, by its path, in program order."""
        return {path: name for node in self.nodes for path, name in node.modules}

    @cached_property
    def alike(self) -> Mapping[str, int]:
        """By module, the number of modules, itself included, of its class that do the same in the same order."""
        inside: dict[str, list[str]] = {}
        parents: dict[str, str] = {}
        for node in self.nodes:
            parent = ""
            for path, _ in node.modules:
                parents.setdefault(path, parent)
                relative = node.target.removeprefix(path.partition("#")[0])
                inside.setdefault(path, []).append(f"{node.op} {relative} {node.called}")
                parent = path
        signatures = {path: (parents[path], self.module_classes[path], tuple(of)) for path, of in inside.items()}
        counts = Counter(signatures.values())
        return {path: counts[signature] for path, signature in signatures.items()}


_FIELDS = attrgetter(*(field.name for field in fields(NodeView)))


def _node_view(node: Node, is_size: bool) -> NodeView:
    module = module_of(node)
    shape, dtype = _shape_and_dtype(node)
    aside = "constant" if node.op == "get_attr" else "size" if is_size else ""
    return NodeView(
        name=node.name,
        op=node.op,
        target=target_name(node),
        kind=kind_of(node),
        called="" if module is None else type(module).__name__,
        modules=module_stack_of(node),
        shape=shape,
        dtype=dtype,
        aside=aside,
    )


def _shape_and_dtype(node: Node) -> tuple[str, str]:
    info = info_of(node)
    if info is not None:
        return "×".join(map(str, info.shape)) or "scalar", str(info.dtype).removeprefix("torch.")
    count = _count_tensors(node.meta.get("tensor_info"))
    return (f"{count} tensor{'s' if count > 1 else ''}" if count else ""), ""


def _count_tensors(known: Any) -> int:
    if isinstance(known, TensorInfo):
        return 1
    if isinstance(known, Mapping):
        return sum(map(_count_tensors, known.values()))
    if isinstance(known, (tuple, list)):
        return sum(map(_count_tensors, known))
    return 0


_SIZE_METHODS = {"size", "dim", "numel", "ndimension", "stride", "nelement", "get_device"}
_SIZE_FUNCTIONS = {torch.numel, torch.sym_int, torch.sym_max, torch.sym_min, torch.sym_not, len}
_SIZE_ATTRIBUTES = {"shape", "ndim", "dtype", "device"}


def _size_nodes(nodes: Sequence[Node]) -> set[Node]:
    """Return the nodes that compute with sizes, dtypes and devices, and so carry no tensor.

    Their number rivals that of the real operations in a capture with free sizes, and every one of them would draw a
    line across the picture; all passes of ours leave them alone.
    """
    found: set[Node] = set()
    for node in nodes:
        if info_of(node) is None and (_reads_size(node) or _computes_with(found, node)):
            found.add(node)
    return found


def _reads_size(node: Node) -> bool:
    if node.op == "call_method":
        return node.target in _SIZE_METHODS
    if node.target is getattr:
        return len(node.args) > 1 and node.args[1] in _SIZE_ATTRIBUTES
    return node.op == "call_function" and node.target in _SIZE_FUNCTIONS


def _computes_with(sizes: set[Node], node: Node) -> bool:
    if getattr(node.target, "__module__", None) not in ("_operator", "math", "builtins"):
        return False
    inputs = inputs_of(node)
    return bool(inputs) and sizes.issuperset(inputs)
