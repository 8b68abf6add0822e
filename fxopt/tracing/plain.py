"""The first rung: `torch.fx` itself, for plain modules. Every size is free, and no value is baked silently.

A proxy that reaches Python control flow raises, so a graph that comes out holds for all inputs, except
where the model asks for the type of a tensor; the replay finds that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx import GraphModule
from torch.fx.node import Argument as FxArgument
from torch.overrides import TorchFunctionMode

from fxopt.graph.nodes import SourceLine
from fxopt.process.module_calls import TRACING
from fxopt.tracing.arguments import make_placeholders
from fxopt.tracing.assemble import adopt
from fxopt.tracing.facts import Ask, tells_a_fact
from fxopt.tracing.hygiene import REPLAY_SEED, preserved
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.interception import autocast_regions
from fxopt.tracing.leaves import Leaf
from fxopt.tracing.lines import at, calling_line
from fxopt.tracing.parameter_names import keep_apart
from fxopt.tracing.report import RecordingError


def is_plain(model: nn.Module) -> bool:
    """Return whether proxies can trace the model: models of transformers decide by types and shapes."""
    return not any(kind.__name__ == "PreTrainedModel" for kind in type(model).__mro__)


@dataclass(frozen=True, eq=False)
class PlainTrace:
    """A graph module by torch.fx, the line that first sets grad mode, other sources of draws, and the questions."""

    gm: GraphModule
    grad_switched: SourceLine | None
    drawn: list[str]
    asks: list[Ask]


def trace_plainly(model: nn.Module, inputs: Inputs, leaf: Leaf) -> PlainTrace:
    grad_mode = _GradMode()
    with (
        preserved(model, REPLAY_SEED + 1) as before,
        autocast_regions(_refuse_autocast, lambda region: None),
        grad_mode,
        TRACING,
    ):
        tracer = _Tracer(inputs, leaf)
        graph = tracer.trace(model)
    if any(name.partition(".")[2].startswith("_tensor_constant") for name in before.assigned):
        raise RecordingError("forward makes tensors that torch.fx would make constants")
    if before.assigned:
        # torch.fx writes `self.count += 1` as an addition, which leaves the buffer as it is
        raise RecordingError(f"forward assigns to {', '.join(before.assigned)}, which torch.fx does not record")
    graph._tracer_cls = None  # a pickle makes one without arguments
    keep_apart(graph)
    gm = GraphModule(model, graph, class_name=type(model).__name__)
    adopt(gm, model)
    return PlainTrace(gm, grad_mode.switched, before.drawn, tracer.asks)


def _refuse_autocast(region: Any) -> None:
    line = calling_line()
    raise RecordingError(f"torch.fx cannot record the autocast region at {at(line)}", line)


class _GradMode(TorchFunctionMode):
    """Notes where grad mode is first set."""

    switched: SourceLine | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch._C._set_grad_enabled:
            self.switched = self.switched or calling_line()
        return func(*args, **(kwargs or {}))


class _Proxy(fx.Proxy):
    """Notes the questions for facts of its tensor: ``x.dtype is torch.half`` is False of a proxy, and no node."""

    tracer: _Tracer

    def __getattr__(self, k: str) -> Any:
        if tells_a_fact(k):
            self.tracer.asks.append(Ask(k, self.node, calling_line()))
        return super().__getattr__(k)


class _Tracer(fx.Tracer):
    # a buffer that forward writes to must be a node, too
    proxy_buffer_attributes = True

    def __init__(self, inputs: Inputs, leaf: Leaf) -> None:
        super().__init__()
        self.inputs, self.leaf = inputs, leaf
        self.thread = threading.get_ident()
        self.asks: list[Ask] = []

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return self.leaf(m, module_qualified_name)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Placeholders for exactly the inputs of the example, under their names."""
        nodes = make_placeholders(self.graph, self.inputs)
        args, kwargs = self.inputs.call([self.proxy(node) for node in nodes])

        def run_model():  # type: ignore[no-untyped-def]
            return root_fn(self.root, *args, **kwargs)

        # An annotation would become the text "Any" as the type of the output, which cannot be unpickled.
        return run_model, []

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        line = calling_line()
        if line is not None:
            node.meta["source"] = line
        node.meta["nn_module_stack"] = {
            key: (path, f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else kind)
            for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()
        }
        return node

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if threading.get_ident() != self.thread:  # fx patches the module calls of all threads
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        if threading.get_ident() != self.thread:
            return attr_val
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_arg(self, a: Any) -> FxArgument:
        if isinstance(a, dict) and type(a) is not dict:
            raise TypeError(f"torch.fx would make a plain dict of {type(a).__name__}")
        return super().create_arg(a)
