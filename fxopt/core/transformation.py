"""Transformations of graph modules, and those with a reverse of their own.

The names, call forms and return values are those of ``optimum.fx.optimization``, so that code written for it
runs with one import changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch.fx import GraphModule, Node

from fxopt.core.entry import Entry, name_of
from fxopt.core.gate import about_to_change, finish
from fxopt.core.ledger import Ledger, act
from fxopt.core.listening import Call, told
from fxopt.core.reversing import reverse_by_own, say_that_nothing_was_reversed, undo_entries
from fxopt.core.signature import Signed
from fxopt.errors import expect_graph, warn
from fxopt.graph.exactness import Exactness
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import MARKS
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.module_state import ObjectState
from fxopt.recording.patch import Patch, run
from fxopt.recording.record import record
from fxopt.recording.snapshot import Snapshot


class Transformation(Signed, ABC):
    """A transformation of a `torch.fx.GraphModule`: implement `transform`, and call the instance.

    `transform` may edit the graph module by hand, in any way, or return a new one. A call is all or nothing, and it is
    recorded, so ``transformation(gm, reverse=True)`` brings everything back: nodes with their names, order, arguments
    and metadata, modules, parameters and buffers, attributes, hooks. Later changes are undone first, and done again if
    they still apply. As many calls, as many reverses.

    Two things are out of reach of a record and so are refused, with the graph as it was: numbers of a tensor that are
    written over in place, unless `copy_tensors` is set, and changes in the graph of a graph module inside.

    Leaf modules are shared with the model that was traced. If `transform` assigns into one (a parameter, a hook,
    ``training``), the graph module gets a changed copy of it, which shares all that was left alone, and the model keeps
    the module as it was. To replace the module is clearer.

    A transformation that changes every multiplication to an addition:

    >>> import operator, torch
    >>> class MulToAdd(Transformation):
    ...     def transform(self, graph_module):
    ...         for node in graph_module.graph.nodes:
    ...             if node.op == "call_function" and node.target is operator.mul:
    ...                 node.target = operator.add
    ...                 self.mark_as_transformed(node)
    ...         return graph_module
    >>> gm = torch.fx.symbolic_trace(lambda x: x * 3 * x)
    >>> MulToAdd()(gm)(torch.tensor(5.0))
    tensor(13.)
    >>> MulToAdd().get_transformed_nodes(gm)
    [mul, mul_1]
    """

    preserves_computation: bool = False
    """Whether the transformed graph computes the same function, up to rounding."""

    copy_tensors: bool = False
    """Whether a call copies all parameters and buffers first, so that writing over their numbers can be undone."""

    @abstractmethod
    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Transform `graph_module`, in place or not, and return the result."""

    def __call__(
        self, graph_module: GraphModule, lint_and_recompile: bool = True, reverse: bool = False
    ) -> GraphModule:
        """Transform, or reverse, then lint and recompile the result unless told otherwise (when more is to come).

        Raises:
            TypeError: `transform` returned something else than a graph module.
            RewriteError: its changes are out of reach of a record, or reversal is ruled out by a later change. As after
                any other exception, the graph module is as it was.
        """
        expect_graph(graph_module, name_of(self))

        def called() -> GraphModule:
            if not reverse:
                return self._forward(graph_module, lint_and_recompile)
            result = self._or_nothing(self._backward(graph_module), graph_module)
            return finish(result) if lint_and_recompile else result

        name = f"{name_of(self)}, reversed" if reverse else name_of(self)
        return self._told(name, graph_module, lambda: act(graph_module, called), reverse)

    def _told(self, name: str, gm: GraphModule, call: Call, reverse: bool) -> GraphModule:
        """Make a call on `gm`, through whoever listens to calls in this thread."""
        return told(name, gm, call)

    def _forward(self, gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
        """Transform `gm`, and put the edits into the ledger of the result."""
        known = Ledger.of(gm)
        known_state = ObjectState.of(known)
        if not known.entries:  # `transform` may look at the modules, and is to see none here
            known.detach(gm)
        about_to_change(gm)
        result, patch = record(
            self.transform,
            gm,
            type(self).__name__,
            copy_tensors=self.copy_tensors,
            lint_and_recompile=lint_and_recompile,
        )
        known_state.restore()  # the patch has all that `transform` called
        ledger = Ledger.carried(known, gm, result)
        if patch.changes:
            ledger.append(self._entry(ledger, patch))
        ledger.close()
        return result

    def _backward(self, gm: GraphModule) -> GraphModule | None:
        """Reverse `gm`; return None if no call of this transformation is in force."""
        return self._undone(gm)

    def _undone(self, gm: GraphModule) -> GraphModule | None:
        """Reverse `gm` by the ledger; return None if no call of this transformation is in force."""
        return gm if undo_entries(gm, self.signature, name=name_of(self), last=True) else None

    def _or_nothing(self, result: GraphModule | None, gm: GraphModule) -> GraphModule:
        """Return `result`, or `gm` with an `FxoptWarning` that nothing was reversed."""
        if result is None:
            say_that_nothing_was_reversed(name_of(self))
            return gm
        return result

    def run_again(self, index: GraphIndex, sites: set[str]) -> set[str]:
        """Do the calls `sites` again for the ledger, after an earlier entry was undone; return the effective ones."""
        return {site for site in sorted(sites) if self._runs_again(index)}

    def _runs_again(self, index: GraphIndex) -> bool:
        """Transform again, in place even if `transform` returns another graph module; return whether anything changed.

        The graph is left unlinted and uncompiled. If it fails, the graph is as it was, and an `FxoptWarning` says so.
        """
        gm = result = index.gm
        ledger = Ledger.of(gm)
        count = len(ledger.entries)
        try:
            result = act(gm, lambda: self._forward(gm, lint_and_recompile=False))
        except Exception as error:  # noqa: BLE001 - it may be anyone's; the failure is reported, and was rolled back
            warn(f"{type(self).__name__} failed when it ran again: {type(error).__name__}: {error}")
        index.renew()
        if result is not gm:
            entries = Ledger.entries_of(result)[count:]
            there = Snapshot(result, with_tensors=False)
            about_to_change(gm)
            run(index, diff_snapshots(Snapshot(gm, with_tensors=False), there).changes)
            ledger = Ledger.of(gm)
            for entry in entries:
                ledger.append(entry)
        return len(Ledger.entries_of(gm)) > count

    def _entry(self, ledger: Ledger, patch: Patch) -> Entry:
        """Return the ledger's entry for one call."""
        signature = self.signature
        number = 1 + sum(entry.signature == signature for entry in ledger.entries)
        exactness = Exactness.ROUNDING if self.preserves_computation else Exactness.CHANGES
        return Entry(self, signature, f"call {number}", exactness, patch)

    def mark_as_transformed(self, node: Node) -> None:
        """Mark `node` as made or changed by this transformation."""
        marks = node.meta.get(MARKS, ())
        if self.signature not in marks:
            node.meta[MARKS] = (*marks, self.signature)

    def transformed(self, node: Node) -> bool:
        """Return whether `node` was made or changed by a transformation of this signature."""
        return self.signature in node.meta.get(MARKS, ())

    def get_transformed_nodes(self, graph_module: GraphModule) -> list[Node]:
        """Return the nodes that a transformation of this signature transformed, in the order of the graph.

        They are those of ``optimum.fx``; `marked_nodes` has the nodes around them that it made or changed too.
        """
        return self.marked_nodes(graph_module)

    def marked_nodes(self, graph_module: GraphModule) -> list[Node]:
        """Return all nodes made or changed by a transformation of this signature, in the order of the graph."""
        signature = self.signature
        return [node for node in graph_module.graph.nodes if signature in node.meta.get(MARKS, ())]


class ReversibleTransformation(Transformation):
    """A transformation with its own reversal: implement `transform`, and `reverse` if it is to be another one.

    Without a `reverse`, it comes from the record of the calls, as with every `Transformation`; and then it is sure to
    bring back everything exactly. One that doubles the result of a multiplication, and halves it back:

    >>> import operator, torch
    >>> class DoubleMul(ReversibleTransformation):
    ...     def transform(self, graph_module):
    ...         for node in graph_module.graph.nodes:
    ...             if node.target is operator.mul and not self.transformed(node):
    ...                 node.args = (node.args[0], node.args[1] * 2)
    ...                 self.mark_as_transformed(node)
    ...         return graph_module
    ...     def reverse(self, graph_module):
    ...         for node in self.get_transformed_nodes(graph_module):
    ...             node.args = (node.args[0], node.args[1] / 2)
    ...             self.mark_as_restored(node)
    ...         return graph_module
    >>> gm = torch.fx.symbolic_trace(lambda x: x * 3.0)
    >>> DoubleMul()(gm)(torch.tensor(5.0))
    tensor(30.)
    >>> DoubleMul()(gm, reverse=True)(torch.tensor(5.0))
    tensor(15.)
    """

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Bring `graph_module` back to its state before `transform`, and return it."""
        return self._or_nothing(self._undone(graph_module), graph_module)

    def _backward(self, gm: GraphModule) -> GraphModule | None:
        if type(self).reverse is ReversibleTransformation.reverse:
            return self._undone(gm)
        back, both = _OwnReverse(self), _OwnReverse(self, with_transform=True)
        return reverse_by_own(
            gm, self.signature, name_of(self), lambda gm: back(gm, lint_and_recompile=False), both._entry
        )

    def mark_as_restored(self, node: Node) -> None:
        """Take the mark of `mark_as_transformed` off `node`.

        Raises:
            ValueError: `node` does not bear the mark.
        """
        marks = node.meta.get(MARKS, ())
        if self.signature not in marks:
            raise ValueError(
                f"{node.name} was not transformed by this {type(self).__name__}, so it cannot be marked as restored"
            )
        left = tuple(mark for mark in marks if mark != self.signature)
        if left:
            node.meta[MARKS] = left
        else:
            del node.meta[MARKS]


class _OwnReverse(Transformation):
    """The ``reverse`` that a transformation brings, after its ``transform`` or alone, as a transformation."""

    def __init__(self, of: ReversibleTransformation, with_transform: bool = False) -> None:
        self.of = of
        self.with_transform = with_transform
        self.copy_tensors = of.copy_tensors
        self.preserves_computation = with_transform or of.preserves_computation

    def transform(self, graph_module: GraphModule) -> GraphModule:
        return self.of.reverse(self.of.transform(graph_module) if self.with_transform else graph_module)
