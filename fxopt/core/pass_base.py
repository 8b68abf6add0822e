"""What a pass is: it matches sites in a graph, explains them, and rewrites them. The way back follows."""

from __future__ import annotations

import dataclasses
import re
import warnings
from abc import abstractmethod
from collections.abc import Container
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from torch.fx import GraphModule, Node

from fxopt.core.errors import FxoptWarning, RewriteError
from fxopt.core.index import GraphIndex
from fxopt.core.ledger import Entry, Ledger, made_by
from fxopt.core.rewriter import Rewriter, Run
from fxopt.core.transformation import ReversibleTransformation


class Exactness(Enum):
    """How closely a rewritten site computes what it computed before."""

    BITWISE = "the same bits"
    ROUNDING = "equal up to floating-point rounding"
    APPROXIMATE = "approximately equal"
    CHANGES = "computes something else"


@dataclass(frozen=True, eq=False)  # equality would compare modules and tensors
class Match:
    """A site where a pass applies. A pass subclasses it to name what it captured."""

    anchor: Node
    """The node by which the site is found; its name is the name of the site."""

    @property
    def site(self) -> str:
        return self.anchor.name

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that the match captured, the anchor first."""
        found: dict[Node, None] = {}
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, Node):
                    found[one] = None
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Miss:
    """A site that a pass looked at and left alone: the first condition that is not met there."""

    anchor: Node
    reason: str
    """The fact, with the node's name and actual values."""
    remedy: str = ""
    """What the user could do about it, if anything."""

    @property
    def site(self) -> str:
        return self.anchor.name

    def __str__(self) -> str:
        return f"{self.anchor.name}: {self.reason}" + (f" ({self.remedy})" if self.remedy else "")


M = TypeVar("M", bound=Match)


@dataclass(frozen=True, eq=False)
class Scan(Generic[M]):
    """What a pass finds in a graph, in the order of the graph."""

    matches: tuple[M, ...] = ()
    misses: tuple[Miss, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"match {match.site}" for match in self.matches]
        return "\n".join([*lines, *(f"miss  {miss}" for miss in self.misses)])


class Pass(ReversibleTransformation, Generic[M]):
    """A transformation that says where it applies, why not elsewhere, and what to put there.

    Implement `targets`, `match`, `explain` and `rewrite`. What `rewrite` does through its `Rewriter` is recorded,
    so the exact reverse, all-or-nothing, marks and single sites need no more code.
    """

    preserves_computation: bool = True

    targets: ClassVar[tuple[Any, ...]]
    """The functions, method names and module types (with their subclasses) whose calls the pass looks at."""

    @abstractmethod
    def match(self, node: Node, index: GraphIndex) -> M | Miss | None:
        """Whether the pass applies at `node`, a call of one of its targets.

        Returns:
            a `Match`; or a `Miss` that says why not; or None where there is nothing to say, because the node is no
            near miss, or is a part of a match that has another anchor.
        """

    @abstractmethod
    def explain(self, match: M) -> str:
        """Say in a sentence, with this site's numbers, what the rewrite does here and why it is right."""

    def exactness(self, match: M) -> Exactness:
        """How closely the rewritten site computes what it computed before."""
        return Exactness.ROUNDING

    @abstractmethod
    def rewrite(self, match: M, rewriter: Rewriter) -> None:
        """Rewrite the match, by nothing but the rewriter."""

    # ---- derived

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def summary(self) -> str:
        """The first line of the docstring: the rewrite itself."""
        first = (type(self).__doc__ or "").strip().partition("\n\n")[0]
        return re.sub(r"\s+", " ", first)

    def scan(self, gm: GraphModule | GraphIndex) -> Scan[M]:
        """Find where the pass applies and where it nearly does. Nothing is changed.

        Args:
            gm: the graph module, or an index of it where several passes scan the same.
        """
        index = gm if isinstance(gm, GraphIndex) else GraphIndex(gm)
        signature = self.signature
        matches: list[M] = []
        misses: list[Miss] = []
        for node in index.sites(self.targets):
            found = None if made_by(node, signature) else self.match(node, index)
            if isinstance(found, Miss):
                misses.append(found)
            elif found is not None:
                matches.append(found)
        return Scan(tuple(matches), tuple(misses))

    def apply(self, index: GraphIndex, sites: Container[str] | None = None) -> tuple[Entry, ...]:
        """Rewrite every match, or those at `sites` only, until none is left; all or nothing.

        The graph is neither linted nor recompiled.

        Returns:
            what was done, site by site, as it stands in the graph module's ledger.

        Raises:
            RewriteError: `match` or `rewrite` failed at a node. The graph is as it was.
        """
        ledger = Ledger.of(index.gm)
        start = len(ledger.entries)
        signature = self.signature
        run = Run()
        node: Node | None = None
        try:
            while True:
                done = len(ledger.entries)
                for node in index.sites(self.targets):
                    if index.nodes.get(node.name) is not node or made_by(node, signature):
                        continue
                    found = self.match(node, index)
                    if not isinstance(found, Match) or (sites is not None and found.site not in sites):
                        continue
                    rewriter = Rewriter(index, found.anchor, self.name, signature, run)
                    site, exactness = found.site, self.exactness(found)
                    try:
                        self.rewrite(found, rewriter)
                    finally:
                        ledger.append(Entry(self, signature, site, exactness, rewriter.patch()))
                if len(ledger.entries) == done:
                    break
        except Exception as error:
            ledger.rewind(index, start)
            ledger.close()
            where = f" at {node.name}" if node is not None else ""
            raise RewriteError(
                f"{self.name} failed{where}: {type(error).__name__}: {error}. The graph is as it was before the pass."
            ) from error
        ledger.close()
        return tuple(ledger.entries[start:])

    def undo(self, graph_module: GraphModule) -> int:
        """Undo every site of the pass that is in force, whatever was done after it; give their number.

        Passes that ran later are undone first and then run again at the same sites; where a site no longer matches,
        because it rested on this pass, an `FxoptWarning` names it. The graph is neither linted nor recompiled.

        Raises:
            RewriteError: something else has changed the graph in a way that rules the way back out, or the ledger
                was lost. The graph is left as it is.
        """
        ledger = Ledger.of(graph_module)
        mine = [entry for entry in ledger.entries if entry.signature == self.signature]
        if not mine:
            ledger.close()
            self._check_that_nothing_is_lost(graph_module)
            return 0
        index = GraphIndex(graph_module)
        lost = ledger.remove(index, self.signature)
        ledger.close()
        for entry in lost:
            warnings.warn(
                f"{entry.pass_.name} at {entry.site} rested on {self.name} and no longer applies: it was undone too",
                FxoptWarning,
                stacklevel=3,
            )
        return len(mine)

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrite every match in place, and return `graph_module`."""
        self.apply(GraphIndex(graph_module))
        return graph_module

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        """Undo every site of the pass in place, and return `graph_module`; see `undo`."""
        if not self.undo(graph_module):
            warnings.warn(
                f"{self.name} has no site in force in this graph module: nothing was reversed",
                FxoptWarning,
                stacklevel=3,
            )
        return graph_module

    def _reverse_as_part(self, graph_module: GraphModule) -> GraphModule:
        self.undo(graph_module)
        return graph_module

    def _check_that_nothing_is_lost(self, gm: GraphModule) -> None:
        marked = self.get_transformed_nodes(gm)
        made = [path for path, module in gm.named_modules() if made_by(module, self.signature)]
        if marked or made:
            where = marked[0].name if marked else made[0]
            raise RewriteError(
                f"{where} was made by {self.name}, but this graph module has lost the way back: it was traced again or "
                "built from another graph module. Reverse the original, or reverse before tracing."
            )
