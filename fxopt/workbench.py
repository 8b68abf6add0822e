"""One captured model, the passes that are on, and the way back: what the page and scripts drive.

What is on is a value: for each pass whether it is on, and which of its sites are left out. The current graph
depends on that value alone. Whatever order things are switched in, it is the graph that comes of running the passes
that are on, in the order of `Workbench.passes`, over the pristine graph.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from torch import nn
from torch.fx import GraphModule

from fxopt.capture import capture
from fxopt.core import (
    Entry,
    Exactness,
    Fingerprint,
    FxoptError,
    GraphIndex,
    Ledger,
    Match,
    Pass,
    RewriteError,
    Scan,
    shared_copy,
)
from fxopt.core.rewriter import ORIGIN, Origin
from fxopt.passes import ALL_PASSES


@dataclass(frozen=True)
class SiteState:
    """A site of a pass: a match, and what was done there if it is on."""

    site: str
    nodes: tuple[str, ...]
    """The nodes that the pass captured, the anchor first."""
    explanation: str
    exactness: Exactness
    on: bool = False
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class MissState:
    """A near miss of a pass: the first condition that is not met there, and what could be done about it."""

    site: str
    reason: str
    remedy: str


@dataclass(frozen=True, eq=False)
class PassState:
    """One pass on the workbench, as of the graph just before it."""

    pass_: Pass[Any]
    on: bool
    sites: tuple[SiteState, ...]
    misses: tuple[MissState, ...]
    seconds: float
    """Time taken by the scan, and by the rewrite if the pass is on."""
    error: str = ""
    """Why the pass, though on, did nothing: it failed and was rolled back."""

    @property
    def name(self) -> str:
        return self.pass_.name

    @property
    def sites_on(self) -> int:
        return sum(site.on for site in self.sites)


@dataclass(frozen=True)
class Choice:
    """Whether a pass is on, and the sites at which it is not."""

    on: bool = False
    without: frozenset[str] = frozenset()


class Workbench:
    """A captured model and passes that can be switched on and off, in any order, forward and back.

    Args:
        model: an `nn.Module`, captured with the example inputs; or a `GraphModule` that was captured before. It is
            never changed.
        args, kwargs: example inputs, as for `fxopt.capture`.
        passes: the passes, in the order in which they run; `fxopt.ALL_PASSES` if not given.

    Raises:
        fxopt.CaptureError: the model cannot be captured.

    >>> import torch
    >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)).eval()
    >>> wb = Workbench(model, (torch.rand(2, 3, 8, 8),))
    >>> wb.turn_on("FuseBatchNorm2dInConv2d")
    >>> [node.name for node in wb.current.graph.nodes], wb.is_restored
    (['input_1', '_0', 'output'], False)
    >>> wb.reverse_all()
    >>> [node.name for node in wb.current.graph.nodes], wb.is_restored
    (['input_1', '_0', '_1', 'output'], True)
    """

    def __init__(
        self,
        model: nn.Module,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        passes: Iterable[Pass[Any]] | None = None,
    ) -> None:
        is_captured = isinstance(model, GraphModule) and not args and not kwargs
        self.pristine: GraphModule = model if is_captured else capture(model, args, kwargs)  # type: ignore[assignment]
        if Ledger.entries_of(self.pristine):
            raise RewriteError("this graph module has passes in force; reverse them before putting it on a workbench")
        self.passes = tuple(passes) if passes is not None else tuple(kind() for kind in ALL_PASSES)
        signatures = [pass_.signature for pass_ in self.passes]
        if len(set(signatures)) < len(signatures):
            raise FxoptError("a pass with the same arguments is on the workbench twice; leave one out")
        self.current: GraphModule = shared_copy(self.pristine)
        self._fingerprints = Fingerprint()
        self.fingerprint = self._fingerprints.of(self.pristine)
        """Of the pristine graph module, taken before anything was done to it."""
        self._history: list[tuple[Choice, ...]] = [tuple(Choice() for _ in self.passes)]
        self._now = 0
        self._done: list[Choice] = []
        self._starts: list[int] = []
        self._states: list[PassState] = []
        self._build()

    # ---- questions

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What is on: one choice for each pass, in their order."""
        return self._history[self._now]

    @property
    def states(self) -> tuple[PassState, ...]:
        """The passes with their sites and near misses, in their order."""
        return tuple(self._states)

    def state_of(self, pass_: Pass[Any] | str) -> PassState:
        return self._states[self._position(pass_)]

    @property
    def is_changed(self) -> bool:
        """Whether any site is on."""
        return bool(Ledger.entries_of(self.current))

    @property
    def is_restored(self) -> bool:
        """Whether the current graph module is the pristine one, to the last bit (`fxopt.fingerprint`)."""
        return not self.is_changed and self._fingerprints.of(self.current) == self.fingerprint

    @property
    def can_undo(self) -> bool:
        return self._now > 0

    @property
    def can_redo(self) -> bool:
        return self._now + 1 < len(self._history)

    def story(self, name: str) -> list[str]:
        """What happened to a node, in sentences: which pass made, changed or removed it, and out of what."""
        told = []
        origin = next((n.meta.get(ORIGIN) for n in self.current.graph.nodes if n.name == name), None)
        if isinstance(origin, Origin):
            told.append(f"made by {origin.pass_name} from {', '.join(origin.nodes) or origin.site}")
        for entry in Ledger.entries_of(self.current):
            if name in entry.patch.changed:
                told.append(f"changed by {entry.pass_.name} at {entry.site}")
            if name in entry.patch.removed:
                told.append(f"removed by {entry.pass_.name} at {entry.site}")
        return told

    # ---- acts

    def turn_on(self, pass_: Pass[Any] | str, site: str | None = None) -> None:
        """Switch a pass on, or one site of it.

        Args:
            pass_: a pass of the workbench, or its name.
            site: the name of one site; the rest of the pass stays as it is.

        Raises:
            FxoptError: the workbench has no such pass, or the pass no such site.
        """
        i = self._position(pass_)
        choice = self.choices[i]
        if site is None:
            self._choose(i, Choice(on=True))
        elif choice.on:
            self._choose(i, replace(choice, without=choice.without - {site}))
        else:
            others = frozenset(found.site for found in self._states[i].sites) - {site}
            self._check_site(i, site)
            self._choose(i, Choice(on=True, without=others))

    def turn_off(self, pass_: Pass[Any] | str, site: str | None = None) -> None:
        """Switch a pass off, or one site of it; what rests on it follows, and comes back with it.

        Raises:
            FxoptError: the workbench has no such pass, or the pass no such site.
        """
        i = self._position(pass_)
        choice = self.choices[i]
        if site is None or not choice.on:
            self._choose(i, Choice())
            return
        self._check_site(i, site)
        without = choice.without | {site}
        left = {found.site for found in self._states[i].sites} - without
        self._choose(i, Choice(on=True, without=without) if left else Choice())

    def reverse_all(self) -> None:
        """Switch every pass off."""
        self._go(tuple(Choice() for _ in self.passes))

    def undo(self) -> None:
        """Take the last switch back; nothing where there is none."""
        if self.can_undo:
            self._now -= 1
            self._build()

    def redo(self) -> None:
        """Do the last switch that was taken back again; nothing where there is none."""
        if self.can_redo:
            self._now += 1
            self._build()

    # ----

    def _position(self, pass_: Pass[Any] | str) -> int:
        for i, mine in enumerate(self.passes):
            if pass_ == mine.name if isinstance(pass_, str) else pass_.signature == mine.signature:
                return i
        known = ", ".join(mine.name for mine in self.passes)
        raise FxoptError(f"the workbench has no pass {pass_ if isinstance(pass_, str) else pass_.name}; it has {known}")

    def _check_site(self, i: int, site: str) -> None:
        known = [found.site for found in self._states[i].sites]
        if site not in known:
            raise FxoptError(f"{self.passes[i].name} has no site {site}; it has {', '.join(known) or 'none'}")

    def _choose(self, i: int, choice: Choice) -> None:
        self._go((*self.choices[:i], choice, *self.choices[i + 1 :]))

    def _go(self, choices: tuple[Choice, ...]) -> None:
        if choices != self.choices:
            self._history[self._now + 1 :] = [choices]
            self._now += 1
            self._build()

    def _build(self) -> None:
        """Bring the current graph to the choices: rewind to the first pass that differs, and run from there."""
        choices = self.choices
        same = 0
        while same < len(self._done) and self._done[same] == choices[same]:
            same += 1
        index = GraphIndex(self.current)
        if same < len(self._done):
            ledger = Ledger.of(self.current)
            ledger.rewind(index, self._starts[same])
            ledger.close()
        del self._done[same:], self._starts[same:], self._states[same:]
        for pass_, choice in zip(self.passes[same:], choices[same:]):
            self._starts.append(len(Ledger.entries_of(self.current)))
            self._done.append(choice)
            self._states.append(self._run(pass_, choice, index))
        self.current.graph.lint()
        self.current.recompile()

    def _run(self, pass_: Pass[Any], choice: Choice, index: GraphIndex) -> PassState:
        start = time.perf_counter()
        error = ""
        entries: tuple[Entry, ...] = ()
        scan: Scan[Match] = Scan()
        try:
            scan = pass_.scan(index)
            sites = [_site_state(pass_, match) for match in scan.matches]
            if choice.on:
                entries = pass_.apply(index, _AllBut(choice.without))
        except Exception as failure:  # noqa: BLE001 - a pass may be anyone's; its failure is shown, and was rolled back
            error = str(failure) if isinstance(failure, FxoptError) else f"{type(failure).__name__}: {failure}"
            sites = []
        misses = tuple(MissState(miss.site, miss.reason, miss.remedy) for miss in scan.misses)
        return PassState(pass_, choice.on, _with_entries(sites, entries), misses, time.perf_counter() - start, error)

    @cached_property
    def example_names(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(str(node.target) for node in self.pristine.graph.nodes if node.op == "placeholder")


@dataclass(frozen=True)
class _AllBut:
    """Every site but some."""

    without: frozenset[str]

    def __contains__(self, site: object) -> bool:
        return site not in self.without


def _site_state(pass_: Pass[Any], match: Match) -> SiteState:
    names = tuple(node.name for node in match.nodes)
    return SiteState(match.site, names, pass_.explain(match), pass_.exactness(match))


def _with_entries(sites: list[SiteState], entries: tuple[Entry, ...]) -> tuple[SiteState, ...]:
    """The sites with what was done there. One that another made possible was not found by the scan; it comes last."""
    done = {entry.site: entry for entry in entries}
    known = {site.site for site in sites}
    later = [
        SiteState(entry.site, (entry.site,), "made possible by another site of this pass", entry.exactness)
        for entry in entries
        if entry.site not in known
    ]
    return tuple(_with_patch(site, done.get(site.site)) for site in [*sites, *later])


def _with_patch(site: SiteState, entry: Entry | None) -> SiteState:
    if entry is None:
        return site
    patch = entry.patch
    return replace(site, on=True, created=patch.created, changed=patch.changed, removed=patch.removed)
