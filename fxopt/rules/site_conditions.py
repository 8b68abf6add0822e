"""Conditions that a pattern must meet in a graph before its replacement may take its place."""

from __future__ import annotations

from collections.abc import Sequence

from torch.fx import Node

from fxopt.graph.conditions import Conditions, Unmet
from fxopt.graph.effects import returns_new_memory
from fxopt.graph.guards import module_conditions, unaltered_conditions
from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import readers_of
from fxopt.graph.nodes import info_of, inputs_of, operation_name
from fxopt.graph.operator_table import PARTS, PERMUTES, REPEATS, SEVERAL_PARTS
from fxopt.graph.ownership import readers_condition
from fxopt.graph.replaceable import (
    is_returned,
    kept_apart_conditions,
    read_instead_conditions,
    shared_memory_conditions,
    strides_condition,
)
from fxopt.graph.writes import unwritten_condition
from fxopt.rules.matching import Binding
from fxopt.rules.pattern import ModuleCall
from fxopt.rules.replacement import Replacement


def own_conditions(member: Binding, shared_ok: bool, index: GraphIndex) -> Conditions[None]:
    """Require that inner values are read by the pattern alone, and that modules are plain and called by it alone."""
    root, *inner = member.nodes.values()
    captured = {root, *inner}
    for node in dict.fromkeys(inner):
        others = [user for user in readers_of(node) if user not in captured]
        yield shared_ok or readers_condition(node, others)
    for step, node in member.nodes.items():
        if isinstance(step, ModuleCall):
            module = index.gm.get_submodule(str(node.target))
            if shared_ok:
                yield from unaltered_conditions(module, str(node.target), step.module.types)
            else:
                yield from module_conditions(node, step.module.types, index)


def unwritten_conditions(member: Binding, index: GraphIndex) -> Conditions[None]:
    """Require that all memory stays unchanged between the first and the last step: all could be done at the last."""
    root, *inner = member.nodes.values()
    for node in inner:
        for tensor in [node, *inputs_of(node)]:
            yield unwritten_condition(tensor, node, root, index, may=True)


def same_result_conditions(
    replacement: Replacement, roots: Sequence[Node], captured: Sequence[Node], index: GraphIndex
) -> Conditions[None]:
    """Require that the replacement of `roots` looks and lies like them, as far as is known and visible."""
    going = _going(roots, captured) if len(roots) == 1 else ()
    for output, root in zip(replacement.outputs, roots):
        stand_in = replacement.bound.get(output)
        if stand_in is not None and stand_in not in captured:
            yield from read_instead_conditions(root, stand_in, index, going)
            continue
        before, after = info_of(root), info_of(stand_in) if stand_in is not None else None
        yield (
            before is None
            or after is None
            or before == after
            or Unmet(f"{stand_in} is {after}, but {root.name} is {before}", actual=str(after), needed=str(before))
        )
        yield from shared_memory_conditions(root, _sources(output, replacement, index), index, going)
        if stand_in is not None or (index.is_fresh(root) and _may_have_gaps(output)):
            yield strides_condition(root, stand_in, index, turned=stand_in is not None or _may_be_turned(output))
    yield from _apart_conditions(replacement, roots, index)


def _apart_conditions(replacement: Replacement, roots: Sequence[Node], index: GraphIndex) -> Conditions[None]:
    """Require that each root stays apart from the model's tensors and from new memory of other roots, if visible."""
    made = [_made_of(output, replacement, index) for output in replacement.outputs]
    for i, root in enumerate(roots):
        for node in made[i]:
            if node.op == "get_attr":
                new = str(node.target) in replacement.tensors
                substitute = "the same tensor in each call" if new else f"the model's own {node.target}"
                yield from kept_apart_conditions(root, substitute, index)
        for j, other in enumerate(roots):
            if i != j and made[i].keys() & made[j].keys():
                both = is_returned(root, index) and is_returned(other, index)
                substitute = f"in the memory of {other.name} as well"
                yield from kept_apart_conditions(root, substitute, index, returned=both)


def _made_of(output: Node, replacement: Replacement, index: GraphIndex) -> dict[Node, None]:
    """Return the new nodes whose memory `output` may share, itself first."""
    found: dict[Node, None] = {}
    todo = [output]
    while todo:
        node = todo.pop()
        if node not in replacement.bound and node not in found:
            found[node] = None
            todo += _passed_on(node, replacement, index)
    return found


def _passed_on(node: Node, replacement: Replacement, index: GraphIndex) -> list[Node]:
    """Return the nodes that a new node reads and may pass on, in part or whole."""
    if node.op == "call_module":
        module = replacement.modules.get(str(node.target)) or index.module_at(str(node.target))
        return [] if returns_new_memory(module) else node.all_input_nodes
    return [] if index.is_fresh(node) else node.all_input_nodes


def _going(roots: Sequence[Node], captured: Sequence[Node]) -> set[Node]:
    """Return the roots, and the nodes captured for them alone."""
    going = set(roots)
    for node in sorted(captured, reverse=True):
        if all(user in going for user in readers_of(node)):
            going.add(node)
    return going


def _may_have_gaps(node: Node) -> bool:
    """Return whether `node`, which a rule wrote, may give a part of a tensor, or its dimensions in another order."""
    while operation_name(node) in ("unsqueeze", "squeeze", "alias") and isinstance(node.args[0], Node):
        node = node.args[0]
    return operation_name(node) in _WITH_GAPS


def _may_be_turned(node: Node) -> bool:
    """Return whether `node`, which a rule wrote, may give dimensions of a new tensor in another order."""
    while operation_name(node) in _PARTS and isinstance(node.args[0], Node):
        node = node.args[0]
    return operation_name(node) in _WITH_GAPS


_PARTS = PARTS | SEVERAL_PARTS | {"unsqueeze", "squeeze", "alias"}
_WITH_GAPS = PERMUTES | PARTS | SEVERAL_PARTS | REPEATS


def _sources(output: Node, replacement: Replacement, index: GraphIndex) -> list[Node]:
    """Return the nodes of the graph whose memory the new `output` may share."""
    found: dict[Node, None] = {}
    todo = [output]
    while todo:
        node = todo.pop()
        if node in replacement.bound:
            found[replacement.bound[node]] = None
        else:
            todo += _passed_on(node, replacement, index)
    return list(found)
