"""Layers with packed weights: the conditions, the activation and the sum behind a layer, and the rewrite.

oneDNN multiplies matrices block by block. A packed weight lies in memory block by block, so a call reads it in one go
instead of gathering it, and a sum or an activation behind it is done while a block of the product is still in the
registers, which saves a pass over memory for each.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    LINEAR_CALLS,
    Condition,
    Conditions,
    GraphIndex,
    Layer,
    LinearLayer,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    is_tensor,
    layer_conditions,
    layer_of,
    path_beside,
    remove_tensors,
    unwritten_condition,
)
from fxopt.graph.copying import shallow_copy
from fxopt.packed import (
    DTYPES,
    Activation,
    BFloat16Linear,
    Int8Linear,
    PackedConv2d,
    PackedLayer,
    PackedLinear,
    is_available,
    supports,
)
from fxopt.rules.spellings import Spelling, spelled

PASS_OF: dict[type[nn.Module], str] = {
    PackedLinear: "PackLinears",
    PackedConv2d: "PackConvolutions",
    BFloat16Linear: "CastLinearsToBFloat16",
    Int8Linear: "QuantizeLinears",
}
"""The name of the pass that makes a packed layer, for a sentence on its remedy."""


@dataclass(frozen=True, eq=False)
class LayerToPack(Match):
    """A layer, with the calls behind it that its packed form computes as well."""

    layer: Layer
    other: Node | None = None
    """The tensor that is added to the result."""
    other_first: bool = False
    activation: Activation | None = None
    behind: tuple[Node, ...] = ()
    """The calls that go: the sum and the activation, in their order."""
    reshaped: Node | None = None
    """The reshape between the layer and the activation, which stays: an activation is the same in any shape."""
    padded: Node | None = None
    """The call that puts zeros around the input, which goes as well."""
    source: Node | None = None
    """The tensor that it puts them around."""
    zeros: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Columns at the left and at the right, rows at the top and at the bottom."""

    @property
    def result(self) -> Node:
        """The node that has the numbers of all together."""
        return self.behind[-1] if self.behind else self.layer.node


class LinearPacking(Pass[LayerToPack]):
    """Replace a linear layer, and the calls behind it that its packed form computes as well, with a packed one."""

    targets = (nn.Linear, *LINEAR_CALLS)

    def match(self, node: Node, index: GraphIndex) -> LayerToPack | Miss | None:
        layer = layer_of(node, index)
        return decide(node, self._conditions(layer, index)) if isinstance(layer, LinearLayer) else None

    @abstractmethod
    def _conditions(self, layer: LinearLayer, index: GraphIndex) -> Conditions[LayerToPack]:
        """Require all that the packed layer needs, and return the match."""

    def results(self, match: LayerToPack) -> tuple[Node, ...]:
        return (match.result,)

    def rewrite(self, match: LayerToPack, rewriter: Rewriter) -> None:
        module = match.layer.module
        put_packed(match, self._packed(match, training=module is not None and module.training), rewriter)

    @abstractmethod
    def _packed(self, match: LayerToPack, *, training: bool) -> PackedLinear:
        """Return the module that does the work of the match."""


def packing_conditions(layer: Layer, kind: type[nn.Module], index: GraphIndex) -> Conditions[None]:
    """Require that oneDNN can compute `layer` from a packed weight."""
    yield is_available() or Unmet(
        "this build of torch has no operators of oneDNN", actual="none", needed="torch.ops.mkldnn"
    )
    yield (
        layer.module is None
        or not layer.module.training
        or Unmet(
            f"{layer.name} is in training mode, and the operators of oneDNN have no gradients",
            remedy="model.eval()",
            actual="training",
            needed="evaluation",
        )
    )
    yield from layer_conditions(layer, kind, index, ties_ok=True)
    weight = layer.weight
    yield weight.is_cpu or Unmet(
        f"the weight of {layer.name} is on {weight.device}, and oneDNN computes on a CPU",
        actual=str(weight.device),
        needed="cpu",
    )
    yield weight.dtype in DTYPES or Unmet(
        f"the weight of {layer.name} is {weight.dtype}, and oneDNN packs float32 and bfloat16",
        actual=str(weight.dtype),
        needed="float32 or bfloat16",
    )
    yield supports(weight.dtype) or Unmet(
        f"this processor has no instructions for {weight.dtype}", actual=str(weight.dtype), needed="float32"
    )
    yield weight.numel() > 0 or Unmet(
        f"the weight of {layer.name} is empty", actual=str(tuple(weight.shape)), needed="at least one number"
    )
    yield not weight.is_inference() or Unmet(
        f"the weight of {layer.name} was made in inference mode, where torch does not count the writes to it",
        remedy="make or load the model outside of torch.inference_mode()",
        actual="an inference tensor",
        needed="a tensor with a version",
    )
    info = info_of(layer.input) if layer.input is not None else None
    yield (
        info is None
        or info.dtype == weight.dtype
        or Unmet(
            f"{layer.name} reads {info.dtype}, and its weight is {weight.dtype}",
            actual=str(info.dtype),
            needed=str(weight.dtype),
        )
    )


def with_calls_behind(
    layer: Layer, index: GraphIndex, *, activated_sum: bool = False, reshape_between: bool = False
) -> LayerToPack:
    """Return `layer` with the sum and the activation behind it that can be computed with it.

    Args:
        activated_sum: whether the sum may have an activation behind it.
        reshape_between: whether the activation may read the layer through one reshape.
    """
    found = LayerToPack(layer.node, layer)
    added = _sum_behind(layer, index)
    if added is not None:
        found = added
        if not activated_sum:
            return found
    return with_activation_behind(found, index, reshape_between=reshape_between)


def with_activation_behind(found: LayerToPack, index: GraphIndex, *, reshape_between: bool = False) -> LayerToPack:
    """Return `found` with the activation behind its result that can be computed with it.

    Args:
        reshape_between: whether the activation may read a reshape of the result.
    """
    reshaped = _reshape_behind(found.anchor, index) if reshape_between else None
    activation = _activation_behind(reshaped or found.result, index)
    if activation is None:
        return found
    node, form = activation
    behind = (*found.behind, node)
    return LayerToPack(found.anchor, found.layer, found.other, found.other_first, form, behind, reshaped)


def float32_condition(layer: Layer) -> Condition:
    """Require that the weight of `layer` is of float32, which is to be rounded."""
    return layer.weight.dtype == torch.float32 or Unmet(
        f"the weight of {layer.name} is {layer.weight.dtype}", actual=str(layer.weight.dtype), needed="float32"
    )


def put_packed(match: LayerToPack, packed: PackedLayer, rewriter: Rewriter) -> None:
    """Let `packed` do the work of the layer and of the calls behind it."""
    layer, node = match.layer, match.layer.node
    path = (
        layer.path if layer.module is not None else rewriter.free_path(path_beside(layer.held["weight"].path, "packed"))
    )
    rewriter.set_module(path, packed, called_by=node)
    x = layer.input if match.padded is None else match.source
    given = (x,) if match.other is None else (x, match.other)
    if layer.module is None or match.other is not None or match.padded is not None:
        rewriter.set_call(node, "call_module", path, given, {})
    if layer.module is None:
        remove_tensors(layer, rewriter)
    info = info_of(match.result)
    if info is not None and match.reshaped is None:
        rewriter.set_info(node, info)
    if match.padded is not None:
        rewriter.erase(match.padded)
    for number, gone in enumerate(reversed(match.behind)):
        if number == 0:
            rewriter.replace(gone, match.reshaped or node)
        else:
            rewriter.erase(gone)


def explain_packing(match: LayerToPack) -> str:
    """Return the sentence on the effect of the rewrite, with the numbers of this site."""
    weight = match.layer.weight
    shape = " x ".join(map(str, weight.shape))
    size = weight.nbytes / 1e6
    return sentence_on(match, f"reads its {shape} weights block by block from a packed copy ({size:.3g} MB more)")


def sentence_on(match: LayerToPack, effect: str) -> str:
    """Return the sentence with `effect`, and with the calls that go into that of the layer."""
    text = f"{match.anchor.name} {effect}"
    if match.padded is not None:
        text += f", pads as {match.padded.name} does"
    if match.other is not None:
        text += f", adds {match.other.name}"
    if match.activation is not None:
        text += f", applies {match.activation}"
    return f"{text} in the same call" if match.behind or match.padded is not None else text


_SUMS_IN_PLACE = (operator.iadd, "add_", torch.ops.aten.add_.Tensor)


def _sum_behind(layer: Layer, index: GraphIndex) -> LayerToPack | None:
    """Return the match with the one call that reads the layer, if that adds a tensor of the same shape made before."""
    node = layer.node
    user, spelling = _only_reader(node, index)
    if user is None:
        return None
    if user.target in _SUMS_IN_PLACE and len(user.args) == 2 and not user.kwargs:
        terms: tuple[Any, ...] = user.args
        into = terms[0]  # the result of the layer is new memory, and another tensor has to be as well
        if not isinstance(into, Node) or [*into.users] != [user] or not (into is node or index.is_fresh(into)):
            return None
    elif spelling is not None and spelling.name == "add" and spelling.arguments.get("alpha", 1) == 1:
        terms = (spelling.arguments.get("input"), spelling.arguments.get("other"))
    else:
        return None
    others = [term for term in terms if term is not node]
    other = others[0] if len(others) == 1 else None
    if not isinstance(other, Node) or not is_tensor(other) or not other < node:
        return None
    alike = info_of(other) is not None and info_of(other) == info_of(node)
    if not alike or unwritten_condition(other, node, user, index) is not True:
        return None
    return LayerToPack(node, layer, other, terms[0] is other, None, (user,))


def _reshape_behind(node: Node, index: GraphIndex) -> Node | None:
    """Return the one call that reads `node`, if that gives the same numbers in another shape."""
    user, spelling = _only_reader(node, index)
    if user is None or spelling is None or spelling.name != "view" or spelling.arguments.get("input") is not node:
        return None
    before, after = info_of(node), info_of(user)
    # `view` with a dtype reads the bits as other numbers
    return user if before is not None and after is not None and before.dtype == after.dtype else None


def _activation_behind(node: Node, index: GraphIndex) -> tuple[Node, Activation] | None:
    """Return the one call that reads `node`, if that is an activation which oneDNN knows."""
    user, spelling = _only_reader(node, index)
    if user is None or spelling is None or spelling.arguments.get("input") is not node:
        return None
    activation = Activation.of(spelling.name, spelling.arguments)
    return None if activation is None else (user, activation)


def _only_reader(node: Node, index: GraphIndex) -> tuple[Node | None, Spelling | None]:
    """Return the one call that uses `node`, with its operation."""
    if len(node.users) != 1:
        return None, None
    user = next(iter(node.users))
    if user.op == "output" or index.autocast_around(user) is not None:
        return None, None
    module = index.module_of(user)
    if module is not None and getattr(module, "inplace", False):
        # the result of the layer is new memory that nobody else reads
        module = shallow_copy(module)
        module.inplace = False
    return user, spelled(user, module)
