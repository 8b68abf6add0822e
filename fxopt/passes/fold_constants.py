"""A tensor that is the same in each run is computed once, ahead, and read from then on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.fx import Node

from fxopt.core import (
    Conditions,
    Exactness,
    GraphIndex,
    Match,
    Miss,
    Pass,
    RewriteError,
    Rewriter,
    TensorInfo,
    Unmet,
    decide,
    info_of,
)
from fxopt.graph.replaceable import is_returned
from fxopt.passes.constants import Constants, bytes_of, constants_of, value_of

MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class ConstantTensor(Match):
    """A tensor that follows from constants alone, the anchor, and the calls that compute it."""

    cone: tuple[Node, ...]
    """The calls and the parameters and buffers that are read, in order; the anchor is the last."""
    info: TensorInfo


class FoldConstants(Pass[ConstantTensor]):
    """Replace `f(c)`, where all inputs of `f` are constants, with one frozen parameter or buffer that holds the result.

    If `c` is the same in each run, so is `f(c)`: it is computed once, when the pass runs, and each run reads it
    (constant folding: Aho, Lam, Sethi and Ullman 2006, section 8.5.4). Constants are numbers, frozen parameters and
    buffers that nothing writes to, tensors of fixed sizes such as `torch.arange(8, device=x.device)`, and all that is
    computed of them: a causal mask, a table of positions, a bias that is gathered from a table. A run saves the calls
    and their memory traffic. The result takes 64 MiB at most for all constants of a model, and the place of the
    parameters and buffers that it is made of, as in any fold: they have to be read by nothing else, so that no later
    write to one of them could make it untrue. Integers and truths, which have no gradients, are a buffer.

    The same operators compute it on the same values, so with the same number of threads and the same settings of torch
    the bits are the same. It is computed without autocast: a model that is called under autocast rounds at other places
    than before, and may give another dtype. A tensor is computed in each run, as before, where it is random, where a
    parameter of it trains, where something may write to it, where the caller gets it, who may write to it, and where
    its dtype or device is given or torch's default, since a parameter changes with the model. After `.half` it is the
    rounded result, where the calls would compute with rounded inputs.

    >>> import torch, fxopt
    >>> class Model(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.register_buffer("scale", torch.rand(4))
    ...     def forward(self, x):
    ...         return x * (self.scale * 2).exp()
    >>> gm = fxopt.capture(Model().eval(), (torch.rand(2, 4),))
    >>> print(fxopt.FoldConstants()(gm).code.strip().splitlines()[1].strip())
    exp_constant = self.exp_constant
    >>> [node.name for node in fxopt.FoldConstants()(gm, reverse=True).graph.nodes]
    ['x', 'scale', 'mul', 'exp', 'mul_1', 'output']
    """

    label = "Fold constants"
    needs = "a call whose inputs are all constants"

    targets = ()

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        return iter([node for node in index.gm.graph.nodes if node.op.startswith("call_")])

    def match(self, node: Node, index: GraphIndex) -> ConstantTensor | Miss | None:
        plan = constants_of(index)
        if node not in plan.made or plan.reader_of(node) is None:
            return None
        unmet = plan.status[node]
        return Miss(node, unmet) if unmet is not None else decide(node, self._conditions(node, plan))

    def _conditions(self, node: Node, plan: Constants) -> Conditions[ConstantTensor]:
        info = info_of(node)
        assert info is not None, "a condition of every constant"
        size = bytes_of(info)
        yield size > 0 or Unmet(
            f"{node.name} is {info}, which is empty or of a free size", actual=str(info), needed="a size"
        )
        total = size + plan.bytes_before[node]
        yield total <= MOST_BYTES or Unmet(
            f"with the {size / 2**20:,.1f} MiB of {node.name}, the constants would take {total / 2**20:,.1f} MiB",
            actual=f"{total:,} bytes",
            needed=f"<= {MOST_BYTES:,} bytes ({MOST_BYTES / 2**20:g} MiB) for all constants of the model",
        )
        yield not is_returned(node, plan.index) or Unmet(
            f"{node.name} is returned, and would then be the same tensor in each run",
            actual="an output that the caller may write to",
            needed="an output with memory of its own",
        )
        taker = next((user for user in node.users if user.target in (torch.as_tensor, torch.asarray)), None)
        yield taker is None or Unmet(
            f"{taker.name if taker is not None else ''} takes {node.name}, and torch could no longer load "
            "the graph from a pickle",
            actual="torch.as_tensor or torch.asarray of it",
            needed="other readers; a tensor needs neither of them",
        )
        cone = plan.cone(node)
        yield from plan.alone_conditions(cone)
        return ConstantTensor(node, cone, info)

    def exactness(self, match: ConstantTensor) -> Exactness:
        return Exactness.BITWISE

    def explain(self, match: ConstantTensor) -> str:
        calls = sum(node.op.startswith("call_") for node in match.cone)
        count = "one call" if calls == 1 else f"{calls} calls"
        return (
            f"{match.anchor.name}, {match.info}, is the same in each run: {count} less, for "
            f"{bytes_of(match.info):,} bytes"
        )

    def rewrite(self, match: ConstantTensor, rewriter: Rewriter) -> None:
        node, index = match.anchor, rewriter.index
        value = value_of(match.cone, index)
        if type(value) is not torch.Tensor or TensorInfo.of(value) != match.info:
            raise RewriteError(f"{node.name} is noted as {match.info}, and its calls give {TensorInfo.of(value)}")
        path = rewriter.free_path(f"{node.name}_constant")
        can_train = value.is_floating_point() or value.is_complex()
        rewriter.set_tensor(path, nn.Parameter(value, requires_grad=False) if can_train else value)
        rewriter.replace(node, rewriter.get_attr(path, info=match.info, made_from=(node,)))
        for one in reversed(match.cone[:-1]):
            if not one.users:
                rewriter.erase(one)
                if one.op == "get_attr":
                    rewriter.remove_unused_tensor(str(one.target))
