"""Symbolic values: stand-ins for values of the model that record the calls of a rule on them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch.fx import Graph, Node, Proxy
from torch.fx.proxy import Attribute, Scope, TracerBase

from fxopt.errors import RuleError
from fxopt.graph.nodes import TensorInfo


class Value(Proxy):
    """A symbolic value. Operators, torch functions and methods on it are recorded, and give symbolic values."""

    tracer: Writer

    def __repr__(self) -> str:
        return self.tracer.name_of(self.node)

    @property
    def shape(self) -> Any:
        """Return the sizes, where they are known; a free size is a `FreeSize`."""
        return self._known("shape", lambda info: tuple(FreeSize(s) if isinstance(s, str) else s for s in info.shape))

    @property
    def dtype(self) -> Any:
        return self._known("dtype", lambda info: info.dtype)

    @property
    def device(self) -> Any:
        return self._known("device", lambda info: info.device)

    @property
    def ndim(self) -> Any:
        return self._known("ndim", lambda info: len(info.shape))

    def _known(self, name: str, ask: Any) -> Any:
        info = self.tracer.info_of(self.node, name)
        return Attribute(self, name) if info is None else ask(info)

    def __len__(self) -> int:
        self.tracer.refuse(f"len({self}) is asked for", "use .shape, where sizes are known")

    def __index__(self) -> int:
        self.tracer.refuse(f"{self} is taken for a number", "annotate the parameter, as in `n: int`")

    __int__ = __index__

    def __float__(self) -> float:
        self.tracer.refuse(f"{self} is taken for a number", "annotate the parameter, as in `c: float`")

    def __contains__(self, other: object) -> bool:
        self.tracer.refuse(f"what {self} contains is asked for", "it is known when the model runs only")

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tracer.refuse(f"{self} is written to in place", "build a new value instead")


class FreeSize(str):
    """The name of a size that differs from call to call, such as ``batch``. Arithmetic on it is refused."""


class Writer(TracerBase):
    """Record the calls of `rule` on symbolic values in `graph`."""

    def __init__(self, rule: str) -> None:
        super().__init__()
        self.rule = rule
        """The name, file and line of the rule, for messages."""
        self.graph = Graph()
        self.scope = Scope("", None)
        self.module_stack: OrderedDict[str, tuple[str, Any]] = OrderedDict()
        self.node_name_to_scope: dict[str, tuple[str, type]] = {}

    def proxy(self, node: Node) -> Value:
        return Value(node, self)

    def name_of(self, node: Node) -> str:
        return node.name

    def info_of(self, node: Node, attribute: str) -> TensorInfo | None:
        """Return the metadata of a value; None records the question for the run of the model."""
        return None

    def refuse(self, fact: str, remedy: str) -> NoReturn:
        raise RuleError(f"{self.rule}: {fact}; {remedy}")

    # ---- torch.fx's questions to a tracer

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **more: Any) -> Proxy:
        if kind == "call_method" and not hasattr(torch.Tensor, target):
            self.refuse(f"a tensor has no method or attribute {target}", "see torch.Tensor")
        if kind in ("call_method", "call_function"):
            name = str(target) if kind == "call_method" else getattr(target, "__name__", "")
            in_place = name.endswith("_") and not name.endswith("__") and name not in ("and_", "or_")
            if in_place or kwargs.get("inplace") or kwargs.get("out") is not None:
                self.refuse(f"{name} writes in place", "build a new value instead")
        return super().create_proxy(kind, target, args, kwargs, *rest, **more)

    def create_node(
        self, kind: str, target: Any, args: Any, kwargs: Any, name: str | None = None, type_expr: Any = None
    ) -> Node:
        """Create the node without the metadata of a model's tracer."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def to_bool(self, obj: Proxy) -> bool:
        self.refuse(
            f"whether {obj.node.name} is true is asked for, which is known when the model runs only",
            "ask for .shape, .dtype or the numbers of a module after the yield, or use torch.where",
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        self.refuse(f"{obj.node.name} is iterated over", "unpack it into names, or index it")

    def keys(self, obj: Proxy) -> Proxy:
        self.refuse(f"{obj.node.name} is unpacked by **", "index it")
