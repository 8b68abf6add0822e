"""Linear layers, convolutions and batch normalizations, read alike at every level of a graph.

A graph calls a layer in one of three ways, and `layer_of` gives the same answer for all of them:

- a module, ``call_module conv``, which holds its tensors;
- a function of torch on tensors that ``get_attr`` nodes read, ``F.conv2d(x, conv_weight, conv_bias)``;
- an operator on such tensors, ``aten.conv2d.default(x, conv_weight, conv_bias)``, as ``torch.export`` writes it, or
  ``aten.convolution.default`` after ``run_decompositions()``.

Whether a layer may be changed is for `layer_conditions` (``guards.py``) to say; how it is, for ``layer_edit.py``.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from fxopt.graph.index import GraphIndex
from fxopt.graph.nodes import attribute_of, input_of, module_of


@dataclass(frozen=True, eq=False)  # equality would compare tensors
class Held:
    """A tensor of a layer: where it is registered, and the node that reads it where a function is called."""

    tensor: torch.Tensor | None = field(repr=False)
    """None if the graph computes it from other values."""
    path: str
    reader: Node | None = None


@dataclass(frozen=True, eq=False)
class Layer:
    """A call of a layer, by module or by function."""

    node: Node
    input: Node | None
    """Its input; None if its call has more inputs than one beside its tensors."""
    module: nn.Module | None
    """None if a function is called."""
    path: str
    """The path under which the module is registered."""
    held: Mapping[str, Held]
    """Its tensors by role (``weight``, ``bias``, ``running_mean``, ...), without missing ones."""

    def tensor(self, role: str) -> torch.Tensor | None:
        return self.held[role].tensor if role in self.held else None

    @property
    def weight(self) -> torch.Tensor:
        """The weight of a layer that passes `layer_conditions`."""
        weight = self.tensor("weight")
        if weight is None:
            raise ValueError(
                f"the graph computes the weight of {self.name}; ask layer_conditions for a layer that has one"
            )
        return weight

    @property
    def bias(self) -> torch.Tensor | None:
        return self.tensor("bias")

    @property
    def name(self) -> str:
        """As messages call it: the path of the module, or the name of the node that calls a function."""
        return self.node.name if self.module is None else self.path

    @property
    def output(self) -> Node:
        """The node whose value is the result of the layer: its own, except if that is a tuple."""
        return self.node


@dataclass(frozen=True, eq=False)
class LinearLayer(Layer):
    """``x W^T + b`` on the last dimension."""


@dataclass(frozen=True, eq=False)
class AddmmLayer(Layer):
    """``b + x W`` for a matrix ``x``: a linear layer whose weight lies the other way round."""


@dataclass(frozen=True, eq=False)
class ConvLayer(Layer):
    """A convolution, or a transposed one, on dimension 1."""

    transposed: bool
    groups: int
    pads_zeros: bool
    """Whether zeros are put around the input."""

    @property
    def dimensions(self) -> int:
        """The number of dimensions of the kernel: 2 for images."""
        return self.weight.dim() - 2


@dataclass(frozen=True, eq=False)
class BatchNormLayer(Layer):
    """Batch normalization of dimension 1."""

    training: Any
    """Whether the batch itself sets the scale and shift: True, False, or a node that knows."""
    eps: float

    @property
    def gives_one_tensor(self) -> bool:
        """False where it gives a tuple of which anything but the first item is used."""
        users = list(self.node.users)
        return self.node.target is not _NO_TRAINING or (
            len(users) == 1 and users[0].target is operator.getitem and users[0].args[1:] == (0,)
        )

    @property
    def output(self) -> Node:
        is_tuple = self.node.target is _NO_TRAINING and self.gives_one_tensor
        return next(iter(self.node.users)) if is_tuple else self.node


def layer_of(node: Node, index: GraphIndex) -> Layer | None:
    """Return `node` as a layer; None if it calls something else."""
    if node.op == "call_module":
        return _called_module(node, index)
    form = _FORMS.get(node.target) if node.op == "call_function" else None
    return form and _called_function(node, *form, index)


def _called_module(node: Node, index: GraphIndex) -> Layer | None:
    module = index.module_of(node)
    if not isinstance(module, _MODULES):
        return None
    path = str(node.target)
    tensors = {**module._parameters, **module._buffers}
    held = {role: Held(t, f"{path}.{role}") for role, t in tensors.items() if t is not None}
    call = (node, input_of(node), module, path, held)
    if isinstance(module, nn.Linear):
        return LinearLayer(*call)
    if isinstance(module, _BatchNorm):
        return BatchNormLayer(*call, training=module.training, eps=module.eps)
    pads = module.padding_mode == "zeros" and any(module._reversed_padding_repeated_twice)
    return ConvLayer(*call, transposed=module.transposed, groups=module.groups, pads_zeros=pads)


def _called_function(node: Node, kind: type[Layer], names: tuple[str, ...], index: GraphIndex) -> Layer | None:
    given: dict[str, Any] = {**dict(zip(names, node.args)), **node.kwargs}
    if kind is not BatchNormLayer and given.get("weight") is None:
        return None
    x = given.get("input")
    odd = len(node.args) > len(names) or not isinstance(x, Node) or (kind is AddmmLayer and bool(node.kwargs))
    held = {role: _held(given[role], index) for role in _ROLES if given.get(role) is not None}
    call = (node, None if odd or not isinstance(x, Node) else x, None, "", held)
    if kind is BatchNormLayer:
        training = given.get("training", False)
        return BatchNormLayer(*call, training=training, eps=given.get("eps", 1e-5))
    if kind is ConvLayer:
        transposed = given.get("transposed", "output_padding" in names)
        pads = _pads(given.get("padding", 0), held["weight"].tensor)
        return ConvLayer(*call, transposed=transposed, groups=given.get("groups", 1), pads_zeros=pads)
    return kind(*call)


def _held(value: Any, index: GraphIndex) -> Held:
    if isinstance(value, Node) and value.op == "get_attr":
        tensor = attribute_of(index.gm, str(value.target))
        return Held(tensor if isinstance(tensor, torch.Tensor) else None, str(value.target), value)
    return Held(None, "", value if isinstance(value, Node) else None)


def _pads(padding: Any, weight: torch.Tensor | None) -> bool:
    if padding == "same":
        return weight is None or any(size > 1 for size in weight.shape[2:])
    sizes = padding if isinstance(padding, list | tuple) else (padding,)
    return padding != "valid" and any(not isinstance(size, int) or size != 0 for size in sizes)


_MODULES = (nn.Linear, _ConvNd, _BatchNorm)

_ROLES = ("weight", "bias", "running_mean", "running_var")
_LINEAR = ("input", "weight", "bias")
_ADDMM = ("bias", "input", "weight")
_CONV = (*_LINEAR, "stride", "padding", "dilation", "groups")
_TRANSPOSED = (*_LINEAR, "stride", "padding", "output_padding", "groups", "dilation")
_CONVOLUTION = (*_LINEAR, "stride", "padding", "dilation", "transposed", "output_padding", "groups")
_BATCH_NORM = (*_LINEAR, "running_mean", "running_var", "training", "momentum", "eps", "cudnn_enabled")
_PYTHON_BATCH_NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")

_aten = torch.ops.aten
_NO_TRAINING = _aten._native_batch_norm_legit_no_training.default

_FORMS: dict[Any, tuple[type[Layer], tuple[str, ...]]] = {
    **dict.fromkeys((F.linear, _aten.linear.default), (LinearLayer, _LINEAR)),
    **dict.fromkeys((torch.addmm, _aten.addmm.default), (AddmmLayer, _ADDMM)),
    **dict.fromkeys((torch.conv1d, _aten.conv1d.default, _aten.conv1d.padding), (ConvLayer, _CONV)),
    **dict.fromkeys((torch.conv2d, _aten.conv2d.default, _aten.conv2d.padding), (ConvLayer, _CONV)),
    **dict.fromkeys((torch.conv3d, _aten.conv3d.default, _aten.conv3d.padding), (ConvLayer, _CONV)),
    **dict.fromkeys((torch.conv_transpose1d, _aten.conv_transpose1d.default), (ConvLayer, _TRANSPOSED)),
    **dict.fromkeys((torch.conv_transpose2d, _aten.conv_transpose2d.input), (ConvLayer, _TRANSPOSED)),
    **dict.fromkeys((torch.conv_transpose3d, _aten.conv_transpose3d.input), (ConvLayer, _TRANSPOSED)),
    _aten.convolution.default: (ConvLayer, _CONVOLUTION),
    F.batch_norm: (BatchNormLayer, _PYTHON_BATCH_NORM),
    **dict.fromkeys((torch.batch_norm, _aten.batch_norm.default), (BatchNormLayer, _BATCH_NORM)),
    _NO_TRAINING: (BatchNormLayer, (*_BATCH_NORM[:5], "momentum", "eps")),
}
"""The functions and operators that are layers, with the names of their arguments in order."""

LINEAR_CALLS: tuple[Any, ...] = tuple(target for target, form in _FORMS.items() if form[0] is LinearLayer)
ADDMM_CALLS: tuple[Any, ...] = tuple(target for target, form in _FORMS.items() if form[0] is AddmmLayer)
CONV_CALLS: tuple[Any, ...] = tuple(target for target, form in _FORMS.items() if form[0] is ConvLayer)
BATCH_NORM_CALLS: tuple[Any, ...] = tuple(target for target, form in _FORMS.items() if form[0] is BatchNormLayer)

DECOMPOSED_LINEAR_CALLS: tuple[Any, ...] = (_aten.addmm.default, _aten.mm.default)
"""The calls that ``run_decompositions()`` makes of linear layers, with the weight transposed by a node of its own."""


def calls_linear(node: Node) -> bool:
    """Return whether `node` calls a linear layer, as a module or as a function."""
    return isinstance(module_of(node), nn.Linear) or node.target in LINEAR_CALLS


def argument_names(target: Any) -> tuple[str, ...]:
    """Return the names of the arguments of a function or operator that is a layer, in order."""
    return _FORMS[target][1]
