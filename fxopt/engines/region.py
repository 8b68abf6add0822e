"""The module of a region of a graph that an engine computes."""

from __future__ import annotations

import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Proxy
from torch.utils._pytree import tree_flatten, tree_leaves

from fxopt.engines.flat import CONSTANTS
from fxopt.errors import FxoptError, warn
from fxopt.graph.hooks import HOOKS, HOOKS_OF_ALL

Call = Callable[..., Any]

_PLAIN = (Tensor, nn.Parameter, *CONSTANTS)
"""The types of inputs that a region is set up for, tensors with strides among them. For any other, the body is
computed."""
_TRACED = (Tensor, Proxy)
"""Stand-ins for tensors, as tracers and modes of torch give them, are of other types that are derived from these."""
NOT_CALLED = "it was not called"
_MOST_COPIES = 2
"""So many set-ups of a region are held, for different numbers of threads."""
_MOST_KINDS = 256
"""For so many kinds of inputs, a set-up holds a call, or the reason why there is none; for the last ones that came."""
_SETTING_UP = threading.RLock()  # the settings of Inductor and the levels of loggers belong to the process


class EngineError(FxoptError, RuntimeError):
    """An engine that computes another function, or nothing of it."""


class FullError(FxoptError, RuntimeError):
    """An engine that holds as many copies of the weights as it may."""


@contextmanager
def setting_up() -> Iterator[None]:
    """Within the block, be the only one that sets up an engine, and hide the messages of it and of torch."""
    with _SETTING_UP, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(eq=False)
class SetUp:
    """The body in an engine, for a number of threads and the weights as they were."""

    threads: int
    weights: tuple[list[Any], ...]
    sources: list[Tensor]
    """They share memory with the weights as they were, so that its address is not given to others."""
    calls: dict[Hashable, Call] = field(default_factory=dict)
    """By the kinds of inputs."""
    refused: dict[Hashable, str] = field(default_factory=dict)
    """The reasons why there is no call, by the kinds of inputs."""
    made: list[Any] = field(default_factory=list)
    """The objects of the engine, with copies of the weights, which the calls use."""


_IS_TRAINING = attrgetter("training")
_FACTS = attrgetter("_version", "dtype", "shape")
_TABLES = attrgetter("_modules", "_parameters", "_buffers", *(table for table in HOOKS if table.startswith("_forward")))
"""The tables of a module that a call without gradients reads: children, tensors, and hooks."""


class _Inside(NamedTuple):
    """All that each call looks at in a body, gathered once for the modules that are in it."""

    called: tuple[nn.Module, ...]
    """The modules that are called, and all in them."""
    hooks: tuple[Mapping[Any, Any], ...]
    """The tables of hooks of those that are called."""
    tensors: tuple[Mapping[str, Tensor | None], ...]
    """The tables with parameters and buffers."""
    modules: tuple[nn.Module, ...]
    """The body and all modules in it."""
    tables: tuple[Mapping[str, Any], ...]
    """The tables of all modules."""
    empty: tuple[Mapping[str, Any], ...]
    """The tables of children, parameters and buffers that hold nothing."""
    parents: list[Mapping[str, nn.Module | None]]
    """The tables of children that hold some."""
    children: list[dict[str, nn.Module | None]]
    """Those that `parents` held."""

    @classmethod
    def of(cls, body: GraphModule) -> _Inside:
        calls = body.graph.find_nodes(op="call_module")
        called = dict.fromkeys(one for node in calls for one in body.get_submodule(str(node.target)).modules())
        modules = tuple(body.modules())
        held = [_TABLES(one) for one in modules]
        return cls(
            tuple(called),
            tuple(hooks for one in called for hooks in _TABLES(one)[3:]),
            tuple(table for _, *tensors in held for table in tensors[:2] if table),
            modules,
            tuple(chain.from_iterable(held)),
            tuple(table for tables in held for table in tables[:3] if not table),
            [children for children, *_ in held if children],
            [dict(children) for children, *_ in held if children],
        )

    def is_as_gathered(self) -> bool:
        """Check that the same modules are in the body, with the same tables, and that no empty one was filled."""
        return (
            not any(self.empty)
            and self.parents == self.children
            and all(map(is_, chain.from_iterable(map(_TABLES, self.modules)), self.tables))
        )


class EngineRegion(nn.Module):
    """Compute a graph module in an engine, with its weights frozen; node by node where somebody watches.

    A subclass implements `_call_for`.

    Args:
        body: the nodes of the region; its parameters are those of the model.
    """

    body: GraphModule
    engine: str
    """The name of the engine, for messages."""

    def __init__(self, body: GraphModule) -> None:
        super().__init__()
        self.body = body
        self.training = False
        self._set_ups: dict[int, SetUp] = {}
        """By the number of threads."""
        self._parts: _Inside | None = None
        self._failed: dict[Hashable, str] = {}
        """The reasons of failures of the engine, by the kinds of inputs."""
        self._told_reasons: frozenset[str] = frozenset()
        """The reasons that were given in a warning."""
        self.by_hand = NOT_CALLED
        """The reason why the last call was computed node by node; empty if the engine computed it."""

    @abstractmethod
    def _call_for(self, set_up: SetUp, inputs: tuple[Any, ...]) -> tuple[Call, Any]:
        """Return a call of the engine for inputs of these kinds, and the outputs for `inputs`.

        It raises `FullError` where the engine may hold no more, and any other exception where it cannot have it.
        """

    def _setting_up(self, threads: int) -> AbstractContextManager[None]:
        """Return the context in which the engine is set up for a number of threads."""
        return setting_up()

    def forward(self, *inputs: Any) -> Any:
        """Return the outputs of the region for its inputs, in the order of its placeholders."""
        if torch.compiler.is_compiling():
            return self.body(*inputs)
        tensors = self._tensors()
        if not self._may_run(inputs, tensors):
            return self._node_by_node(self._reason_against(inputs, tensors), inputs)
        kinds = _kinds_of(inputs)
        set_up = self._set_up(tensors)
        call = set_up.calls.get(kinds)
        reason = "" if call is not None else self._failed.get(kinds) or set_up.refused.get(kinds)
        if reason:
            return self._node_by_node(reason, inputs)
        self.__dict__["by_hand"] = ""  # which torch would look at for a microsecond
        try:
            if call is not None:
                return call(*inputs)
            with self._setting_up(set_up.threads):
                call, found = self._call_for(set_up, inputs)
                _hold(set_up.calls, kinds, call)
            return found
        except FullError as error:
            _hold(set_up.refused, kinds, str(error))
            warn(f"a region of {self._size} is computed node by node for such inputs: {error}")
            return self._node_by_node(str(error), inputs)
        except Exception as error:  # noqa: BLE001 - of the engine, or of the body, whose own call raises it again
            return self._computed_instead(error, kinds, inputs)

    def _node_by_node(self, reason: str, inputs: tuple[Any, ...]) -> Any:
        """Return the outputs of the body, and note the reason."""
        self.by_hand = reason
        return self.body(*inputs)

    def _set_up(self, tensors: list[Tensor]) -> SetUp:
        """Return the set-up for this number of threads and the weights as they are."""
        threads, weights = torch.get_num_threads(), _as_they_are(tensors)
        found = self._set_ups.get(threads)
        if found is None or found.weights != weights:
            found = SetUp(threads, weights, [one.detach() for one in tensors])
            kept = [(n, one) for n, one in self._set_ups.items() if n != threads and one.weights == weights]
            self._set_ups = dict([*kept[1 - _MOST_COPIES :], (threads, found)])
        return found

    def _computed_instead(self, error: Exception, kinds: Hashable, inputs: tuple[Any, ...]) -> Any:
        """Return the outputs of the body, which is computed for inputs of these kinds from now on."""
        found = self.body(*inputs)
        cause = getattr(error, "inner_exception", error)  # Dynamo wraps what the backend raised
        while cause.__cause__ is not None:
            cause = cause.__cause__
        line, _, _ = str(cause).strip().partition("\n")
        reason = f"{type(cause).__name__}: {line or 'no reason given'}"
        self.by_hand = self._failed[kinds] = f"{self.engine} failed: {reason}"
        for set_up in self._set_ups.values():
            set_up.calls.pop(kinds, None)
        warn(
            f"{self.engine} failed on a region of {self._size}, which is computed node by "
            f"node for such inputs from now on: {reason}"
        )
        return found

    def _may_run(self, inputs: tuple[Any, ...], weights: list[Tensor]) -> bool:
        """Check that nobody watches the calls of torch, and neither gradients nor training are asked for."""
        given = tree_flatten(inputs)[0]
        tensors = [one for one in given if isinstance(one, Tensor)]
        return (
            not (torch.is_grad_enabled() and any(one.requires_grad for one in (*weights, *tensors)))
            and not any(map(_IS_TRAINING, self._inside.called))
            and not any(self._inside.hooks)
            and not any(HOOKS_OF_ALL)
            and torch._C._len_torch_function_stack() == 0
            and torch._C._len_torch_dispatch_stack() == 0
            and torch._C._functorch.peek_interpreter_stack() is None
            and not torch._C._is_tracing()
            and not torch.is_autocast_enabled("cpu")
            and all(type(one) in _PLAIN for one in given)
            and all(one.layout is torch.strided and not one.is_nested for one in tensors)
            and not any(map(Tensor.is_inference, weights))
        )

    def _reason_against(self, inputs: tuple[Any, ...], weights: list[Tensor]) -> str:
        """Return the reason why the engine may not run; that of an input or weight which it never gets is told once."""
        given = tree_leaves(inputs)
        if torch.is_grad_enabled() and any(one.requires_grad for one in (*weights, *given) if isinstance(one, Tensor)):
            return "gradients are recorded; call it under torch.inference_mode()"
        if any(map(_IS_TRAINING, self._inside.called)):
            return "a module is in training mode; call eval()"
        if any((*self._inside.hooks, *HOOKS_OF_ALL)):
            return "a hook of modules watches"
        if torch.is_autocast_enabled("cpu"):
            return "autocast is on"
        for name, one in self._named(inputs):
            if isinstance(one, Tensor) and (one.layout is not torch.strided or one.is_nested):
                return f"the input {name} is {'nested' if one.is_nested else one.layout}; engines take dense tensors"
        strange = next(((name, one) for name, one in self._named(inputs) if type(one) not in _PLAIN), None)
        reason = ""
        if strange is not None and not isinstance(strange[1], _TRACED):
            reason = (
                f"the input {strange[0]} holds a {type(strange[1]).__name__}; "
                "give tensors and plain numbers, or tuples, lists and dicts of them"
            )
        elif any(map(Tensor.is_inference, weights)):
            reason = "a weight is a tensor of inference mode, of which no write is seen; make the model outside of it"
        if reason and reason not in self._told_reasons:
            self._told_reasons |= {reason}
            warn(f"{self._left_out} a region of {self._size}, which is computed node by node: {reason}")
        return reason or "a mode, tracer or transformation of torch watches"

    def _named(self, inputs: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
        """Yield the values in each input, with its name."""
        for node, given in zip(self.body.graph.find_nodes(op="placeholder"), inputs):
            yield from ((node.name, one) for one in tree_leaves(given))

    @property
    def _inside(self) -> _Inside:
        """The body and all modules in it, as the last call of `_tensors` found them."""
        return self._parts or _Inside.of(self.body)

    def _tensors(self) -> list[Tensor]:
        """Return the parameters and buffers; where other modules are in the body than before, forget the set-ups."""
        if self._parts is None or not self._parts.is_as_gathered():
            self._parts, self._set_ups = _Inside.of(self.body), {}
        return [tensor for table in self._inside.tensors for tensor in table.values() if tensor is not None]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the objects of the engine out of copies and pickles: they follow from the body."""
        return {**self.__dict__, "_set_ups": {}, "_parts": None, "by_hand": NOT_CALLED}

    def extra_repr(self) -> str:
        calls = sum(node.op.startswith("call_") for node in self.body.graph.nodes)
        return f"{calls} calls, {self._told}" + (", failed" if self._failed else "")

    @property
    def _size(self) -> str:
        return f"{len(self.body.graph.nodes)} nodes"

    @property
    def _left_out(self) -> str:
        """The beginning of a sentence about a region that the engine never gets."""
        return f"{self.engine} is not given"

    @property
    def _told(self) -> str:
        return f"engine={self.engine}"


def _hold(table: dict[Hashable, Any], kinds: Hashable, value: Any) -> None:
    """Put a value for kinds of inputs into a table of a set-up; the first one goes where there are too many."""
    with _SETTING_UP:
        while len(table) >= _MOST_KINDS:
            del table[next(iter(table))]
        table[kinds] = value


def _as_they_are(tensors: list[Tensor]) -> tuple[list[Any], ...]:
    """Return a value that is another one after each write to one of them that torch counts: any but by ``.data``."""
    return [*map(Tensor.data_ptr, tensors)], [*map(Tensor.stride, tensors)], [*map(_FACTS, tensors)]


def _kinds_of(inputs: tuple[Any, ...]) -> Hashable:
    """Return all that an engine is set up anew for: the kinds of the inputs, and the modes of this thread."""
    leaves, shape = tree_flatten(inputs)
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return (*modes, str(shape), tuple(map(_kind_of, leaves)))


def _kind_of(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        layout = value.dtype, value.shape, value.stride(), value.device
        return *layout, value.requires_grad, value.is_inference()
    return type(value), value
