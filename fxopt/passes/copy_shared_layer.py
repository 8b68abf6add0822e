"""A layer that is called several times is copied for a call behind which a batch norm can be folded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node
from torch.nn.modules.conv import _ConvNd

from fxopt.core import (
    CONV_CALLS,
    LINEAR_CALLS,
    BatchNormLayer,
    Condition,
    Conditions,
    ConvLayer,
    Exactness,
    GraphIndex,
    Layer,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    TensorInfo,
    Unmet,
    decide,
    layer_of,
    of_type,
    present,
    rank_condition,
    readers_of,
    set_arguments,
    with_tensors,
)
from fxopt.graph.guards import autocast_condition, unaltered_conditions
from fxopt.graph.hooks import gradient_hook_condition
from fxopt.graph.layer import Held
from fxopt.graph.ownership import parent_condition, tensor_conditions
from fxopt.passes.batch_norm import batch_norm_conditions, scaling_conditions, users_condition

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d,
           nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)  # fmt: skip
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True, eq=False)
class SharedLayer(Match):
    """One of several calls of a layer, the anchor, which alone a batch normalization reads."""

    layer: Layer
    bn: BatchNormLayer
    others: tuple[Node, ...]
    """The other calls."""
    tensors: dict[str, torch.Tensor]
    """The tensors that are copied, by role."""

    @property
    def bytes(self) -> int:
        """The size of the copy."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


class CopySharedLayer(Pass[SharedLayer]):
    """Replace `bn(f(x)), f(y)`, two calls of one layer, with `bn(f'(x)), f(y)`, where `f'` is a copy of `f`.

    A batch norm in evaluation mode is a scale and shift of each channel, `bn(y) = s y + t`, and the layer before it can
    do both with the weights `s W` (`FuseBatchNorm2dInConv2d` and its like). Another call that shares `W` would be
    scaled too, so the fold leaves it alone: as in the heads of a detector, where maps of all sizes go through one
    convolution, and those of each size through a batch norm of their own. A layer of its own for the call makes the
    fold possible.

    The copy has the same numbers in the same order, so the bits are the same. It takes the bytes of the weights and
    bias once more, and alone saves nothing: run a pass that folds batch norms behind it. If a batch norm stands behind
    each call, the first call keeps the layer. The state dict has the tensors of each copy, and what is written to those
    of the layer later, as in training, no longer reaches that call.

    >>> import torch, fxopt
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv, self.norm = torch.nn.Conv2d(4, 4, 1), torch.nn.BatchNorm2d(4)
    ...     def forward(self, x):
    ...         return self.norm(self.conv(x)) + self.conv(x.relu())
    >>> gm = fxopt.capture(Model().eval(), (torch.rand(1, 4, 2, 2),))
    >>> print(fxopt.CopySharedLayer().explain(fxopt.CopySharedLayer().scan(gm).matches[0]))
    conv gets a copy of conv (80 bytes more), which conv_1 calls as well: norm can be folded into it
    >>> [node.name for node in fxopt.FuseBatchNorm2dInConv2d()(fxopt.CopySharedLayer()(gm)).graph.nodes]
    ['x', 'conv', 'relu', 'conv_1', 'add', 'output']
    """

    label = "Copy shared layers"
    needs = "a layer that is called twice, with a batch norm behind one call"

    targets = (nn.Linear, _ConvNd, *LINEAR_CALLS, *CONV_CALLS)

    def match(self, node: Node, index: GraphIndex) -> SharedLayer | Miss | None:
        layer = layer_of(node, index)
        if not isinstance(layer, LinearLayer | ConvLayer):
            return None
        calls = _calls(layer, index)
        if len(calls) < 2:
            return None
        found = decide(node, _conditions(layer, calls, index))
        if isinstance(found, SharedLayer) and calls[0] is node and all(_is_free(other, index) for other in calls[1:]):
            return Miss(
                node,
                Unmet(
                    f"{node.name} keeps {_name(layer)}: each of its other calls gets a copy",
                    actual=f"the first of {len(calls)} calls",
                    needed="another one",
                ),
            )
        return found

    def exactness(self, match: SharedLayer) -> Exactness:
        return Exactness.BITWISE

    def explain(self, match: SharedLayer) -> str:
        calls = "calls" if len(match.others) == 1 else "call"
        return (
            f"{match.anchor.name} gets a copy of {_name(match.layer)} ({match.bytes:,} bytes more), which "
            f"{_names(match.others)} {calls} as well: {match.bn.node.name} can be folded into it"
        )

    def rewrite(self, match: SharedLayer, rewriter: Rewriter) -> None:
        layer, node = match.layer, match.anchor
        # by the name of the node, too, since each copy has tensors of its own
        copies = rewriter.computed(_copied, node.name, *match.tensors.values())
        new = dict(zip(match.tensors, copies))
        if layer.module is not None:
            path = rewriter.free_path(f"{layer.path}_copy")
            rewriter.set_module(path, with_tensors(layer.module, **new), called_by=node)
            rewriter.set_call(node, "call_module", path, node.args, node.kwargs)
            return
        readers: dict[str, Node] = {}
        for role, tensor in new.items():
            path = rewriter.free_path(f"{layer.held[role].path}_copy")
            rewriter.set_tensor(path, tensor)
            readers[role] = rewriter.get_attr(path, info=TensorInfo.of(tensor), made_from=(node,))
        set_arguments(layer, rewriter, **readers)
        for role in new:
            reader = layer.held[role].reader
            if reader is not None and not reader.users:
                rewriter.erase(reader)


def _copied(name: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return a copy of each tensor, with its strides, for the node called `name`."""
    return tuple(tensor.detach().clone().requires_grad_(tensor.requires_grad) for tensor in tensors)


def _conditions(layer: Layer, calls: tuple[Node, ...], index: GraphIndex) -> Conditions[SharedLayer]:
    node, name = layer.node, _name(layer)
    readers = readers_of(node)
    bn = yield from of_type(
        layer_of(readers[0], index) if readers else None,
        BatchNormLayer,
        lambda: Unmet(
            f"{node.name}, one of {len(calls)} calls of {name}, is read by {_names(readers) or 'nothing'}",
            actual=_names(readers) or "no reader",
            needed="a batch norm",
        ),
    )
    yield users_condition(node, bn.node, "before normalization")
    x, affine = yield from batch_norm_conditions(bn, _BATCH_NORMS, index)
    yield x is node or Unmet(f"{bn.name} normalizes {x.name}", actual=x.name, needed=node.name)
    yield from _owner_conditions(layer, index)
    tensors = _shared_tensors(layer, index)
    yield gradient_hook_condition((layer.held[role].path, tensor) for role, tensor in tensors.items())
    all_held = [(held.path, held.tensor) for held in layer.held.values()]
    yield from tensor_conditions(name, all_held, index, ties_ok=True)
    for role, tensor in tensors.items():
        yield _strides_condition(layer.held[role].path, tensor)
    yield autocast_condition(node, index)
    yield from present(
        layer.input,
        lambda: Unmet(
            f"{node.name} is called with arguments other than one input",
            actual=", ".join([*map(str, node.args), *node.kwargs]) or "no argument",
            needed="one input",
        ),
    )
    yield from scaling_conditions(bn, affine, layer, layer_first=True)
    rank = layer.dimensions + 2 if isinstance(layer, ConvLayer) else 2
    if _RANKS.get(type(bn.module)) != rank:
        yield rank_condition(node, rank, f"batch norm scales the channels of {name} only of {rank} dimensions")
    return SharedLayer(node, layer, bn, tuple(call for call in calls if call is not node), tensors)


def _owner_conditions(layer: Layer, index: GraphIndex) -> Conditions[None]:
    """Require that a copy of the module, or of the tensors of a function, computes what `layer` does."""
    if layer.module is None:
        for role, held in layer.held.items():
            yield (held.tensor is not None and held.path in index.owners_of(held.tensor)) or Unmet(
                f"the {role} of {layer.name} is not a parameter or buffer of the model",
                actual="another tensor",
                needed="a parameter or buffer",
            )
            yield parent_condition(held.path, index)
        return
    yield from unaltered_conditions(layer.module, layer.path, _LAYERS)
    paths = index.paths_of(layer.module)
    yield len(paths) == 1 or Unmet(
        f"{layer.path} is registered under {len(paths)} names: {', '.join(paths)}",
        actual=f"{len(paths)} names",
        needed="1 name",
    )
    buffers = ", ".join(layer.module._buffers)
    yield not buffers or Unmet(f"{layer.path} has buffers ({buffers})", actual=buffers, needed="parameters alone")
    yield parent_condition(layer.path, index)


def _strides_condition(path: str, tensor: torch.Tensor) -> Condition:
    """Require that a copy of `tensor` lies in memory as it does, since a kernel may sum in another order otherwise."""
    strides = torch.empty_like(tensor, device="meta").stride()
    return strides == tensor.stride() or Unmet(
        f"{path} has the strides {tensor.stride()}, and a copy would have {strides}",
        actual=str(tensor.stride()),
        needed=str(strides),
    )


def _is_free(node: Node, index: GraphIndex) -> bool:
    """Return whether a call of a layer may have a copy, too."""
    layer = layer_of(node, index)
    if not isinstance(layer, LinearLayer | ConvLayer):
        return False
    return isinstance(decide(node, _conditions(layer, _calls(layer, index), index)), SharedLayer)


def _calls(layer: Layer, index: GraphIndex) -> tuple[Node, ...]:
    """Return the nodes that call the module of `layer`, or else those that read its weight, in order."""
    if layer.module is not None:
        return tuple(sorted(index.calls_of(layer.module)))
    return tuple(sorted(_readers(layer.held["weight"], index)))


def _readers(held: Held, index: GraphIndex) -> set[Node]:
    """Return the nodes that are given a tensor which functions read; none if the graph computes it."""
    reads = index.reads_of(held.path) if held.tensor is not None else ()
    return {user for read in reads for user in read.users}


def _shared_tensors(layer: Layer, index: GraphIndex) -> dict[str, torch.Tensor]:
    """Return the tensors that a copy of `layer` has of its own, by role: those that other calls read, too."""
    return {
        role: held.tensor
        for role, held in layer.held.items()
        if held.tensor is not None and (layer.module is not None or len(_readers(held, index)) > 1)
    }


def _name(layer: Layer) -> str:
    """Return the path of the module, or of the weight that a function is given."""
    return layer.path or layer.held["weight"].path


def _names(nodes: Iterable[Node]) -> str:
    return ", ".join(node.name for node in nodes)


_RANKS: dict[type, int] = {nn.BatchNorm2d: 4, nn.BatchNorm3d: 5}
"""The number of dimensions that a batch normalization insists on itself."""
