"""The module of a region of a graph that `torch.compile` computes."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch.fx import GraphModule

from fxopt.engines.region import Call, EngineError, EngineRegion, SetUp, setting_up
from fxopt.graph.copying import copied_graph

INDUCTOR = "inductor"


def compiler_of(backend: str) -> str:
    """Return the C++ compiler that a backend of `torch.compile` needs; empty if there is none on this machine.

    Inductor takes the one that the environment variable ``CXX`` names, else ``g++``, on macOS ``clang++``. A backend
    other than Inductor needs none, and is named itself.
    """
    if backend != INDUCTOR:
        return backend
    usual = "clang++" if sys.platform == "darwin" else "g++"
    name = (os.environ.get("CXX", usual).split() or [""])[0]
    return name if name and shutil.which(name) else ""


class CompiledRegion(EngineRegion):
    """Compute a graph module by `torch.compile`, with its weights frozen; node by node where somebody watches.

    Args:
        body: the nodes of the region; its parameters are those of the model.
        backend: of `torch.compile`.
    """

    engine = "torch.compile"

    def __init__(self, body: GraphModule, backend: str = INDUCTOR) -> None:
        super().__init__(body)
        self.backend = backend

    def _call_for(self, set_up: SetUp, inputs: tuple[Any, ...]) -> tuple[Call, Any]:
        if not set_up.made:
            backend = Counted(self.backend)
            set_up.made += torch.compile(_fresh(self.body), backend=backend), backend
        call, backend = set_up.made
        found = call(*inputs)
        backend.expect_graphs()
        return call, found

    def _setting_up(self, threads: int) -> AbstractContextManager[None]:
        return compiling(threads)

    @property
    def _told(self) -> str:
        return f"backend={self.backend}"


class Counted:
    """A backend of `torch.compile` that counts the graphs that it is given.

    `torch.compile` may leave a model as it is without a word: where it is switched off, or a mode of torch is on.
    """

    def __init__(self, backend: str = INDUCTOR) -> None:
        self.backend = backend
        self.graphs = 0

    def __call__(self, gm: GraphModule, example: list[Any], **options: Any) -> Call:
        from torch._dynamo import lookup_backend  # only here: it takes a second

        self.graphs += 1
        compiled: Call = lookup_backend(self.backend)(gm, example, **options)
        return compiled

    def expect_graphs(self) -> None:
        """Raise `EngineError` if there was none."""
        if not self.graphs:
            raise EngineError("torch.compile compiled nothing, and called the model as it is")


def _fresh(body: GraphModule) -> GraphModule:
    """Return a copy with code of its own, for which Dynamo counts anew how often it was compiled."""
    fresh = GraphModule(body, copied_graph(body.graph))
    fresh.training = False
    return fresh


@contextmanager
def compiling(threads: int) -> Iterator[None]:
    """Within the block, be the only one that compiles: with frozen weights, and for a number of threads."""
    import torch._dynamo.config as dynamo  # only here: it takes a second
    import torch._inductor.config as inductor

    # an option of torch.compile comes too late: Dynamo looks at this one itself
    freezing = inductor.patch({"freezing": True, "cpp.threads": threads})
    # after 8 kinds of inputs Dynamo would call the model as it is, without a word
    failing = dynamo.patch({"fail_on_cache_limit_hit": True})
    with setting_up(), freezing, failing:
        yield
