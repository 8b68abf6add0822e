"""Base class of passes: a pass matches sites in a graph, explains them, and rewrites them. Reversal follows."""

from __future__ import annotations

import itertools
import re
from abc import abstractmethod
from collections.abc import Container, Iterator
from typing import Any, ClassVar, Generic

from torch.fx import GraphModule, Node

from fxopt.core.entry import Entry, site_id
from fxopt.core.gate import about_to_change, finish
from fxopt.core.ledger import Ledger, act
from fxopt.core.reversing import undo_entries
from fxopt.core.rewriter import Rewriter, Run
from fxopt.core.transformation import ReversibleTransformation
from fxopt.errors import RewriteError, warn
from fxopt.graph.conditions import Unmet
from fxopt.graph.copying import shared_copy
from fxopt.graph.exactness import Exactness
from fxopt.graph.index import GraphIndex
from fxopt.graph.jumps import jump_condition
from fxopt.graph.marks import made_by
from fxopt.graph.nodes import info_of
from fxopt.graph.site import ALL_MET, M, Match, Miss, Scan
from fxopt.process.garbage import without_collection


class Pass(ReversibleTransformation, Generic[M]):
    """A transformation that names its sites, explains near misses, and rewrites.

    Implement `targets`, `match`, `explain` and `rewrite`. The changes that `rewrite` makes through its `Rewriter` are
    recorded, so the exact reverse, all-or-nothing, marks and single sites need no more code.
    """

    preserves_computation: bool = True

    targets: ClassVar[tuple[Any, ...]]
    """The functions, method names and module types (with their subclasses) whose calls the pass looks at."""

    needs: ClassVar[str] = ""
    """The calls without which the pass finds no site, as a noun phrase: "a Linear with a bias"."""

    @abstractmethod
    def match(self, node: Node, index: GraphIndex) -> M | Miss | None:
        """Return whether the pass applies at `node`, a call of one of its targets.

        Returns:
            a `Match`; or a `Miss` with the reason; or None for silence, because the node is no
            near miss, or is a part of a match that has another anchor.
        """

    @abstractmethod
    def explain(self, match: M) -> str:
        """Return a sentence, with this site's numbers, on the effect of the rewrite and the reason why it is right."""

    def exactness(self, match: M) -> Exactness:
        """Return how closely the rewritten site computes the values of before."""
        return Exactness.ROUNDING

    def results(self, match: M) -> tuple[Node, ...]:
        """Return the nodes whose numbers the rewrite may round otherwise. If it does, all must stay away from jumps."""
        return (match.anchor,)

    @abstractmethod
    def rewrite(self, match: M, rewriter: Rewriter) -> None:
        """Rewrite the match, by the rewriter alone."""

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        """Return the nodes that the pass looks at, in the order of the graph."""
        return index.sites(self.targets)

    # ---- derived

    @property
    def name(self) -> str:
        return type(self).__name__

    @property
    def label(self) -> str:
        """The name in plain words, for lists: those of the class name, unless the class has a ``label`` of its own."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", self.name)

    @property
    def summary(self) -> str:
        """The first line of the docstring: the rewrite itself."""
        first = (type(self).__doc__ or "").strip().partition("\n\n")[0]
        return re.sub(r"\s+", " ", first)

    def _found(self, node: Node, index: GraphIndex) -> M | Miss | None:
        """Return the answer of `match`, but a miss if a value that is rounded otherwise would reach a jump."""
        found = self.match(node, index)
        if isinstance(found, Match) and self.exactness(found) in (Exactness.ROUNDING, Exactness.APPROXIMATE):
            conditions = (jump_condition(one, index) for one in self.results(found))
            unmet = next((one for one in conditions if isinstance(one, Unmet)), None)
            if unmet is not None:
                return Miss(node, unmet, met=ALL_MET)
        return found

    def scan(self, gm: GraphModule | GraphIndex) -> Scan[M]:
        """Find where the pass applies and where it nearly does; the graph stays as it is.

        Args:
            gm: the graph module, or an index of it if several passes scan the same.
        """
        if isinstance(gm, GraphIndex):
            return act(gm.gm, lambda: self._scan(gm), saves=False)
        return act(gm, lambda: self._scan(GraphIndex(gm)), saves=False)

    @without_collection
    def _scan(self, index: GraphIndex) -> Scan[M]:
        index.begin_run()
        signature = self.signature
        matches: list[M] = []
        misses: list[Miss] = []
        for node in self.candidates(index):
            found = None if made_by(node, signature) else self._found(node, index)
            if isinstance(found, Miss):
                misses.append(found)
            elif found is not None:
                matches.append(found)
        return Scan(tuple(matches), tuple(misses), self)

    def apply(self, index: GraphIndex, sites: Container[str] | None = None) -> tuple[Entry, ...]:
        """Rewrite every match, or those at `sites` only, until none is left; all or nothing.

        The graph is left unlinted and uncompiled.

        Returns:
            the entries, site by site, as they stand in the graph module's ledger.

        Raises:
            RewriteError: `match` or `rewrite` failed at a node. The graph is as it was.
        """
        return act(index.gm, lambda: self._apply(index, sites), index=index)

    @without_collection
    def _apply(self, index: GraphIndex, sites: Container[str] | None) -> tuple[Entry, ...]:
        ledger, signature = Ledger.of(index.gm), self.signature
        start = len(ledger.entries)
        run = Run(in_force=tuple(entry.patch for entry in ledger.entries))
        node: Node | None = None
        try:
            while True:
                done = len(ledger.entries)
                index.begin_run()
                for node in self.candidates(index):
                    if index.nodes.get(node.name) is node and not made_by(node, signature):
                        found = self._found(node, index)
                        if isinstance(found, Match) and (sites is None or found.site in sites):
                            ledger.append(
                                self._rewritten(found, Rewriter(index, found.anchor, self.name, signature, run))
                            )
                if len(ledger.entries) == done:
                    return tuple(ledger.entries[start:])
        except Exception as error:
            where = f" at {node.name}" if node is not None else ""
            failure = RewriteError(
                f"{self.name} failed{where}: {type(error).__name__}: {error}. The graph is as it was before the pass."
            )
            failure.site = node.name if node is not None else ""
            raise failure from error

    def _rewritten(self, match: M, rewriter: Rewriter) -> Entry:
        site, exactness = match.site, self.exactness(match)
        about_to_change(rewriter.index.gm)
        self.rewrite(match, rewriter)
        return Entry(self, rewriter.signature, site, exactness, rewriter.patch())

    def undo(self, graph_module: GraphModule) -> int:
        """Undo every site of the pass that is in force, with all later changes in place; return their number.

        Passes that ran later are undone first and then run again at the same sites; if a site ceases to match, because
        it rested on this pass, an `FxoptWarning` names it. The graph is left unlinted and uncompiled.

        Raises:
            RewriteError: something else has changed the graph in a way that rules reversal out, or the ledger was lost.
                The graph is left as it is.
        """
        return undo_entries(graph_module, self.signature, name=self.name)

    # ---- single sites

    def site_id(self, site: Match | Miss | str) -> str:
        """Return the stable id of a site: of this pass (class and arguments) at this anchor node."""
        return site_id(self.signature, site if isinstance(site, str) else site.site)

    def sites_on(self, graph_module: GraphModule) -> tuple[str, ...]:
        """Return the sites of this pass that are in force, by the names of their anchors, as they were rewritten."""
        signature = self.signature
        return tuple(e.site for e in Ledger.entries_of(graph_module) if e.signature == signature)

    def turn_on(self, graph_module: GraphModule, site: str) -> tuple[Entry, ...]:
        """Rewrite one site in place, and lint and recompile.

        The sites of a pass are rewritten in the order of the graph, independent of the order in which they are turned
        on: passes that ran later are undone first and then run again at the same sites.

        Args:
            site: the name of the anchor node, as in ``scan(...).matches``.

        Returns:
            the sites of other passes, and of this one, that ceased to apply and were undone.

        Raises:
            RewriteError: there is no match there; the message says why. The graph is as it was.
        """
        return act(graph_module, lambda: self._turn_on(graph_module, site))

    def _turn_on(self, gm: GraphModule, site: str) -> tuple[Entry, ...]:
        """Rewrite one more site, as if at the time of the first; return the entries that cease to apply."""
        if site in self.sites_on(gm):
            return ()
        ledger, index = Ledger.of(gm), GraphIndex(gm)
        first = next((i for i, e in enumerate(ledger.entries) if e.signature == self.signature), len(ledger.entries))
        undone = ledger.rewind(index, first)
        mine = list(itertools.takewhile(lambda e: e.signature == self.signature, undone))
        done = {entry.site for entry in self._apply(index, {site, *(entry.site for entry in mine)})}
        if site not in done:
            raise RewriteError(f"{self.name} does not apply at {site}: {self.why_not(index, site)}")
        lost = [entry for entry in mine if entry.site not in done] + ledger.redo(index, undone[len(mine) :])
        return self._finish_site(gm, lost)

    def turn_off(self, graph_module: GraphModule, site: str) -> tuple[Entry, ...]:
        """Undo one site in place, with all later changes kept, and lint and recompile.

        Passes that ran later are undone first and then run again at the same sites; see `resting_on` for those that
        will cease to apply.

        Returns:
            the sites that rested on it and so were undone too.

        Raises:
            RewriteError: the site is off, or something else has changed the graph since.
        """
        return act(graph_module, lambda: self._turn_off(graph_module, site))

    def _turn_off(self, gm: GraphModule, site: str) -> tuple[Entry, ...]:
        if site not in self.sites_on(gm):
            known = ", ".join(self.sites_on(gm)) or "none"
            raise RewriteError(f"{self.name} has no site {site} on; it is on at {known}")
        return self._finish_site(gm, Ledger.of(gm).turn_off(GraphIndex(gm), self.site_id(site)))

    def resting_on(self, graph_module: GraphModule, site: str | None = None) -> tuple[Entry, ...]:
        """Return the sites, of any pass, that would be undone too if `site`, or the whole pass, was turned off.

        They are found on a copy that shares all weights; `graph_module` is left as it is.
        """
        trial = act(graph_module, lambda: shared_copy(graph_module), saves=False)
        mine = [e.site for e in Ledger.entries_of(trial) if e.signature == self.signature]
        if not mine or (site is not None and site not in mine):
            return ()
        ledger, index = Ledger.of(trial), GraphIndex(trial)
        lost = ledger.remove(index, self.signature) if site is None else ledger.turn_off(index, self.site_id(site))
        return tuple(lost)

    def why_not(self, index: GraphIndex, site: str) -> str:
        """Return a sentence on why there is no match with its anchor at the node of this name."""
        if site not in index.nodes:
            return "there is no such node"
        found = self.scan(index)
        misses = [miss for miss in found.misses if miss.site == site]
        if misses:
            return str(misses[0])
        known = ", ".join(match.site for match in found.matches) or "no node"
        return f"it is the anchor of no match; the pass has matches at {known}"

    def _finish_site(self, gm: GraphModule, lost: list[Entry]) -> tuple[Entry, ...]:
        finish(gm)
        return tuple(lost)

    # ---- whole passes

    def transform(self, graph_module: GraphModule) -> GraphModule:
        """Rewrite every match in place, and return `graph_module`."""
        self.apply(GraphIndex(graph_module))
        return graph_module

    @property
    def _applies(self) -> bool:
        """Whether a call applies the pass, which records its sites, instead of a `transform` written by hand."""
        return type(self).transform is Pass.transform

    def _forward(self, gm: GraphModule, lint_and_recompile: bool) -> GraphModule:
        if not self._applies:
            return super()._forward(gm, lint_and_recompile)
        if not self.apply(GraphIndex(gm)):
            self._say_what_is_unproven(gm)
        return finish(gm) if lint_and_recompile else gm

    def _say_what_is_unproven(self, gm: GraphModule) -> None:
        """Warn that nothing was done to a graph without shapes, where known ones might have changed that."""
        if self.sites_on(gm) or any(info_of(node) is not None for node in gm.graph.nodes):
            return
        count = sum(miss.unmet.needs_shapes for miss in self.scan(gm).misses)
        if count:
            sites = "a site" if count == 1 else f"{count} sites"
            warn(
                f"{self.name} changed nothing: the graph lacks the shapes and types that could prove {sites}. "
                f"Fill them in: fxopt.annotate(gm, *example)"
            )

    def _undone(self, gm: GraphModule) -> GraphModule | None:
        return gm if self.undo(gm) else None

    def run_again(self, index: GraphIndex, sites: set[str]) -> set[str]:
        """Rewrite at `sites` again for the ledger, after an earlier entry was undone; return those where it applied."""
        if not self._applies:
            return super().run_again(index, sites)
        return {entry.site for entry in self._apply(index, sites)}
