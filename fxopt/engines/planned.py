"""The module of a region of a graph with packed layers, whose calls follow a plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import nn
from torch.fx import Graph, GraphModule, Interpreter, Node

from fxopt.engines.region import Call, EngineRegion, SetUp
from fxopt.graph.index import GraphIndex
from fxopt.graph.writes import unwritten_condition
from fxopt.packed import PackedLayer, Step, UnboundedError

_MOST_PLANS = 8
"""For so many kinds of inputs, since each has packed copies of the kernels of convolutions. Others are computed node by
node, as fast as without a plan."""


class PlannedRegion(EngineRegion):
    """Compute a graph module by a plan, made once for each kind of inputs; node by node where somebody watches.

    The plan is the code of the graph, in which a packed layer is the call of oneDNN that it would make itself: its
    weight is packed, and the questions about shapes, dtypes, memory and modes are answered. Modules are called where
    they are, and not sought by their paths in each call.

    Args:
        body: the nodes of the region; its parameters are those of the model.
    """

    engine = "a plan"

    def _call_for(self, set_up: SetUp, inputs: tuple[Any, ...]) -> tuple[Call, Any]:
        body, calls = self.body, list(set_up.calls.values())
        if len(calls) - calls.count(body) >= _MOST_PLANS:
            return body, body(*inputs)
        planner = _Planner(body)
        found = planner.run(*inputs)
        plan = planner.plan()

        def call(*inputs: Any) -> Any:
            try:
                return plan(body, *inputs)
            except UnboundedError:
                return body(*inputs)

        return call, found

    @property
    def _left_out(self) -> str:
        return "no plan is made for"

    @property
    def _told(self) -> str:
        return "planned"


class _Planner(Interpreter):
    """Run a graph, and note the step of each module that it calls."""

    def __init__(self, body: GraphModule) -> None:
        super().__init__(body)
        self.extra_traceback = False
        self.index = GraphIndex(body)
        self.steps: dict[Node, Step] = {}

    def run_node(self, n: Node) -> Any:
        if n.op != "call_module":
            return super().run_node(n)
        module = self.fetch_attr(str(n.target))
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if isinstance(module, PackedLayer):
            bound, other = (self._bound_of(one, n) for one in _given(n))
            self.steps[n] = module.step_for(*args, **kwargs, bound=bound, other_bound=other)
        else:
            self.steps[n] = Step(module)
        return module(*args, **kwargs)

    def _bound_of(self, given: Any, reader: Node) -> float:
        """Return the bound of a tensor that `reader` reads, if nobody writes to it before."""
        step = self.steps.get(given) if isinstance(given, Node) else None
        if step is None or step.bound == math.inf:
            return math.inf
        return step.bound if unwritten_condition(given, given, reader, self.index) is True else math.inf

    def plan(self) -> Callable[..., Any]:
        """Return the function of the graph with the steps in place of modules; its first argument is the body."""
        graph = Graph()
        new: dict[Node, Node] = {}
        for node in self.graph.nodes:
            new[node] = graph.node_copy(node, new.__getitem__)
            if node in self.steps:
                if isinstance(self.fetch_attr(str(node.target)), PackedLayer):
                    new[node].args, new[node].kwargs = tuple(one for one in _given(new[node]) if one is not None), {}
                new[node].op, new[node].target = "call_function", _named(self.steps[node].compute)
        code = graph.python_code("self")
        space = dict(code.globals)
        exec(compile(code.src, "<plan of a region>", "exec"), space)
        function: Callable[..., Any] = space["forward"]
        return function


def _given(call: Node) -> tuple[Any, Any]:
    """Return the input and the summand of a call of a packed layer, by position or by keyword; None for no summand."""
    given = {**dict(zip(("input", "other"), call.args)), **call.kwargs}
    return given["input"], given.get("other")


def _named(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function, whose name generated code needs, for one that may be a module."""
    if not isinstance(step, nn.Module):
        return step

    def call(*args: Any, **kwargs: Any) -> Any:
        return step(*args, **kwargs)

    return call
