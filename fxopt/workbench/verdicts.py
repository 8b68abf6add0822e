"""Verdicts of each pass on a node, silence included: "why does nothing happen here?" has an answer for every pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.fx import Node

from fxopt.core import GraphIndex, Pass
from fxopt.edits import Edit
from fxopt.graph.marks import ORIGIN, Origin
from fxopt.graph.nodes import module_of, target_name
from fxopt.workbench.states import MissState, PassState, SiteState
from fxopt.workbench.workbench import Workbench

FEW = 5
"""The most targets of a pass that are named."""

_NO_CALL = {
    "placeholder": "it is an input of the model, and passes rewrite calls",
    "output": "it is the output of the model, and passes rewrite calls",
    "get_attr": "it reads a constant or a weight, and passes rewrite calls",
}


@dataclass(frozen=True, eq=False)
class Verdict:
    """The verdict of one pass on one node: a site or near miss that the node belongs to, or the reason for silence."""

    state: PassState
    kind: Literal["applied", "matched", "miss", "silent"]
    site: SiteState | None = None
    miss: MissState | None = None
    reason: str = ""
    """The reason why the pass is silent here."""


def verdicts_of(wb: Workbench, name: str) -> tuple[Verdict, ...]:
    """Return the verdicts on the node of this name, in the order of the passes; one or more for each but edits."""
    return tuple(verdict for i in range(len(wb.states)) for verdict in _of_pass(wb, i, name))


def _of_pass(wb: Workbench, i: int, name: str) -> Iterator[Verdict]:
    state = wb.states[i]
    told = False
    for site in state.sites:
        if name in (site.site, *site.nodes, *site.created, *site.changed, *site.removed):
            told = True
            yield Verdict(state, "applied" if site.on else "matched", site=site)
    for miss in state.misses:
        if miss.site == name:
            told = True
            yield Verdict(state, "miss", miss=miss)
    if not told and not isinstance(state.pass_, Edit):  # an edit is about one node
        yield Verdict(state, "silent", reason=_silence(wb, i, name))


def _silence(wb: Workbench, i: int, name: str) -> str:
    """Return the reason why pass number `i` is silent at a node: it finds neither a site nor a near miss."""
    state = wb.states[i]
    if state.error:
        return f"it failed, and was rolled back: {state.error}"
    node, index = _find(wb, name)
    if node is None:
        return "there is no such node"
    if earlier := _remover(wb, i, name):
        return f"the node is gone when this pass runs: {earlier} removed it"
    if later := _maker(wb, i, node):
        return f"the node is not there yet when this pass runs: {later} makes it"
    if node.op in _NO_CALL:
        return _NO_CALL[node.op]
    if all(node is not other for other in state.pass_.candidates(index)):
        module = module_of(node)
        called = target_name(node) if module is None else type(module).__name__
        return f"it looks only at calls of {targets_of(state.pass_)}, and this is a call of {called}"
    return "it looks at such calls, but this one is neither the anchor of a match nor near to being one"


def _find(wb: Workbench, name: str) -> tuple[Node | None, GraphIndex]:
    """Return the node in the current graph, else in the pristine one, and the index of that graph."""
    index = GraphIndex(wb.current)
    if name not in index.nodes:
        index = GraphIndex(wb.pristine)
    return index.nodes.get(name), index


def _remover(wb: Workbench, i: int, name: str) -> str:
    """Return the name of the pass before number `i` that removed the node; empty if the node is still there."""
    return next((s.name for s in wb.states[:i] if any(name in site.removed for site in s.sites)), "")


def _maker(wb: Workbench, i: int, node: Node) -> str:
    """Return the name of the pass, number `i` or a later one, that made the node; empty if it was there before."""
    origin = node.meta.get(ORIGIN)
    made = origin.pass_name if isinstance(origin, Origin) else ""
    return made if made in [state.name for state in wb.states[i:]] else ""


def targets_of(pass_: Pass[Any]) -> str:
    """Return the calls that a pass looks at, in words.

    >>> from fxopt import FuseBatchNorm1dInLinear
    >>> "BatchNorm1d" in targets_of(FuseBatchNorm1dInLinear())
    True
    """
    names = list(dict.fromkeys(map(_spelled, pass_.targets)))
    more = f" and {len(names) - FEW} more" if len(names) > FEW else ""
    return ", ".join(names[:FEW]) + more


def _spelled(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return str(target.overloadpacket.__name__)
    return str(target) if isinstance(target, str) else str(getattr(target, "__name__", target))
