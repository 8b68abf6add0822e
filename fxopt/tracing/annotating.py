"""`annotate`: shapes and types for a graph that comes without, as `torch.fx.symbolic_trace` leaves it."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule

from fxopt.errors import expect_graph, warn
from fxopt.process.one_at_a_time import one_at_a_time
from fxopt.tracing.checks import InputError
from fxopt.tracing.inputs import bind
from fxopt.tracing.propagate import fill_in_shapes
from fxopt.tracing.sizes import Dynamic, check_dynamic


def annotate(gm: GraphModule, *args: Any, dynamic: Dynamic = "auto", **kwargs: Any) -> GraphModule:
    """Fill in the shape and dtype of each node of a graph, in place, by a run on fake tensors; return `gm`.

    Passes that have to know them then apply, and say why where they do not. Nothing else of the graph changes. A graph
    that `fxopt.capture` made has them already, and needs this only after changes by hand.

    >>> import torch, fxopt
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(x) / 3)
    >>> print(fxopt.annotate(gm, torch.rand(2, 3)).graph.find_nodes(op="output")[0].args[0].meta["tensor_info"])
    float32 batch x samples
    >>> [match.site for match in fxopt.ChangeTrueDivToMulByInverse().scan(gm).matches]
    ['truediv']

    Args:
        args, kwargs: an example of the inputs: tensors, in containers or not. Only their shapes and dtypes are used.
        dynamic: the sizes to keep free, as for `fxopt.capture`.

    Raises:
        ArgumentError: `gm` is no graph module.
        InputError: the example misfits it: a node that had a shape cannot compute one. The graph is as it was.

    Warns:
        FxoptWarning: the shapes stop at a node, or no size could be kept free; the message says why.
    """
    expect_graph(gm, "fxopt.annotate")
    inputs = bind(gm, args, kwargs)
    check_dynamic(dynamic, inputs)
    known = {node: node.meta["tensor_info"] for node in gm.graph.nodes if "tensor_info" in node.meta}
    with one_at_a_time(lambda: None):
        for node in known:
            del node.meta["tensor_info"]
        filled = fill_in_shapes(gm, inputs, dynamic)
    if any("tensor_info" not in node.meta for node in known):
        for node in gm.graph.nodes:
            node.meta.pop("tensor_info", None)
            if node in known:
                node.meta["tensor_info"] = known[node]
        raise InputError(f"the example misfits the graph: {filled.reason}")
    if filled.reason:
        is_one = len(args) == 1 and isinstance(args[0], list | tuple)
        remedy = " (of an example in a list, give the parts: fxopt.annotate(gm, *example))" if is_one else ""
        warn(f"fxopt.annotate: {filled.reason}{remedy}")
    return gm
