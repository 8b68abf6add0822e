"""Graph modules with passes in force, and ways in which their state changes."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    MergeLinears,
    Transformation,
    compose,
)
from fxopt.core import shared_copy
from tests.examples import EXAMPLES, Example
from tests.quick import third
from tests.saving import saved_and_loaded

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


class Scale(Transformation):
    """By hand: another module, another node, another buffer, and an attribute set on a module of the model."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        graph = graph_module.graph
        output = next(node for node in graph.nodes if node.op == "output")
        first = next(node for node in graph.nodes if node.op == "call_module")
        graph_module.get_submodule(str(first.target)).extra = "set by hand"  # type: ignore[assignment]
        graph_module.register_buffer("factor", torch.full((1,), 1.5))
        graph_module.add_submodule("head", nn.Identity())
        with graph.inserting_before(output):
            factor = graph.get_attr("factor")
            scaled = graph.call_function(torch.mul, (output.args[0], factor))
            output.args = (graph.call_module("head", (scaled,)),)
        self.mark_as_transformed(scaled)
        return graph_module


class Silent(Scale):
    def mark_as_transformed(self, node: Any) -> None:
        """Leaves no mark."""


class WiderLast(Transformation):
    """By hand: the last linear gets a new weight, assigned into the module."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        linear = [m for m in graph_module.modules() if isinstance(m, nn.Linear)][-1]
        linear.weight = nn.Parameter(linear.weight.detach() * 2)
        return graph_module


TRAVELS: dict[str, Callable[[GraphModule], GraphModule]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda gm: pickle.loads(pickle.dumps(gm)),
    "torch.save": saved_and_loaded,
    "shared copy": shared_copy,
    "deepcopy of a copy": lambda gm: copy.deepcopy(copy.deepcopy(gm)),
    "pickle of a copy": lambda gm: pickle.loads(pickle.dumps(copy.deepcopy(gm))),
    "pickle of a pickle": lambda gm: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(gm)))),
    "copy of a pickle": lambda gm: copy.deepcopy(pickle.loads(pickle.dumps(gm))),
    "inside another model": lambda gm: copy.deepcopy(nn.Sequential(gm))[0],
}


every_travel = pytest.mark.parametrize("travel", third(TRAVELS.values()), ids=TRAVELS)


MOVES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "half": lambda m: m.half(),
    "double": lambda m: m.double(),
    "bfloat16": lambda m: m.to(torch.bfloat16),
    "half and float": lambda m: m.half().float(),
    "meta": lambda m: m.to("meta"),
    "train": lambda m: m.train(),
    "train and eval": lambda m: m.train().eval(),
    "half, train, double": lambda m: m.half().train().double(),
}


every_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)


WHOLES: dict[str, tuple[Example, Transformation]] = {
    "merge": (ATTENTION, MergeLinears()),
    "merge and fuse": (ATTENTION, compose(ChangeTrueDivToMulByInverse(), MergeLinears(), FuseBiasInLinear())),
    "fold": (CONV, FuseBatchNorm2dInConv2d()),
    "by hand": (ATTENTION, Scale()),
    "assigned by hand": (ATTENTION, WiderLast()),
    "all of them": (ATTENTION, compose(MergeLinears(), Scale(), FuseBiasInLinear(), WiderLast())),
}


every_whole = pytest.mark.parametrize(("example", "whole"), WHOLES.values(), ids=WHOLES)


def traced(example: Example) -> GraphModule:
    """Of the model's own code, which pickling traces again."""
    return torch.fx.symbolic_trace(example.model())
