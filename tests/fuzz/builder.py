"""A graph of modules under construction, instruction by instruction.

An instruction is ``(op, operand, variant)``. `operand` counts values from the last one back, and `variant` is a number
whose digits choose among the forms of an instruction, so that 0 is the plainest form and a failure shrinks to it.
Every node runs on real tensors as it is made: calls that torch refuses are left out of the program.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node
from torch.fx.node import map_arg

Step = tuple[str, int, int]
_REFUSED = (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, ZeroDivisionError, OverflowError)
_LARGEST = 4096  # elements of a value


class RefusedError(Exception):
    """Torch does not run this; the instruction is left out."""


class Choices:
    """The digits of a number, the lowest first, each as one of the options asked for: of 2 and then 3 options, 5 is the
    second and the third."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, *options: Any) -> Any:
        self.left, i = divmod(self.left, len(options))
        return options[i]


class Builder:
    """A graph of modules under construction, with the value of each node on the example inputs."""

    def __init__(self, inputs: dict[str, torch.Tensor], dtype: torch.dtype) -> None:
        self.graph = Graph()
        self.root = nn.Module()
        self.root.add_module("block", nn.Module())
        self.root.get_submodule("block").add_module("inner", nn.Module())
        self.dtype = dtype
        self.known: dict[Node, Any] = {}
        self.values: list[Node] = []
        self.paths: list[str] = []
        self.count = 0
        for name, tensor in inputs.items():
            node = self.graph.placeholder(name)
            self.known[node] = tensor.clone()
            self.keep(node)

    def step(self, instruction: "Instruction", operand: int, variant: int) -> None:
        try:
            made = instruction(self, self.value(operand), Choices(variant))
        except RefusedError:
            return
        if made is not None:
            self.keep(made)

    # ---- values

    def value(self, back: int) -> Node:
        return self.values[-1 - back % len(self.values)]

    def shape(self, node: Node) -> torch.Size:
        return self.known[node].shape

    def keep(self, node: Node) -> None:
        known = self.known[node]
        if isinstance(known, torch.Tensor) and known.is_floating_point() and known.dim() >= 2:
            self.values.append(node)

    def emit(self, op: str, target: Any, *args: Any, **kwargs: Any) -> Node:
        """Add a node, unless torch refuses to run it."""
        try:
            result = self._run(op, target, args, kwargs)
        except _REFUSED as error:
            raise RefusedError from error
        if isinstance(result, torch.Tensor) and result.numel() > _LARGEST:
            raise RefusedError
        node = self.graph.create_node(op, target, args, kwargs)
        self.known[node] = result
        return node

    def _run(self, op: str, target: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = map_arg((args, kwargs), lambda node: self.known[node])
        if op == "call_module":
            return self.root.get_submodule(target)(*args, **kwargs)
        if op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if op == "get_attr":
            return operator.attrgetter(target)(self.root)
        return target(*args, **kwargs)

    def function(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        return self.emit("call_function", target, *args, **kwargs)

    def method(self, target: str, *args: Any, **kwargs: Any) -> Node:
        return self.emit("call_method", target, *args, **kwargs)

    def ranked(self, x: Node, rank: int) -> Node:
        """`x` itself where it has that many dimensions, or something made of it."""
        known = self.shape(x)
        if len(known) == rank:
            return x
        if len(known) > 2:
            x = self.method("mean", x, list(range(2, len(known))))
        if rank == 2:
            return x
        wide = self.method("reshape", x, -1, self.shape(x)[1], *[1] * (rank - 2))
        return self.method("repeat", wide, 1, 1, *(2, 3, 2)[: rank - 2])

    # ---- modules

    def add(self, module: nn.Module, parent: str) -> str:
        """Register `module`; it may be called again by a later instruction."""
        self.count += 1
        self.root.get_submodule(parent).add_module(f"m{self.count}", module)
        path = f"{parent}.m{self.count}" if parent else f"m{self.count}"
        self.paths.append(path)
        return path

    def call(self, module: nn.Module, x: Node, choose: Choices, keyword: bool = False) -> Node:
        path = self.add(module, choose("", "block", "block.inner"))
        if keyword:
            return self.emit("call_module", path, input=x)
        return self.emit("call_module", path, x)


Instruction = Callable[[Builder, Node, Choices], Node | None]
"""Gives the value that it made, if later instructions may read it."""
