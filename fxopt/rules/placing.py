"""Insert the replacement of a rule into the graph, through the rewriter."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.fx import Node
from torch.fx.node import map_arg

from fxopt.core.rewriter import Rewriter
from fxopt.graph.index import GraphIndex
from fxopt.graph.nodes import TensorInfo, module_stack_of
from fxopt.rules.metadata_readers import Redirects
from fxopt.rules.replacement import Replacement


def place(
    replacement: Replacement, roots: Sequence[Node], captured: Sequence[Node], redirects: Redirects, rewriter: Rewriter
) -> None:
    """Replace `roots` with `replacement`, and erase the nodes of `captured` that have no users left."""
    placing = _Placing(replacement, tuple(captured), redirects, rewriter)
    modules = [str(node.target) for node in captured if node.op == "call_module"]
    in_place = placing.in_place_of(roots) if redirects.before is None else {}
    for node in replacement.new_nodes:
        if node not in in_place:
            placing.insert(node, before=redirects.before or roots[0])
    for node, root in in_place.items():
        placing.set_call(node, root)
    for (reader, node), there in redirects.elsewhere.items():
        rewriter.redirect(reader, node, there if there not in roots else placing.made[replacement.outputs[0]])
    for output, root in zip(replacement.outputs, roots):
        if output not in in_place:
            rewriter.replace(root, placing.made[output])
    for node in sorted((n for n in captured if n not in roots), reverse=True):
        if not node.users:
            rewriter.erase(node)
    for path in modules:
        rewriter.remove_unused_module(path)


class _Placing:
    def __init__(
        self,
        replacement: Replacement,
        captured: tuple[Node, ...],
        redirects: Redirects,
        rewriter: Rewriter,
    ) -> None:
        self.replacement = replacement
        self.captured = captured
        self.rewriter = rewriter
        self.made: dict[Node, Node] = dict(replacement.bound)
        self._going = redirects.going
        self._base = _base_path(captured, rewriter.index)
        self._paths: dict[str, str] = {}

    def in_place_of(self, roots: Sequence[Node]) -> dict[Node, Node]:
        """Return the outputs that a root can become under its own name: new ones that no other new node uses."""
        outputs = self.replacement.outputs
        read = {other for node in self.replacement.new_nodes for other in node.all_input_nodes}
        single = (o not in read and outputs.count(o) == 1 and o not in self.made for o in outputs)
        return {output: root for output, root, alone in zip(outputs, roots, single) if alone}

    def insert(self, node: Node, before: Node) -> None:
        target = self._target(node)
        args, kwargs = self._arguments(node)
        name = target.rpartition(".")[2] if node.op in ("call_module", "get_attr") else _name_of(target)
        info = None
        if node.op == "get_attr":
            info = TensorInfo.of(self._tensor(node))
        made = self.rewriter.insert(
            node.op, target, args, kwargs, name=name, before=before, info=info, made_from=self.captured
        )
        self.made[node] = made

    def set_call(self, node: Node, root: Node) -> None:
        """Give `root` the call of `node`; its users go on reading `root`."""
        target = self._target(node)
        args, kwargs = self._arguments(node)
        self.rewriter.set_call(root, node.op, target, args, kwargs)
        self.made[node] = root

    def _arguments(self, node: Node) -> tuple[Any, Any]:
        return map_arg((node.args, node.kwargs), lambda other: self.made[other])

    def _target(self, node: Node) -> Any:
        target = node.target
        if node.op == "call_module" and target in self.replacement.modules:
            return self._module_path(str(target))
        if node.op == "get_attr" and target in self.replacement.tensors:
            return self._tensor_path(str(target))
        return target

    def _tensor(self, node: Node) -> torch.Tensor:
        path = str(node.target)
        if path in self.replacement.tensors:
            return self.replacement.tensors[path]
        registered: torch.Tensor = operator.attrgetter(path)(self.rewriter.index.gm)
        return registered

    def _module_path(self, key: str) -> str:
        """Return the path of a new module: that of the one module that goes, or one beside the replaced modules."""
        if key not in self._paths:
            module, index = self.replacement.modules[key], self.rewriter.index
            base = self._base or _beside(self.captured[0], type(module).__name__.lower(), index)
            taken = base in self._paths.values()
            self._paths[key] = base if not taken and self._goes(base) else self.rewriter.free_path(base)
            _set_mode(module, self._training(), index)
            self.rewriter.set_module(self._paths[key], module)
        return self._paths[key]

    def _goes(self, path: str) -> bool:
        """Check that only replaced nodes call the module at `path`, so that its name is free."""
        index, written = self.rewriter.index, self.replacement
        module = index.module_at(path)
        if module is None or index.reads_of(path) or len(index.paths_of(module)) > 1:
            return False
        if any(
            str(node.target) == path or str(node.target).startswith(f"{path}.")
            for node in written.new_nodes
            if node.op in ("call_module", "get_attr")
        ):
            return False
        return all(call in self._going for call in index.calls_of(module))

    def _training(self) -> bool:
        index = self.rewriter.index
        modules = [index.module_of(node) for node in self.captured]
        return next((module.training for module in modules if module is not None), index.gm.training)

    def _tensor_path(self, key: str) -> str:
        if key not in self._paths:
            tensor, index = self.replacement.tensors[key], self.rewriter.index
            kind = "weight" if isinstance(tensor, nn.Parameter) else "constant"
            base = self._base or _beside(self.captured[0], kind, index)
            path = f"{base.replace('.', '_')}_{kind}" if self._base else base
            self._paths[key] = self.rewriter.free_path(path)
            self.rewriter.set_tensor(self._paths[key], tensor)
        return self._paths[key]


def _base_path(captured: Sequence[Node], index: GraphIndex) -> str:
    """Return the path of the captured module, or one beside the first that names them all; empty without modules."""
    paths = [str(node.target) for node in sorted(captured) if node.op == "call_module"]
    paths = [path for path in dict.fromkeys(paths) if _holds_tensors(index.module_at(path))] or paths
    if not paths:
        return ""
    parent, _, first = paths[0].rpartition(".")
    names = [path.rpartition(".")[2] for path in paths]
    name = "_".join(names) if len(names) <= 4 else f"{first}_and_{len(names) - 1}_more"
    return f"{parent}.{name}" if parent else name


def _holds_tensors(module: nn.Module | None) -> bool:
    return module is not None and any(True for _ in module.parameters())


def _beside(node: Node, name: str, index: GraphIndex) -> str:
    """Return a path in the module that `node` lies in, if the graph module may register something there."""
    for path, _ in reversed(module_stack_of(node)):
        if type(index.module_at(path)) is nn.Module:
            return f"{path}.{name}"
    return name


def _set_mode(module: nn.Module, training: bool, index: GraphIndex) -> None:
    """Set the new parts of `module` to the training mode of the replaced module."""
    for part in module.modules():
        if not index.paths_of(part):
            part.training = training


def _name_of(target: Any) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", "call")
