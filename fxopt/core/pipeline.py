"""`record`: a pipeline of graph changes, step by step."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule

from fxopt.core.ledger import plain_copy
from fxopt.core.listening import LISTENER, Call
from fxopt.core.logged import LoggedStep
from fxopt.display import Displayed
from fxopt.errors import ArgumentError, expect, expect_graph, in_words


class Log(Displayed):
    """The steps of a pipeline, which `record` gives."""

    def __init__(self, gm: GraphModule | None = None) -> None:
        self.steps: list[LoggedStep] = []
        self.current = gm
        """The graph module that the last step returned."""

    def step(self, name: str, function: Callable[[GraphModule], Any], gm: GraphModule | None = None) -> GraphModule:
        """Run a function of a graph module as a step; return its result, or the graph module that it has changed.

        Args:
            name: of the step.
            function: changes the graph module in place, or returns a new one.
            gm: to run it on; that of the last step, or of `record`, if not given.

        Raises:
            ArgumentError: there is no graph module yet, or `function` returns something else.
        """
        expect(name, str, "log.step(name, function)", "a name and a function")
        if not callable(function):
            raise ArgumentError(f"log.step(name, function) takes a function; this is {in_words(function)}")
        given = self._given(gm, "log.step(name, function)")

        def call() -> GraphModule:
            result = function(given)
            result = getattr(result, "graph_module", result)  # of a `PassResult` of torch
            if isinstance(result, GraphModule):
                return result
            if result is None or isinstance(result, bool):  # of `eliminate_dead_code`, which says whether it changed
                return given
            raise ArgumentError(f"{name} has to return a graph module or None, and returned {in_words(result)}")

        token = LISTENER.set(None)
        try:
            return self.around(name, given, call)
        finally:
            LISTENER.reset(token)

    def inductor(self, gm: GraphModule | None = None, *inputs: Any) -> None:
        """Run the passes of Inductor on a copy of a graph module, for inference, and stop before it generates code.

        Each pass that Inductor itself names is a step: before autograd on this graph, then on its ATen operators.

        Args:
            gm: that of the last step, or of `record`, if not given.
            inputs: an example of its inputs, all tensors, by position.

        Raises:
            FxoptError: Inductor refuses the graph; the message says why. Steps before that stay.
        """
        given = self._given(gm, "log.inductor(gm, *inputs)")
        if not inputs or not all(isinstance(one, torch.Tensor) for one in inputs):
            raise ArgumentError("log.inductor(gm, *inputs) needs an example of the inputs, tensors by position")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own doings
            from fxopt.core.inductor import inductor_steps  # it takes seconds to import

            self.steps += inductor_steps(plain_copy(given), inputs)

    def around(self, name: str, gm: GraphModule, call: Call) -> GraphModule:
        """Make a call as a step."""
        before = plain_copy(gm)
        start = time.perf_counter()
        result = call()
        seconds = time.perf_counter() - start
        self.steps.append(LoggedStep(name, seconds, before, plain_copy(result)))
        self.current = result
        return result

    @property
    def changed(self) -> tuple[LoggedStep, ...]:
        """The steps that changed something."""
        return tuple(step for step in self.steps if step.is_changed)

    def _given(self, gm: GraphModule | None, call: str) -> GraphModule:
        if gm is None and self.current is None:
            raise ArgumentError(f"{call} needs a graph module to run on: give it one, or begin with fxopt.record(gm)")
        return expect_graph(self.current if gm is None else gm, call)

    def __repr__(self) -> str:
        seconds = sum(step.seconds for step in self.steps)
        count = f"{len(self.steps)} step{'' if len(self.steps) == 1 else 's'}"
        return f"Log({count}, {len(self.changed)} of them changed something, {seconds * 1000:.1f} ms)"

    def __str__(self) -> str:
        return "\n".join([repr(self), *(f"{i:3d} {step}" for i, step in enumerate(self.steps, 1) if step.is_changed)])


@contextlib.contextmanager
def record(gm: GraphModule | None = None) -> Iterator[Log]:
    """Record a pipeline of graph changes: ``with fxopt.record() as log:``.

    Each call of a transformation in the block is a step, those in a composition one by one, and so is each
    ``log.step(name, function)``; ``log.inductor(gm, *inputs)`` adds the passes of Inductor. ``print(log)`` tells the
    changes of each step and its time, and ``fxopt.explore(log)`` steps through it in the page.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.ReLU(), torch.nn.Dropout()).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 3),))
    >>> with record(gm) as log:
    ...     _ = fxopt.RemoveIdentities()(gm)
    ...     _ = log.step("lower", lambda gm: None)
    >>> [(step.name, len(step.changes)) for step in log.steps]
    [('RemoveIdentities', 2), ('lower', 0)]

    Args:
        gm: the graph module that the first ``log.step`` runs on, if it is not given one.
    """
    if gm is not None:
        expect_graph(gm, "fxopt.record")
    log = Log(gm)
    token = LISTENER.set(log.around)
    try:
        yield log
    finally:
        LISTENER.reset(token)
