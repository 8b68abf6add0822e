"""Recording: run the model once, with real Python control flow, and write down its effects on tensors.

- `nn.Module.__call__` is patched: a leaf module becomes one ``call_module`` node;
- a torch function mode records torch functions and tensor methods;
- a torch dispatch mode records, as aten operations, the calls hidden from the function level: inside vmap, in scripted
  functions and C++ extensions. Each operation is recorded by exactly one of the two.

The tensors are fake with symbolic sizes, fake with fixed sizes, or real; see `Tensors`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import Graph, Node
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from fxopt.graph.nodes import SourceLine
from fxopt.process.module_calls import MODULE_CALL, module_calls
from fxopt.tracing.arguments import Arguments
from fxopt.tracing.budget import Clock
from fxopt.tracing.data_reads import read_by, size_given_by
from fxopt.tracing.facts import Ask, asked_facts, carriers_of, tells_a_fact
from fxopt.tracing.hygiene import REPLAY_SEED, preserved
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.interception import Told, autocast_regions, exporting, lengths_as_sizes, not_exporting
from fxopt.tracing.leaf_answers import LeafAnswers
from fxopt.tracing.leaves import Leaf
from fxopt.tracing.lines import at, calling_line
from fxopt.tracing.node_values import Snapshot, snapshot
from fxopt.tracing.report import BakedValue, RecordingError
from fxopt.tracing.results import Results, has_tensor, storage_of, tensors_in
from fxopt.tracing.size_names import SizeNames
from fxopt.tracing.sources import Sources
from fxopt.tracing.spelling import Call, as_other_calls


class _FunctionMode(TorchFunctionMode):
    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.tape.on_function(Call(func, tuple(args), kwargs or {}))


class _DispatchMode(TorchDispatchMode):
    supports_higher_order_operators = True  # those inside a leaf; others are refused by the function mode

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.tape.on_dispatch(func, tuple(args), kwargs or {})


class Tape:
    """One recording of `model`: its `graph`, the `values` of its nodes, and the objects that it reads."""

    def __init__(
        self,
        model: nn.Module,
        inputs: Inputs,
        sources: Sources,
        leaf: Leaf,
        budget: float | None = None,
        tell: Callable[[int], None] = lambda count: None,
        as_exported: bool = True,
    ) -> None:
        self.model, self.inputs, self.sources, self.leaf = model, inputs, sources, leaf
        self._clock = Clock(budget, tell)
        self.graph = Graph()
        self.values: dict[Node, Snapshot] = {}
        self.effects: set[Node] = set()
        self.baked: list[BakedValue] = []
        self.grad_switched: SourceLine | None = None
        """The line where the model first switches grad mode, which the graph leaves as it is."""
        self.complete = False
        self.assigned: list[str] = []
        """Attributes of modules that forward assigns to, which the graph leaves alone."""
        self.drawn: list[str] = []
        """Generators that forward draws from whose numbers become constants of the graph."""
        self.autocast_disabled: SourceLine | None = None
        """The line where the model first disables autocast outside of a region that enables it."""
        self.asks: list[Ask] = []
        """The questions of forward for facts of tensors."""
        self.with_weights: set[Node] = set()
        """Layers that give the dtype of their weights."""
        self.as_exported = Told(as_exported)
        """The answer to a model that asks whether it is exported."""
        self.failed_in: str | None = None
        """The path of the innermost module in which the model raised."""
        self.arguments = Arguments(self.graph, model, sources, self._stamp, self._value)
        self.results = Results(sources, self.arguments.sizes, self._emit, self._alias)
        self._inside = 0  # depth of calls that are one node each
        self._in_leaf = False
        self._stack: list[tuple[str, str]] = []
        self._has_effect = False
        self._storages: set[int] = set()
        self._autocasts: dict[int, Node] = {}
        self._call_leaf = MODULE_CALL if sources.fake_mode is None else LeafAnswers().call

    # ------------------------------------------------------------ the run
    def record(self) -> None:
        """Fill the graph, its output included."""
        seed = REPLAY_SEED if self.sources.kind == "real" else REPLAY_SEED + 1
        with preserved(self.model, seed) as before, contextlib.ExitStack() as modes:
            self.assigned, self.drawn = before.assigned, before.drawn
            args, kwargs = self.arguments.bind(self.inputs)
            if self.sources.fake_mode is not None:
                modes.enter_context(exporting(self.as_exported))
                modes.enter_context(self.sources.fake_mode)
                modes.enter_context(enable_python_dispatcher())
            if self.sources.sizes is not None:
                modes.enter_context(lengths_as_sizes(self.model))
            modes.enter_context(_DispatchMode(self))
            modes.enter_context(_FunctionMode(self))
            modes.enter_context(module_calls(self.on_module))
            modes.enter_context(autocast_regions(self._enter_autocast, self._leave_autocast))
            output = self.run_model(args, kwargs)
        self.graph.output(self.arguments.output(output))
        self.complete = True

    def size_names(self) -> SizeNames | None:
        """Return names for the symbolic sizes, as far as the recording has come."""
        return SizeNames(self.sources.sizes) if self.sources.sizes is not None else None

    def run_model(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.model(*args, **kwargs)

    @contextlib.contextmanager
    def _as_one_node(self, inputs: Any) -> Iterator[None]:
        """Record the region as one node, but note whether it writes into `inputs` or draws random numbers."""
        self._has_effect = False
        self._storages = {storage_of(tensor) for tensor in tensors_in(inputs)}
        with self._unrecorded():
            yield

    @contextlib.contextmanager
    def _unrecorded(self) -> Iterator[None]:
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    def _is_hidden(self) -> bool:
        return self._inside > 0 or torch._C._functorch.maybe_current_level() is not None

    # ------------------------------------------------------------ modules
    def on_module(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._is_hidden():
            return MODULE_CALL(module, *args, **kwargs)
        self._clock.tick()
        path = self.sources.path_of(module)
        if not self.leaf(module, path or "") or self.sources.has_recorded_tensor(module):
            kind = type(module)
            self._stack.append(
                (f"<{kind.__name__}>" if path is None else path, f"{kind.__module__}.{kind.__qualname__}")
            )
            try:
                return MODULE_CALL(module, *args, **kwargs)
            except Exception:
                self.failed_in = self.failed_in or path
                raise
            finally:
                self._stack.pop()
        target = self.sources.target_of(module)
        written_args, written_kwargs = self.arguments.of(args), self.arguments.of(kwargs)
        is_script = isinstance(module, torch.jit.ScriptModule)
        with self._as_one_node((args, kwargs)), not_exporting() if is_script else contextlib.nullcontext():
            self._in_leaf = True
            result = self._call_leaf(module, *args, **kwargs)
        self._in_leaf = False
        with self._unrecorded():  # a size that depends on data would be recorded where it is read
            node = self._emit("call_module", target, written_args, written_kwargs, result)
            self.effects.add(node)
            if module._parameters or module._modules:
                self.with_weights.add(node)
            return self.results.bind(result, node, () if getattr(module, "inplace", False) else (args, kwargs))

    # ------------------------------------------------------------ functions
    def on_function(self, call: Call) -> Any:
        self._note_ask(call)
        if self._is_hidden():
            return call.function(*call.args, **call.kwargs)
        self._clock.tick()
        if isinstance(call.function, torch._ops.HigherOrderOperator):
            line = calling_line()
            message = f"{call.function.name()} at {at(line)} takes functions, which no node can hold"
            raise RecordingError(message, line, "put that call in a module of its own, and keep it whole with leaf=...")
        other = as_other_calls(call)
        if other is not None:
            with _FunctionMode(self):
                return other()
        self._note(call)
        with self._as_one_node((call.args, call.kwargs)):
            result = call.function(*call.args, **call.kwargs)
        self._note_baked(read_by(call.name, result))
        if call.set_property is not None:
            return result
        writes = call.name == "__setitem__" or (result is None and self._has_effect)
        if not writes and not has_tensor(result) and not self.sources.is_unbacked(result):
            return result
        return self._record_function(call, result)

    def _note_ask(self, call: Call) -> None:
        name = call.read_property or call.name
        if self._inside == 0 and tells_a_fact(name) and call.args:
            self.asks.append(Ask(name, self.sources.node_of(call.args[0]), calling_line()))

    def asked(self) -> dict[str, SourceLine | None]:
        """Return the facts that forward asked for, of inputs or of values computed from them."""
        return asked_facts(self.asks, carriers_of(self.graph, self.with_weights.__contains__))

    def _record_function(self, call: Call, result: Any) -> Any:
        args, kwargs = self.arguments.of(call.args), self.arguments.of(call.kwargs)
        node = self._emit(*call.spelled(args, kwargs), result)
        if self._has_effect or call.is_in_place:
            self.effects.add(node)
        return self.results.bind(result, node, () if call.is_in_place else (call.args, call.kwargs))

    def _note(self, call: Call) -> None:
        if call.set_property is not None and call.set_property not in ("requires_grad", "grad"):
            line = calling_line()
            raise RecordingError(f"an assignment to .{call.set_property} of a tensor at {at(line)}", line)
        if call.function is torch._C._set_grad_enabled:
            self.grad_switched = self.grad_switched or calling_line()

    # ------------------------------------------------------------ operations that only dispatch sees
    def on_dispatch(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(function, torch._ops.HigherOrderOperator):
            return function(*args, **kwargs)  # inside a leaf
        writes = function._schema.is_mutable
        if self._inside:
            if torch.Tag.nondeterministic_seeded in function.tags or (writes and self._writes_input(args)):
                self._has_effect = True
            return self._sized(function, args, function(*args, **kwargs))
        result = self._sized(function, args, function(*args, **kwargs))
        if not has_tensor(result) and not writes and not self.sources.is_unbacked(result):
            return result
        node = self._emit("call_function", function, self.arguments.of(args), self.arguments.of(kwargs), result)
        if writes or torch.Tag.nondeterministic_seeded in function.tags:
            self.effects.add(node)
        return self.results.bind(result, node)

    def _sized(self, function: Any, args: tuple[Any, ...], result: Any) -> Any:
        self._note_baked(size_given_by(function, args, result))
        return result

    def _note_baked(self, value: BakedValue | None) -> None:
        if value is not None and self.sources.kind == "real" and not self._in_leaf:
            self.baked.append(value)

    def _writes_input(self, args: tuple[Any, ...]) -> bool:
        return any(storage_of(tensor) in self._storages for tensor in tensors_in(args))

    def _enter_autocast(self, region: Any) -> None:
        if self._inside:
            return
        if not region._enabled and not self._autocasts:
            self.autocast_disabled = self.autocast_disabled or calling_line()
        else:
            args = (region.device, region.fast_dtype, region._enabled, region._cache_enabled)
            function = torch.amp.autocast_mode._enter_autocast
            node = self._autocasts[id(region)] = self._emit("call_function", function, args, {}, None)
            self.effects.add(node)

    def _leave_autocast(self, region: Any) -> None:
        node = self._autocasts.pop(id(region), None)
        if node is not None:
            function = torch.amp.autocast_mode._exit_autocast
            self.effects.add(self._emit("call_function", function, (node,), {}, None))

    # ------------------------------------------------------------ nodes and values
    def _emit(self, op: str, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        node = self.graph.create_node(op, target, tuple(args), dict(kwargs))
        self._stamp(node)
        self._value(node, value)
        return node

    def _stamp(self, node: Node) -> None:
        node.meta["nn_module_stack"] = {path: (path, kind) for path, kind in self._stack}
        line = calling_line()
        if line is not None:
            node.meta["source"] = line

    def _value(self, node: Node, value: Any) -> None:
        self.values[node] = snapshot(value)

    def _alias(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return another object for an operation's own input (dropout in eval, ``contiguous``): each has its node."""
        with self._unrecorded():
            return torch.ops.aten.alias.default(tensor)
