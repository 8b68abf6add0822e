"""The matches and near misses of the rules of a text, and the laws on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.fx import GraphModule

from fxopt.core import GraphIndex, Pass
from fxopt.testing import LawBroken, check_pass
from fxopt.writing.answer import MOST_PLACES, Answer, Fault, Found, NearMiss, Site
from fxopt.writing.reading import fault_of, passes_of


def look(text: str, gm: GraphModule) -> Answer:
    """Return the matches and near misses of each rule of a text in a graph, which stays as it is. The text is run."""
    passes, fault = passes_of(text)
    if fault is not None:
        return Answer(faults=(fault,))
    index = GraphIndex(gm)
    found, faults = [], []
    for one in passes:
        try:
            found.append(_found(one, index))
        except Exception as error:  # noqa: BLE001 - the body of the rule runs at the sites; each error of it is told
            faults.append(fault_of(error))
    return Answer(tuple(found), tuple(faults))


def _found(pass_: Pass[Any], index: GraphIndex) -> Found:
    scan = pass_.scan(index)
    sites = tuple(Site(match.anchor.name, pass_.explain(match)) for match in scan.matches[:MOST_PLACES])
    misses = tuple(NearMiss(miss.anchor.name, miss.reason, miss.remedy or "") for miss in scan.misses[:MOST_PLACES])
    more = len(scan.matches) + len(scan.misses) - len(sites) - len(misses)
    return Found(pass_.name, pass_.summary, sites, misses, more)


def check(text: str, gm: GraphModule, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Answer:
    """Return the same as `look`, and the result of `fxopt.testing.check_pass` on the graph and its example.

    A broken law is a fault, with the model and the fact that break it.
    """
    answer = look(text, gm)
    if answer.faults:
        return answer
    names = [str(node.target) for node in gm.graph.nodes if node.op == "placeholder"]
    inputs = (*args, *(kwargs[name] for name in names[len(args) :] if name in kwargs))
    passes, _ = passes_of(text)
    found, faults = [], []
    for one, told in zip(passes, answer.found, strict=True):
        try:
            report = check_pass(one, [(gm, inputs)], needs_sites=False)
        except LawBroken as error:
            faults.append(Fault(str(error), breaks_law=True))
            found.append(told)
        else:
            checked = str(report) if report.sites else f"{one.name} has no site in this model, so nothing was checked"
            found.append(Found(told.name, told.summary, told.sites, told.misses, told.more, checked))
    return Answer(tuple(found), tuple(faults))
