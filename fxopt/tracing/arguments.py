"""Python values as arguments of nodes: tensors by their node, sizes by arithmetic, the rest as constants."""

from __future__ import annotations

import collections
import dataclasses
import enum
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node

from fxopt.tracing.inputs import Argument, Inputs
from fxopt.tracing.lines import at, calling_line
from fxopt.tracing.report import RecordingError
from fxopt.tracing.size_nodes import SizeNodes
from fxopt.tracing.sources import Sources
from fxopt.tracing.structure import (
    SIZE_TYPES,
    Fields,
    assemble,
    dismantle,
    is_torch_result,
    output_with,
    own_attributes,
    tensors_of,
)

_CONSTANTS = (type(None), bool, int, float, str, complex, torch.dtype, torch.layout, torch.memory_format)
_DEFAULTS = (type(None), bool, int, float, str)


class Arguments:
    """Writes values for one graph, and binds the model's inputs to placeholders."""

    def __init__(
        self,
        graph: Graph,
        model: nn.Module,
        sources: Sources,
        stamp: Callable[[Node], None],
        value: Callable[[Node, Any], None],
    ) -> None:
        self.graph, self.model, self.sources, self.stamp, self.value = graph, model, sources, stamp, value
        self.sizes = SizeNodes(graph, sources.sizes, stamp)
        self._attributes: dict[str, Node] = {}
        self._device: tuple[torch.device, Node] | None = None
        self._device_node: Node | None = None

    # ------------------------------------------------------------ inputs
    def bind(self, inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Make the placeholders; return the call with traced tensors in the place of the example's."""
        tensors = [self.sources.input_tensor(each) for each in inputs.tensors]
        nodes = make_placeholders(self.graph, inputs)
        self.sizes.last_input = next(iter(reversed(self.graph.nodes)), None)
        for node, tensor in zip(nodes, tensors):
            self.value(node, tensor)
            self.sources.track(tensor, node)
        if tensors:
            self._device = tensors[0].device, nodes[0]
        return inputs.call(tensors)

    # ------------------------------------------------------------ values
    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, SIZE_TYPES):
            return self.sizes.of(value)
        if isinstance(value, (tuple, list)):
            parts = [self.of(part) for part in value]
            if hasattr(value, "_fields"):
                # a subclass of a named tuple (PackedSequence) looks at its parts
                plain = tuple in type(value).__bases__
                return type(value)(*parts) if plain else self._create("call_function", type(value), tuple(parts))
            return tuple(parts) if isinstance(value, tuple) else parts
        if isinstance(value, dict):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, slice):
            return slice(self.of(value.start), self.of(value.stop), self.of(value.step))
        if isinstance(value, torch.device):
            return self._on_device(value)
        return self._constant(value)

    def _constant(self, value: Any) -> Any:
        if isinstance(value, enum.Enum) and isinstance(value, (int, str)):
            return value.value
        if value is Ellipsis or isinstance(value, _CONSTANTS):
            return _plain_number(value)
        if type(value).__module__ == "numpy" and getattr(value, "ndim", 1) == 0:
            return value.item()
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: self.of(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return self._create("call_function", type(value), (), fields)
        return self._object(value)

    def _tensor(self, tensor: torch.Tensor) -> Node:
        node = self.sources.node_of(tensor)
        if node is not None:
            return node
        target = self.sources.target_of_tensor(tensor)
        if target not in self._attributes:
            node = self._attributes[target] = self._create("get_attr", target)
            self.value(node, tensor)
            self.sources.track(tensor, node)
        return self._attributes[target]

    def _on_device(self, device: torch.device) -> Any:
        if self._device is None or device != self._device[0]:
            return device
        if self._device_node is None:
            self._device_node = self.sizes.input_node("call_function", getattr, (self._device[1], "device"))
        return self._device_node

    def _create(self, op: str, target: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Node:
        node = self.graph.create_node(op, target, args, kwargs)
        self.stamp(node)
        return node

    # ------------------------------------------------------------ outputs
    def output(self, value: Any) -> Any:
        """Return the model's result, with nodes that build its containers and objects."""
        if isinstance(value, (torch.Tensor, *SIZE_TYPES)):
            return self.of(value)
        kind: Any = type(value)
        if kind is torch.Size:
            return self._create("call_function", torch.Size, ([self.of(size) for size in value],))
        if kind in (tuple, list):
            return kind(self.output(part) for part in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._create("call_function", kind, tuple(self.output(part) for part in value))
        if is_torch_result(value):
            return self._create("call_function", kind, ([self.output(part) for part in value],))
        if isinstance(value, dict) and (kind in (dict, collections.OrderedDict) or dataclasses.is_dataclass(kind)):
            return self._dict(value)
        if isinstance(value, (type(None), int, float, str, bool, complex)):
            return value
        if dataclasses.is_dataclass(value) and all(field.init for field in dataclasses.fields(value)):
            fields = {field.name: self.output(getattr(value, field.name)) for field in dataclasses.fields(value)}
            return self._create("call_function", kind, (), fields)
        return self._object(value)

    def _dict(self, value: dict[Any, Any]) -> Any:
        """Return a dict, or a ModelOutput of transformers, which is a dict and a dataclass."""
        kind: Any = type(value)
        if kind is not dict and kind is not collections.OrderedDict:
            declared = [field.name for field in dataclasses.fields(kind) if field.name in dict(value)]
            attributes = own_attributes(value)
            if attributes or list(value) != declared:
                fields = self._create("get_attr", self.sources.add("_object", Fields(kind, [*value], [*attributes])))
                parts = [self.output(part) for part in (*value.values(), *attributes.values())]
                return self._create("call_function", output_with, (fields, parts))
        items = {key: self.output(part) for key, part in value.items()}
        if kind is dict:
            return items
        args, kwargs = ((items,), {}) if kind is collections.OrderedDict else ((), items)
        return self._create("call_function", kind, args, kwargs)

    def _object(self, value: Any) -> Node:
        """Return an object of another class: made of its tensors anew, or, if it has none, kept as it is."""
        if isinstance(value, Iterator):
            line = calling_line()
            what = "forward returns" if line is None else f"{at(line)} passes on"
            message = f"{what} a {type(value).__name__}, which can be read once only"
            raise RecordingError(message, line, "make it a list")
        skeleton, parts = dismantle(value)
        if not parts:
            return self._create("get_attr", self.sources.add("_object", value))
        template = self._create("get_attr", self.sources.add("_object", skeleton))
        return self._create("call_function", assemble, (template, [self.of(part) for part in parts]))


def _plain_number(value: Any) -> Any:
    """Return a subclass of int or float (numpy's, an IntEnum) as the number that generated code can write."""
    if isinstance(value, float) and type(value) is not float:
        return float(value)
    if isinstance(value, int) and type(value) not in (int, bool):
        return int(value)
    return value


def make_placeholders(graph: Graph, inputs: Inputs) -> list[Node]:
    """Make a placeholder for each argument, and nodes that take containers apart; return one node for each tensor.

    Arguments of other types than tensors get a placeholder, too, so that the graph takes the calls that the model
    takes; their values are checked at each call.
    """
    made = {}
    for index, argument in enumerate(inputs.arguments):
        defaults: tuple[Any, ...] = ()
        if all(_has_default(later) for later in inputs.arguments[index:]):
            defaults = (argument.value,)
        made[argument.name] = graph.create_node("placeholder", argument.name, defaults)
    opened: dict[tuple[Any, ...], Node] = {}
    return [_reached(graph, made[each.path.argument], each.path.steps, opened) for each in inputs.tensors]


def _has_default(argument: Argument) -> bool:
    return isinstance(argument.value, _DEFAULTS)


def _reached(graph: Graph, node: Node, steps: Any, opened: dict[tuple[Any, ...], Node]) -> Node:
    for step in steps:
        if step.in_object:
            node = _opened(graph, opened, (node, tensors_of), tensors_of, (node,))
        node = _opened(graph, opened, (node, step.key), operator.getitem, (node, step.key))
    return node


def _opened(graph: Graph, opened: dict[tuple[Any, ...], Node], key: Any, function: Any, args: Any) -> Node:
    if key not in opened:
        opened[key] = graph.create_node("call_function", function, args)
    return opened[key]
