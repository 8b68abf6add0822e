"""The passes of Inductor, each as a step, up to the graph that it would generate code from."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch._inductor import compile_fx
from torch._inductor import config as inductor_config
from torch.fx import GraphModule
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from fxopt.core.ledger import plain_copy
from fxopt.core.logged import LoggedStep
from fxopt.errors import FxoptError

_LOCK = threading.Lock()
"""The observer of torch is one class for all threads."""


def inductor_steps(gm: GraphModule, inputs: Sequence[Any]) -> list[LoggedStep]:
    """Return the passes that Inductor runs on a graph module for inference, which it changes, in order.

    Inductor wraps each pass in torch's ``GraphTransformObserver``, which is listened to. The graph that autograd has
    traced anew, of ATen operators, gets the weights as further inputs. It is run once, for an example of them.

    Raises:
        FxoptError: Inductor refuses the graph.
    """
    found: list[LoggedStep] = []
    for hooks in (gm._forward_pre_hooks, gm._forward_pre_hooks_with_kwargs):
        hooks.clear()  # the checks of inputs are no part of the graph

    def inner_compile(graph: GraphModule, example: Sequence[Any], **_: Any) -> Callable[[list[Any]], Any]:
        compile_fx._recursive_post_grad_passes(graph, is_inference=True)

        def call(args: list[Any]) -> Any:
            named = tuple(args)
            found[:] = [one if one.inputs or one.stage == _PRE else replace(one, inputs=named) for one in found]
            return graph.forward(*named)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    given = tuple(inputs)
    try:
        with _LOCK, torch.no_grad(), _listening(found), inductor_config.patch(_QUIET):
            compiled = compile_fx.compile_fx(gm, list(given), inner_compile=inner_compile)  # type: ignore[arg-type]
            compiled(*given)  # type: ignore[operator]
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise FxoptError(f"Inductor refuses the graph: {type(error).__name__}: {first}") from error
    return [replace(one, inputs=given) if one.stage == _PRE else one for one in found]


_PRE = "pre-grad"
_QUIET = {"fx_graph_cache": False, "freezing": False, "force_disable_caches": True}
_STAGES = {"pre_grad_passes": _PRE, "joint_graph_passes": "joint", "post_grad_passes": "post-grad"}


@dataclass
class _Begun:
    name: str
    before: GraphModule
    start: float


@contextmanager
def _listening(found: list[LoggedStep]) -> Iterator[None]:
    """Note each pass of this thread that an observer is around; one within another is a part of that."""
    mine, begun = threading.get_ident(), list[_Begun]()
    enter, leave = GraphTransformObserver.__enter__, GraphTransformObserver.__exit__

    def entered(self: GraphTransformObserver) -> GraphTransformObserver:
        if threading.get_ident() == mine:
            before = begun[0].before if begun else plain_copy(self.gm)
            begun.append(_Begun(self.passname, before, time.perf_counter()))
        return enter(self)

    def left(self: GraphTransformObserver, *raised: Any) -> None:
        leave(self, *raised)
        if threading.get_ident() == mine:
            one = begun.pop()
            if not begun:
                seconds = time.perf_counter() - one.start
                stage = _STAGES.get(str(self.subsystem), found[-1].stage if found else _PRE)
                found.append(LoggedStep(one.name, seconds, one.before, plain_copy(self.gm), stage))

    GraphTransformObserver.__enter__, GraphTransformObserver.__exit__ = entered, left  # type: ignore[method-assign]
    try:
        yield
    finally:
        GraphTransformObserver.__enter__, GraphTransformObserver.__exit__ = enter, leave  # type: ignore[method-assign]
