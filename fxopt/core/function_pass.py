"""`as_pass`: any function of graph modules as a pass, whose changes are sites."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from torch import nn
from torch.fx import GraphModule, Node

from fxopt.core.function_identity import identity_of
from fxopt.core.ledger import Ledger, plain_copy
from fxopt.core.pass_base import Pass
from fxopt.core.rewriter import Rewriter
from fxopt.core.signature import digest
from fxopt.core.transformation import Transformation
from fxopt.errors import ArgumentError, expect, in_words
from fxopt.graph.copying import shared_copy
from fxopt.graph.exactness import Exactness
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MARKS, ORIGIN, Origin
from fxopt.graph.nodes import stack_around
from fxopt.graph.site import Match
from fxopt.recording.changes import ABSENT, Change
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.module_changes import SetItem, SetMember
from fxopt.recording.node_changes import ArrangeNodes, EraseNode, InsertNode, SetCall, SetMeta
from fxopt.recording.node_record import Ref
from fxopt.recording.parts import Part, parts_of
from fxopt.recording.record import record
from fxopt.recording.settling import settled
from fxopt.recording.snapshot import Snapshot

Function = Callable[[GraphModule], Any]


@dataclass(frozen=True, eq=False)
class Changed(Match):
    """Nodes whose work a function changes, and its changes there."""

    others: tuple[Node, ...]
    changes: tuple[Change, ...]


def as_pass(function: Function, name: str = "", *, exactness: Exactness = Exactness.CHANGES) -> FunctionPass:
    """Return a pass of a function that takes a graph module and returns one, changed in place or new.

    The function runs on a copy. Its changes to nodes and modules are cut into sites where they do not touch each other,
    and each site is switched, explained and reversed like those of other passes. A function whose changes depend on
    each other at a distance is right with all of its sites on, or none.

    Args:
        function: gives a `GraphModule`; None stands for the given one, changed in place.
        name: by which a workbench, a ledger and the page know the pass; that of the function if not given.
        exactness: of its sites; nothing is promised if not given.

    Raises:
        FxoptError: `function` is no function of one graph module, or is a transformation already.

    >>> import operator, torch
    >>> def relu_to_gelu(gm):
    ...     for node in gm.graph.find_nodes(op="call_function", target=torch.relu):
    ...         node.target = torch.nn.functional.gelu
    >>> gm = torch.fx.symbolic_trace(lambda x: torch.relu(torch.relu(x) + 1))
    >>> pass_ = as_pass(relu_to_gelu)
    >>> [match.site for match in pass_.scan(gm).matches]
    ['relu', 'relu_1']
    >>> _ = pass_.turn_on(gm, "relu_1")
    >>> [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    ['relu', 'add', 'gelu']
    >>> _ = pass_(gm, reverse=True)
    >>> [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    ['relu', 'add', 'relu']
    """
    return FunctionPass(function, name, exactness)


class FunctionPass(Pass[Changed]):
    """A function of graph modules as a pass; made by `as_pass`."""

    targets = ()
    preserves_computation = False

    def __init__(self, function: Function, name: str = "", exactness: Exactness = Exactness.CHANGES) -> None:
        _check(function, name, exactness)
        self.function, self.exact = function, exactness
        self.title = name or getattr(function, "__name__", type(function).__name__)
        state = {"function": identity_of(function), "exact": exactness, "title": self.title}
        self._signature = digest(f"{FunctionPass.__module__}.{FunctionPass.__qualname__}", state)

    @property
    def signature(self) -> str:
        """A digest of the function as it was given: its name and code, and the values that it closes over."""
        return self._signature

    @property
    def name(self) -> str:
        return self.title

    def __repr__(self) -> str:
        return f"as_pass({self.title})"

    @property
    def summary(self) -> str:
        told = (self.function.__doc__ or "").strip().partition("\n")[0]
        return told or f"Change the graph by {self.title}."

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        for anchor in self._parts(index):
            yield index.nodes[anchor]

    def match(self, node: Node, index: GraphIndex) -> Changed | None:
        part = self._parts(index).get(node.name)
        if part is None:
            return None
        return Changed(node, tuple(index.nodes[name] for name in part.nodes), part.changes)

    def explain(self, match: Changed) -> str:
        calls = [one for one in match.changes if isinstance(one, SetCall)]
        others = [one.node for one in calls if (one.old.op, one.old.target) != (one.new.op, one.new.target)]
        told = [_rewired(one) for one in calls if one.node not in others]
        counts = [
            (others, "calls something else", "call something else"),
            (_names(match.changes, InsertNode), "is new", "are new"),
            (_names(match.changes, EraseNode), "goes", "go"),
            ([one.path for one in match.changes if isinstance(one, SetMember)], "is replaced", "are replaced"),
        ]
        parts = [f"{_listed(names)} {one if len(names) == 1 else many}" for names, one, many in counts if names]
        parts = [_listed(told), *parts] if told else parts
        moved = "nodes stand in another order" if any(isinstance(one, ArrangeNodes) for one in match.changes) else ""
        keys = [repr(one.key) for one in match.changes if isinstance(one, SetItem) and one.attribute == "meta"]
        noted = f"the metadata of the graph module notes {_listed(keys)}" if keys else ""
        return "; ".join(parts) or moved or noted or "something else than nodes and modules changes"

    def exactness(self, match: Changed) -> Exactness:
        return self.exact

    def rewrite(self, match: Changed, rewriter: Rewriter) -> None:
        for change in self._marked(match):
            rewriter.make(change)

    def _marked(self, match: Changed) -> Iterator[Change]:
        """Yield the changes, with the marks and origins of the nodes that they make and change.

        A new node of which the function notes no module lies in that of the nodes that go, or, where none goes, of all.
        """
        gone = _names(match.changes, EraseNode)
        around = _common_stack([node for node in match.nodes if node.name in gone] or match.nodes)
        made_from, signature = tuple(node.name for node in match.nodes), self.signature
        changed = {node.name: node for node in match.nodes}
        for change in match.changes:
            if isinstance(change, InsertNode):
                origin = Origin(self.name, match.site, made_from)
                meta = {
                    **around,
                    **change.node.meta,
                    ORIGIN: origin,
                    MARKS: (*change.node.meta.get(MARKS, ()), signature),
                }
                yield dataclasses.replace(change, node=dataclasses.replace(change.node, meta=meta))
                continue
            if isinstance(change, EraseNode):
                changed.pop(change.node.name, None)
            yield change
        for name, node in changed.items():
            marks = node.meta.get(MARKS, ABSENT)
            yield SetMeta(name, MARKS, marks, (*(() if marks is ABSENT else marks), signature))

    def _parts(self, index: GraphIndex) -> dict[str, Part]:
        """Return the parts by their anchors."""
        return index.cached_for_a_run((FunctionPass, self.signature), lambda: self._found_parts(index.gm))

    def _found_parts(self, gm: GraphModule) -> dict[str, Part]:
        if any(entry.signature == self.signature for entry in Ledger.entries_of(gm)):
            return {}
        before = plain_copy(gm)
        copied = shared_copy(before)

        def transform(graph_module: GraphModule) -> GraphModule:
            result = self.function(graph_module)
            return graph_module if result is None else result

        result, _ = record(transform, copied, self.name, copy_tensors=False, lint_and_recompile=True)
        after = settled(result, before)
        patch = diff_snapshots(Snapshot(before, with_tensors=False), Snapshot(after, with_tensors=False))
        return {part.anchor: part for part in parts_of(patch, before, after)}


def _check(function: Any, name: Any, exactness: Any) -> None:
    takes = "a function from graph module to graph module"
    if isinstance(function, Transformation) or (isinstance(function, type) and issubclass(function, Transformation)):
        kind = function if isinstance(function, type) else type(function)
        raise ArgumentError(f"fxopt.as_pass takes {takes}; {kind.__name__} is a pass already: use it as it is")
    if isinstance(function, type | nn.Module) or not callable(function):
        raise ArgumentError(f"fxopt.as_pass takes {takes}; this is {in_words(function)}")
    expect(name, str, "fxopt.as_pass(name=...)", "a text")
    kinds = ", ".join(f"Exactness.{one.name}" for one in Exactness)
    expect(exactness, Exactness, "fxopt.as_pass(exactness=...)", f"one of {kinds}")


def _names(changes: tuple[Change, ...], kind: type[InsertNode | EraseNode]) -> list[str]:
    return [one.node.name for one in changes if isinstance(one, kind)]


def _rewired(change: SetCall) -> str:
    """Tell the new arguments of a node that calls the same as before."""
    old, new = change.old.leaves, change.new.leaves
    pairs = dict.fromkeys((one, other) for one, other in zip(old, new) if one != other)
    if len(old) != len(new) or not all(isinstance(one, Ref) for pair in pairs for one in pair):
        return f"{change.node} has other arguments"
    return f"{change.node} reads {' and '.join(f'{other.name} instead of {one.name}' for one, other in pairs)}"


def _common_stack(nodes: Sequence[Node]) -> dict[str, Any]:
    """Return the metadata that puts a node into the innermost module that has all of these."""
    stacks = [list(stack_around(node).items()) for node in nodes]
    alike = takewhile(lambda level: all(one == level[0] for one in level), zip(*stacks))
    common = dict(level[0] for level in alike)
    return {"nn_module_stack": common} if common else {}


def _listed(names: list[str], shown: int = 3) -> str:
    more = len(names) - shown
    return ", ".join(names[:shown]) + (f" and {more} more" if more > 0 else "")
