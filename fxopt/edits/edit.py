"""The base class of edits by hand: a pass with one site at most, checked by its effect on the graph."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from torch.fx import Node

from fxopt.core import Conditions, Exactness, FxoptError, GraphIndex, Match, Miss, Pass, Rewriter, Unmet, decide
from fxopt.edits.draft import Draft
from fxopt.edits.propagation import Outcome, outcome_of
from fxopt.graph.guards import autocast_condition
from fxopt.graph.site import Refusal


class EditError(Refusal, FxoptError, ValueError):
    """A refused edit; the graph is as it was."""

    def __init__(self, edit: Edit, unmet: Unmet) -> None:
        self.edit, self.unmet = edit, unmet
        super().__init__(f"{edit.title}: {unmet.reason}" + (f" ({unmet.remedy})" if unmet.remedy else ""))


@dataclass(frozen=True, eq=False)
class EditSite(Match):
    outcome: Outcome
    """The effect of the edit."""
    bitwise: bool = False
    """True where every bit of the outputs is sure to stay."""


@dataclass(frozen=True, eq=False)
class Edit(Pass[EditSite]):
    """A change that someone makes by hand at one node.

    Its arguments are plain values, so it travels as text and its signature says all of it. An edit subclasses `Edit`
    and gives `title`, `draft` and `do`; the check of the effect is common to all.
    """

    node: str
    """The name of the node that is edited."""
    turn: int = field(default=0, kw_only=True, repr=False)
    """Tells apart edits that are otherwise equal: a constant changed to 2, to 3, and to 2 again."""

    keep_outputs: bool = field(default=False, kw_only=True, repr=False)
    """True refuses the edit where an output of the model would change in shape or dtype."""

    targets = ()
    preserves_computation = False

    @property
    @abstractmethod
    def title(self) -> str:
        """The edit in words: ``set args[1] of div to 2.0``."""

    @abstractmethod
    def draft(self, node: Node, index: GraphIndex) -> Conditions[Draft]:
        """Yield the conditions of this kind of edit, one each, and return the calls that would differ."""

    @abstractmethod
    def do(self, node: Node, outcome: Outcome, rewriter: Rewriter) -> None:
        """Make the edit, by the rewriter alone."""

    def before(self, node: Node) -> str:
        """Describe the state before the edit, for the explanation."""
        return ""

    def is_bitwise(self, node: Node, index: GraphIndex) -> bool:
        """Return True where every bit of the outputs is sure to stay."""
        return False

    # ---- derived

    @property
    def name(self) -> str:
        """The kind and the arguments, by which a workbench finds the edit: ``SetArgument(div, args[1], 2.0)``."""
        given = [value for one in fields(self) if one.repr and (value := getattr(self, one.name)) != ""]
        text = ", ".join(value if isinstance(value, str) and i < 2 else repr(value) for i, value in enumerate(given))
        return f"{type(self).__name__}({text})" + (f" #{self.turn + 1}" if self.turn else "")

    @property
    def summary(self) -> str:
        return f"{self.title[:1].upper()}{self.title[1:]}"

    def another_turn(self) -> Edit:
        """Return the same edit with another signature."""
        return replace(self, turn=self.turn + 1)

    def check(self, index: GraphIndex) -> None:
        """Check that the edit can be made in the graph of `index`.

        Raises:
            EditError: it cannot; the message gives the reason.
        """
        node = index.nodes.get(self.node)
        if node is None:
            gone = Unmet(f"there is no node {self.node} in the graph as it is", "choose a node that is there")
            raise EditError(self, gone)
        found = self.match(node, index)
        if isinstance(found, Miss):
            raise EditError(self, found.unmet)

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        node = index.nodes.get(self.node)
        if node is not None:
            yield node

    def match(self, node: Node, index: GraphIndex) -> EditSite | Miss | None:
        return decide(node, self._conditions(node, index))

    def _conditions(self, node: Node, index: GraphIndex) -> Conditions[EditSite]:
        yield (
            node.op not in ("placeholder", "output")
            or self._may_edit(node)
            or Unmet(
                f"{node.name} is {'an input' if node.op == 'placeholder' else 'the output'} of the model",
                "choose a node that makes a call",
                actual=node.op,
                needed="a call",
            )
        )
        yield autocast_condition(node, index)
        draft = yield from self.draft(node, index)
        outcome = index.cached((Outcome, self.signature), lambda: outcome_of(index, draft))
        yield outcome.refusal or True
        yield (
            not self.keep_outputs
            or not outcome.output
            or Unmet(
                f"the output of the model would be {outcome.output}",
                "choose an edit that keeps its shape and dtype",
                actual=outcome.output,
                needed="outputs as they are",
            )
        )
        return EditSite(node, outcome, self.is_bitwise(node, index))

    def _may_edit(self, node: Node) -> bool:
        """Return True where this kind of edit applies to an input (``placeholder``) or the output of the model."""
        return False

    def explain(self, match: EditSite) -> str:
        outcome = match.outcome
        before = self.before(match.anchor)
        told = [f"{self.title} instead of {before}" if before else self.title]
        others = sum(name != match.site for name in outcome.infos)
        if match.site in outcome.infos:
            told.append(f"{match.site} returns {outcome.infos[match.site]} from then on")
        if others:
            told.append(f"{f'{others} other nodes change' if others > 1 else 'another node changes'} in shape or dtype")
        if outcome.output:
            told.append(f"the output of the model is {outcome.output}")
        if outcome.at:
            told.append(f"it holds at {outcome.at} and not at larger sizes")
        return "; ".join(told)

    def exactness(self, match: EditSite) -> Exactness:
        return Exactness.BITWISE if match.bitwise else Exactness.CHANGES

    def rewrite(self, match: EditSite, rewriter: Rewriter) -> None:
        self.do(match.anchor, match.outcome, rewriter)
        for name, info in match.outcome.infos.items():
            rewriter.set_info(rewriter.index.nodes[name], cast(Any, info))
