"""The snapshot of a workbench: from graphs and reports to plain facts and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.fx import GraphModule, Node

from fxopt.edits import Edit
from fxopt.evidence import LatencyReport, NumericsReport, ParameterTable, parameter_table, work_costs
from fxopt.graph.nodes import attribute_of, module_of
from fxopt.lessons.facts import PassFacts, RuleFacts, Snapshot
from fxopt.lessons.figures import FIGURES, named
from fxopt.models import Inputs
from fxopt.workbench import Workbench
from fxopt.workbench.summary import summary_of
from fxopt.writing import Answer

_LETTERS = 12
"""So many letters of a fingerprint are told."""


@dataclass(frozen=True)
class Seen:
    """The state of the page around a workbench. Reports are those of the graph as it is now, where there are any."""

    model: str = ""
    inputs: Inputs | None = None
    selected: str = ""
    focus: str = ""
    view: str = "Now"
    tab: str = "Parameters"
    numerics: NumericsReport | None = None
    latency: LatencyReport | None = None
    rule: Answer | None = None
    """The answer to the rule that the learner writes, as its text is now."""
    flops: Callable[[str], int] | None = None
    """Returns those of the graph `before` or `now`, where they are kept; else they are counted for each snapshot."""


def snapshot_of(wb: Workbench, seen: Seen, figures: Iterable[str] = ()) -> Snapshot:
    """Return the facts about a workbench and the page, with the figures of these names."""
    states = {state.name: state for state in wb.states}
    source = _Figures(wb, seen)
    return Snapshot(
        model=seen.model,
        passes={
            name: PassFacts(
                state.on, {one.site: one.on for one in state.sites}, tuple(miss.site for miss in state.misses)
            )
            for name, state in states.items()
            if not isinstance(state.pass_, Edit)
        },
        edits={name: state.sites_on > 0 for name, state in states.items() if isinstance(state.pass_, Edit)},
        selected=seen.selected,
        focus=seen.focus,
        view=seen.view,
        tab=seen.tab,
        numerics=_numerics(seen.numerics),
        latency=_latency(seen.latency),
        rule=_rule(seen.rule),
        is_original=wb.is_restored,
        was_changed=wb.can_undo or wb.can_redo,
        figures={name: source.of(name) for name in figures},
    )


def flops_of(gm: GraphModule, inputs: Inputs) -> int:
    """Return the floating-point operations of one run of a graph, as lessons tell them."""
    flops, _ = work_costs(gm, *inputs)
    return flops.of_all(flops.parts)


def _numerics(report: NumericsReport | None) -> str:
    if report is None:
        return ""
    if report.identical:
        return "identical"
    return {True: "rounding", False: "different", None: "open"}[report.fits]


def _latency(report: LatencyReport | None) -> str:
    if report is None or not report.rounds:
        return ""
    if not report.shown:
        return "undecided"
    return "faster" if report.ratio > 1 else "slower"


def _rule(answer: Answer | None) -> RuleFacts | None:
    if answer is None:
        return None
    return RuleFacts(
        tuple(site.node for one in answer.found for site in one.sites),
        {miss.node: miss.reason for one in answer.found for miss in one.misses},
        next(map(str, answer.faults), ""),
        next((one.checked for one in answer.found if one.checked), ""),
        any(fault.breaks_law for fault in answer.faults),
    )


class _Figures:
    """Computes figures by name."""

    def __init__(self, wb: Workbench, seen: Seen) -> None:
        self.wb, self.seen = wb, seen

    def of(self, name: str) -> float | str | None:
        """Return a figure; None where it is not known, or the graph has no such thing."""
        found = named(name)
        form = FIGURES[found.head].form
        if "WHEN" in form and found.parts[-1] == "delta":
            before, now = (_BY_HEAD[found.head](self, *found.parts[:-1], when) for when in ("before", "now"))
            return None if before is None or now is None else now - before
        value: float | str | None = _BY_HEAD[found.head](self, *found.parts)
        return value

    def graph(self, when: str) -> GraphModule:
        return self.wb.pristine if when == "before" else self.wb.current

    @cached_property
    def table(self) -> ParameterTable:
        return parameter_table(self.wb.pristine, self.wb.current)

    def node(self, name: str, when: str) -> Node | None:
        return next((node for node in self.graph(when).graph.nodes if node.name == name), None)

    def nodes(self, when: str) -> int:
        return len(self.graph(when).graph.nodes)

    def module_calls(self, when: str) -> int:
        return sum(node.op == "call_module" for node in self.graph(when).graph.nodes)

    def modules(self, when: str) -> int:
        found = (module_of(node) for node in self.graph(when).graph.nodes if node.op == "call_module")
        return len({id(module) for module in found})

    def products(self, when: str) -> int:
        return summary_of(self.graph(when)).products

    def parameters(self, when: str) -> int:
        return (self.table.before if when == "before" else self.table.after).parameters

    def bytes(self, when: str) -> int:
        totals = self.table.before if when == "before" else self.table.after
        return totals.parameter_bytes + totals.buffer_bytes

    def flops(self, when: str) -> int | None:
        if self.seen.inputs is None:
            return None
        return self.seen.flops(when) if self.seen.flops else flops_of(self.graph(when), self.seen.inputs)

    def sites(self, pass_: str) -> int:
        return len(self.wb.state_of(pass_).sites)

    def on(self, pass_: str) -> int:
        return self.wb.state_of(pass_).sites_on

    def misses(self, pass_: str) -> int:
        return len(self.wb.state_of(pass_).misses)

    def users(self, name: str, when: str) -> int | None:
        node = self.node(name, when)
        return None if node is None else len(node.users)

    def argument(self, name: str, when: str) -> float | None:
        node = self.node(name, when)
        given = [one for one in node.args if isinstance(one, int | float) and one == one] if node is not None else []
        return given[-1] if given else None

    def inverse(self, name: str, when: str) -> float | None:
        argument = self.argument(name, when)
        return 1 / argument if argument else None

    def held(self, name: str, when: str) -> int | None:
        node = self.node(name, when)
        module = module_of(node) if node is not None else None
        return None if module is None else sum(parameter.numel() for parameter in module.parameters())

    def size(self, name: str, when: str, dim: int) -> int | None:
        node = self.node(name, when)
        weight = getattr(module_of(node), "weight", None) if node is not None and node.op == "call_module" else None
        is_matrix = isinstance(weight, torch.Tensor) and weight.dim() > dim
        return weight.shape[dim] if is_matrix and weight is not None else None

    def element(self, index: str, when: str, path: str) -> float | None:
        tensor = attribute_of(self.graph(when), path)
        is_there = isinstance(tensor, torch.Tensor) and int(index) < tensor.numel()
        return float(tensor.detach().flatten()[int(index)]) if is_there else None

    def error(self, kind: str) -> float | None:
        report = self.seen.numerics
        found = [one.difference for one in report.outputs if one.difference is not None] if report else []
        values = [value for one in found if (value := getattr(one, kind)) is not None]
        if not values:
            return None
        return sum(values) if kind in ("differing", "elements") else max(values)

    def latency(self, kind: str) -> float | None:
        report = self.seen.latency
        return float(getattr(report, kind)) if report is not None and report.rounds else None

    def label(self, pass_: str) -> str:
        return self.wb.state_of(pass_).pass_.label

    def reason(self, pass_: str, name: str) -> str | None:
        return next((one.unmet.reason for one in self.wb.state_of(pass_).misses if one.site == name), None)

    def explanation(self, pass_: str, name: str) -> str | None:
        return next((one.explanation for one in self.wb.state_of(pass_).sites if one.site == name), None)

    def verdict(self, of: str) -> str | None:
        report = self.seen.numerics if of == "numerics" else self.seen.latency
        return None if report is None else report.verdict

    def rule(self, kind: str) -> int | None:
        found = _rule(self.seen.rule)
        return None if found is None else len(getattr(found, kind))

    def rule_reason(self, name: str) -> str | None:
        found = _rule(self.seen.rule)
        return None if found is None else found.misses.get(name)

    def rule_says(self, kind: str) -> str | None:
        found = _rule(self.seen.rule)
        return None if found is None else str(getattr(found, kind)) or None

    def fingerprint(self, when: str) -> str:
        found = self.wb.portable_fingerprints()
        return found[0 if when == "before" else 1][:_LETTERS]


_BY_HEAD: Mapping[str, Callable[..., Any]] = {
    **{head: getattr(_Figures, head) for head in FIGURES if head not in ("rows", "columns")},
    "rows": lambda figures, name, when: figures.size(name, when, 0),
    "columns": lambda figures, name, when: figures.size(name, when, 1),
}
