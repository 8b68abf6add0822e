"""Find the pattern of a rule in a graph; for a partial match, name the first part that is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import Node

from fxopt.graph.conditions import Unmet
from fxopt.graph.index import GraphIndex
from fxopt.graph.nodes import info_of, input_of, is_tensor, target_name
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.rules.pattern import Constant, Kind, ModuleCall, Operation, Parameter, Several, Term
from fxopt.rules.spellings import DIMENSIONS, Spelling, functions_of, same_literal, spelled


@dataclass(frozen=True, eq=False)
class Binding:
    """A binding of the parts of a pattern to nodes and literals of the graph."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """The value of each parameter: a node, a literal, or for a module the node that calls it."""
    nodes: Mapping[Operation | ModuleCall, Node] = field(default_factory=dict)
    """The node of each operation and module call, the root first."""
    met: int = 0
    """The count of conditions that were met."""

    def with_value(self, name: str, value: Any, met: int) -> Binding:
        return Binding({**self.values, name: value}, self.nodes, self.met + met)

    def with_node(self, step: Operation | ModuleCall, node: Node) -> Binding:
        return Binding(self.values, {**self.nodes, step: node}, self.met + 1)

    def with_one_more_met(self) -> Binding:
        return Binding(self.values, self.nodes, self.met + 1)


@dataclass(frozen=True, eq=False)
class NoBinding:
    """The first unmet condition of a pattern, and the count of met ones."""

    goal: _Goal
    needed: object
    """The required part of the pattern; its text is made on demand."""
    met: int
    fact: str = ""
    remedy: str = ""
    says_itself: bool = False
    """True makes it a near miss, whichever conditions are met."""

    @property
    def unmet(self) -> Unmet:
        goal, needed = self.goal, str(self.needed)
        reason = self.fact or f"the {goal.place} is {goal.found}, where the pattern has {needed}"
        return Unmet(reason, self.remedy, goal.found, needed)


@dataclass(frozen=True, eq=False, slots=True)
class _Goal:
    """The goal that `value` matches `term`. `reader` has it as its argument `role`."""

    term: Term
    value: Any
    reader: Node
    role: str = "input"

    @property
    def place(self) -> str:
        return f"{self.role} of {self.reader.name}"

    @property
    def found(self) -> str:
        if isinstance(self.value, Node):
            return f"{self.value.name} ({target_name(self.value)})"
        return repr(self.value)

    def fails(self, binding: Binding, needed: object, fact: str = "", remedy: str = "") -> NoBinding:
        return NoBinding(self, needed, binding.met, fact, remedy)


def bind(root: Operation | ModuleCall, node: Node, index: GraphIndex) -> Binding | NoBinding:
    """Return the binding of the pattern with its root at `node`."""
    return _Search(index).solve((_Goal(root, node, node, "root"),), Binding())


class _Search:
    def __init__(self, index: GraphIndex) -> None:
        self.index = index

    def _spelled(self, node: Node) -> Spelling | None:
        known: dict[Node, Spelling | None] = self.index.cached(spelled, dict)
        if node not in known:
            known[node] = spelled(node, self.index.module_of(node))
        return known[node]

    def solve(self, goals: tuple[_Goal, ...], binding: Binding) -> Binding | NoBinding:
        while goals:
            goal, goals = goals[0], goals[1:]
            term = goal.term
            if isinstance(term, Operation):
                ways = self._operation(term, goal, binding)
                if isinstance(ways, NoBinding):
                    return self._all_met(ways, goals, binding)
                if isinstance(goal.value, Node):
                    binding = binding.with_node(term, goal.value) if term not in binding.nodes else binding
                if len(ways) > 1:
                    return self._best([(*way, *goals) for way in ways], binding)
                goals = (*ways[0], *goals)
                continue
            if isinstance(term, Several):
                if not isinstance(goal.value, list | tuple) or len(goal.value) != len(term.items):
                    return self._all_met(goal.fails(binding, f"{len(term.items)} values"), goals, binding)
                goals = (*(_Goal(t, v, goal.reader, goal.role) for t, v in zip(term.items, goal.value)), *goals)
                continue
            if isinstance(term, ModuleCall):
                found = self._module_call(term, goal, binding)
                if isinstance(found, Binding) and term not in binding.nodes:
                    goals = (_Goal(term.argument, input_of(goal.value), goal.value), *goals)
            elif isinstance(term, Parameter):
                found = self._parameter(term, goal, binding)
            else:
                found = self._constant(term, goal, binding)
            if isinstance(found, NoBinding):
                return self._all_met(found, goals, binding)
            binding = found
        return binding

    def _all_met(self, failure: NoBinding, goals: tuple[_Goal, ...], binding: Binding) -> NoBinding:
        """Return the failure, with the conditions counted that the goals behind it meet."""
        met = self.solve(goals, binding).met if goals else binding.met
        return replace(failure, met=met) if met != failure.met else failure

    def _best(self, ways: list[tuple[_Goal, ...]], binding: Binding) -> Binding | NoBinding:
        """Return the first way that succeeds, else the one that came farthest."""
        failures: list[NoBinding] = []
        for way in ways:
            found = self.solve(way, binding)
            if isinstance(found, Binding):
                return found
            failures.append(found)
        return max(failures, key=lambda failure: failure.met)

    def _operation(self, term: Operation, goal: _Goal, binding: Binding) -> list[tuple[_Goal, ...]] | NoBinding:
        """Return the remaining goals, for each way to pair the arguments."""
        node, wanted = goal.value, term.spelling
        if term in binding.nodes:
            same = binding.nodes[term] is node
            return [()] if same else goal.fails(binding, f"{binding.nodes[term].name} again")
        spelling = self._spelled(node) if isinstance(node, Node) else None
        if spelling is None or spelling.operation != wanted.operation:
            return goal.fails(binding, term)
        if spelling.needs_tensor and not is_tensor(node):
            fact = f"{node.name} is not known to be a tensor; of sizes and numbers, {term} must stay exact"
            remedy = f"{NEEDS_SHAPES}, or annotate its inputs as torch.Tensor"
            return goal.fails(binding, "a tensor", fact, remedy)
        straight = _pairs(term, spelling, node)
        pair = wanted.commutative
        if pair is None or pair != spelling.commutative:
            return [straight]
        a, b = pair
        turned = {**spelling.arguments, a: spelling.arguments[b], b: spelling.arguments[a]}
        return [straight, _pairs(term, replace(spelling, arguments=turned), node)]

    def _module_call(self, term: ModuleCall, goal: _Goal, binding: Binding) -> Binding | NoBinding:
        node = goal.value
        if term in binding.nodes:
            return binding if binding.nodes[term] is node else goal.fails(binding, f"{binding.nodes[term].name} again")
        module = self.index.module_of(node) if isinstance(node, Node) else None
        if isinstance(node, Node) and node.op == "call_function" and node.target in functions_of(term.module.types):
            fact = f"{node.name} calls {target_name(node)}, and a rule with {term} matches calls of modules only"
            remedy = "capture the model itself (fxopt.capture), in which layers are modules, or write a Pass (layer_of)"
            return replace(goal.fails(binding, f"a {term.module.wanted}", fact, remedy), says_itself=True)
        if not isinstance(module, term.module.types):
            return goal.fails(binding, f"a {term.module.wanted}")
        if input_of(node) is None:
            return goal.fails(binding, "one input", f"{node.name} is called with other than one input")
        known = binding.values.get(term.module.name)
        if known is not None and self.index.module_of(known) is not module:
            return goal.fails(binding, f"{known.target} again")
        return binding.with_node(term, node).with_value(term.module.name, known or node, 0)

    def _parameter(self, term: Parameter, goal: _Goal, binding: Binding) -> Binding | NoBinding:
        value = goal.value
        if term.name in binding.values:
            known = binding.values[term.name]
            same = known is value if isinstance(known, Node) else same_literal(known, value)
            if same:
                return binding.with_one_more_met()
            shown = known.name if isinstance(known, Node) else repr(known)
            return goal.fails(binding, f"{shown} again ({term.name})")
        if term.kind is Kind.LITERAL:
            value = tuple(value) if isinstance(value, list) else value
            if type(value) not in term.types or _holds_node(value):
                return goal.fails(binding, f"{term.name}, a literal {term.wanted}")
            return binding.with_value(term.name, value, 1)
        if not isinstance(value, Node):
            return goal.fails(binding, f"{term.name}, a value that the model computes")
        if term.kind is Kind.TENSOR:
            if not is_tensor(value):
                return goal.fails(binding, f"{term.name}, a tensor", f"{value.name} is not known to be a tensor")
            return binding.with_value(term.name, value, 1)
        return binding.with_value(term.name, value, 0)

    def _constant(self, term: Constant, goal: _Goal, binding: Binding) -> Binding | NoBinding:
        value, wanted = goal.value, term.value
        if goal.role in DIMENSIONS and isinstance(value, int) and isinstance(wanted, int):
            rank = _rank(goal.reader)
            if rank:
                value, wanted = value % rank, wanted % rank
        if not same_literal(value, wanted):
            return goal.fails(binding, repr(term.value))
        return binding.with_one_more_met()


def _pairs(term: Operation, spelling: Spelling, node: Node) -> tuple[_Goal, ...]:
    """Return each argument of the pattern with that of the graph, defaults filled in."""
    goals = []
    for role in dict.fromkeys((*term.arguments, *spelling.arguments)):
        default = term.spelling.defaults.get(role)
        wanted = term.arguments.get(role, Constant(default))
        value = spelling.arguments.get(role, spelling.defaults.get(role))
        is_default = isinstance(wanted, Constant) and same_literal(wanted.value, default)
        if not (is_default and same_literal(value, default)):
            goals.append(_Goal(wanted, value, node, role))
    return tuple(goals)


def _rank(node: Node) -> int | None:
    """Return the rank of the first input of `node`, where it is known."""
    info = info_of(node.all_input_nodes[0]) if node.all_input_nodes else None
    return None if info is None else len(info.shape)


def _holds_node(value: Any) -> bool:
    return isinstance(value, Node) or (isinstance(value, tuple | list) and any(map(_holds_node, value)))
