"""Effect of one site of a pass on the numbers: its outputs with the site off and on, all else alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from fxopt.evidence.divergence import leaves_by_path, values_of
from fxopt.evidence.output_report import OutputReport, compared
from fxopt.evidence.running import EvidenceError


@dataclass(frozen=True)
class SiteReport:
    """The distances of the outputs of a site with it off and on, and of those of the whole model."""

    site: tuple[OutputReport, ...]
    model: tuple[OutputReport, ...]

    @property
    def identical(self) -> bool:
        """Whether all outputs of the site keep their bits."""
        return bool(self.site) and all(one.difference is not None and one.difference.identical for one in self.site)


def site_report(
    off: GraphModule,
    on: GraphModule,
    rewritten: Collection[str],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
) -> SiteReport:
    """Run two graphs that differ in one site on the same inputs, and compare the outputs of the site.

    `rewritten` has the names of the nodes that the site removes, creates or changes. Its outputs are those of these
    nodes that other nodes read: the node with the site off against its replacement.

    Raises:
        EvidenceError: one of the graphs fails on these inputs.
    """
    pairs = list(_outputs(off, on, frozenset(rewritten)))
    ends = [(node.name, node.name) for node in off.graph.nodes if node.op == "output"]
    old = _kept(off, {one for one, _ in [*pairs, *ends]}, args, kwargs)
    new = _kept(on, {other for _, other in [*pairs, *ends]}, args, kwargs)
    return SiteReport(_reports(pairs, old, new), _reports(ends, old, new))


def _outputs(off: GraphModule, on: GraphModule, rewritten: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of nodes, with the site off and on, that one other node reads in the same place."""
    later = {node.name: node for node in on.graph.nodes}
    found: dict[tuple[str, str], None] = {}
    for user in off.graph.nodes:
        if user.name in rewritten or user.name not in later:
            continue
        before, after = _reads(user), _reads(later[user.name])
        if len(before) == len(after):
            found |= {pair: None for pair in zip(before, after) if not rewritten.isdisjoint(pair)}
    yield from found


def _reads(user: Node) -> list[str]:
    """Return the names of the nodes that a node reads, one for each place."""
    names: list[str] = []
    map_arg((user.args, user.kwargs), lambda node: names.append(node.name))
    return names


def _kept(
    gm: GraphModule, names: Collection[str], args: tuple[Any, ...], kwargs: dict[str, Any] | None
) -> dict[str, dict[str, Any]]:
    """Return the values of the nodes of these names, leaf by leaf."""
    try:
        return values_of(gm, (args, kwargs or {}), leaves_by_path, names)
    except Exception as error:  # a model may fail in any way
        raise EvidenceError(f"the graph fails on this input: {type(error).__name__}: {error}") from error


def _reports(
    pairs: Collection[tuple[str, str]], old: dict[str, dict[str, Any]], new: dict[str, dict[str, Any]]
) -> tuple[OutputReport, ...]:
    found = []
    for before, after in pairs:
        one, other = old.get(before, {}), new.get(after, {})
        for path in dict.fromkeys([*one, *other]):
            name = f"{before if before == after else f'{before} → {after}'}{'.' if path[:1].isalpha() else ''}{path}"
            found.append(compared(name, one.get(path), other.get(path)))
    return tuple(report for report in found if report is not None)
