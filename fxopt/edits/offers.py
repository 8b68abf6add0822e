"""The edits that a form offers at a node. Each edit checks itself when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from fxopt.core import GraphIndex, info_of
from fxopt.edits.catalog import OFFERED
from fxopt.edits.draft import Step
from fxopt.edits.place import constants_of, inputs_at
from fxopt.edits.propagation import outcome_of
from fxopt.edits.targets import fitting, kwargs_for
from fxopt.graph.nodes import inputs_of


@dataclass(frozen=True)
class Offers:
    """The edits on offer at one node; a kind is empty if it makes no sense there."""

    constants: tuple[tuple[str, Any], ...] = ()
    """The constant arguments by place, for `SetArgument`."""
    targets: tuple[str, ...] = ()
    """Other targets that give the same shape and dtype, for `Retarget`."""
    inputs: tuple[tuple[str, str], ...] = ()
    """The inputs by place and name, for `Rewire` and `SwapInputs`."""
    earlier: tuple[str, ...] = ()
    """The nodes that an input could be rewired to, the nearest first."""
    takes: tuple[str, ...] = ()
    """The nodes that its users could read once it is deleted; one empty name if it has no users."""
    users: tuple[str, ...] = ()
    """The users before which a module can be put."""
    inserted: tuple[str, ...] = ()
    """The modules that can be put there."""
    replacements: tuple[str, ...] = ()
    """The modules that it can call instead, for `ReplaceModule`."""

    @property
    def is_empty(self) -> bool:
        return not any((self.constants, self.targets, self.inputs, self.takes, self.inserted, self.replacements))


def offers_at(node: Node, index: GraphIndex) -> Offers:
    """Return the edits on offer at a node of the graph of `index`."""
    calls = node.op.startswith("call_")
    inputs = tuple((at, one.name) for at, one in inputs_at(node)) if calls or node.op == "output" else ()
    users = tuple(user.name for user in node.users)
    return Offers(
        constants=constants_of(node) if calls else (),
        targets=_targets(node, index) if node.op in ("call_function", "call_method") else (),
        inputs=inputs,
        earlier=_earlier(node) if inputs else (),
        takes=_takes(node) if calls or (node.op == "get_attr" and not users) else (),
        users=users,
        inserted=OFFERED if users and node.op != "output" else (),
        replacements=OFFERED if node.op == "call_module" else (),
    )


def _takes(node: Node) -> tuple[str, ...]:
    names = tuple(other.name for other in inputs_of(node))
    if not node.users:
        return ("",)
    info = info_of(node)
    return tuple(sorted(names, key=lambda name: info_of(_named(node, name)) != info))


def _named(node: Node, name: str) -> Node:
    return next(other for other in inputs_of(node) if other.name == name)


def _earlier(node: Node) -> tuple[str, ...]:
    """Return the nodes before `node`: those with the shape of its first input first, each group the nearest first."""
    like = next((info_of(other) for other in inputs_of(node)), None)
    found, other = [], node.prev
    while other.op != "root":
        found.append(other)
        other = other.prev
    return tuple(one.name for one in sorted(found, key=lambda one: info_of(one) != like or like is None))


def _targets(node: Node, index: GraphIndex) -> tuple[str, ...]:
    """Return the targets that fit the arguments and keep the result of the node, as tried on fake tensors."""
    return tuple(
        target.name
        for target in fitting(node)
        if _keeps_all(index, node, Step(node.name, target.function, node.args, kwargs_for(node, target)))
    )


def _keeps_all(index: GraphIndex, node: Node, step: Step) -> bool:
    outcome = outcome_of(index, {node: step})
    return outcome.refusal is None and not outcome.infos
