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

from fxopt.engines.region import Call, EngineRegion, SetUp, setting_up
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
            set_up.made.append(torch.compile(_fresh(self.body), backend=self.backend))
        (call,) = set_up.made
        return call, call(*inputs)

    def _setting_up(self, threads: int) -> AbstractContextManager[None]:
        return compiling(threads)

    @property
    def _told(self) -> str:
        return f"backend={self.backend}"


def _fresh(body: GraphModule) -> GraphModule:
    """Return a copy with code of its own, for which Dynamo counts anew how often it was compiled."""
    fresh = GraphModule(body, copied_graph(body.graph))
    fresh.training = False
    return fresh


@contextmanager
def compiling(threads: int) -> Iterator[None]:
    """Within the block, be the only one that compiles: with frozen weights, and for a number of threads."""
    import torch._inductor.config as config  # only here: it takes a second

    # an option of torch.compile comes too late: Dynamo looks at this one itself
    with setting_up(), config.patch({"freezing": True, "cpp.threads": threads}):
        yield
