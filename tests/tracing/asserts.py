"""The demands of the tests of capture on a graph and its model."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.fx import GraphModule

from fxopt.tracing.structure import tensors_of


def called_layers(gm: GraphModule) -> list[str]:
    """The paths of the layers that the graph calls, as `leaf_calls` has those of the model."""
    targets = [str(node.target) for node in gm.graph.nodes if node.op == "call_module"]
    return [re.sub(r"^(_unregistered_\w+?)\d+$", r"\1", target) for target in targets]


def assert_equal_up_to_rounding(expected: Any, replayed: Any) -> None:
    assert type(expected) is type(replayed)
    for x, y in zip(tensors_of(expected), tensors_of(replayed), strict=True):
        scale = float(x.abs().max()) if x.is_floating_point() and x.numel() else 0.0
        torch.testing.assert_close(y, x, rtol=1e-5, atol=1e-5 * max(scale, 1.0))
