"""The changes of parameters by site: which modules of the original became which, and how many elements they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from torch.fx import GraphModule, Node

from fxopt.evidence.parameters import ParameterRow, ParameterTable
from fxopt.graph.nodes import inputs_of, nodes_by_name
from fxopt.workbench.states import PassState, SiteState


@dataclass(frozen=True)
class SiteParameters:
    """The parameters of the modules that one site changed, or the same site in each copy of a block.

    Elements and bytes are sums over all of these sites, without buffers.
    """

    pass_name: str
    """Empty where no site of a pass names the modules."""
    sites: tuple[str, ...]
    place: str
    """The module that holds those that changed; of copies with ``*`` for their numbers."""
    became: str
    """The modules before and now, by their names in `place`: ``query + key + value → merged``."""
    parameters_before: int
    parameters_after: int
    bytes_before: int
    bytes_after: int


def parameters_by_site(
    table: ParameterTable, states: Iterable[PassState], before: GraphModule, after: GraphModule
) -> tuple[SiteParameters, ...]:
    """Return the changed rows of `table` by the site that changed them, each row once: the sums are those of the rows.

    Args:
        table: the comparison of the parameters of `before` and `after`.
        states: of the passes and edits, in the order in which they run.
    """
    left = {row.path: row for row in table.changed_rows}
    graphs = [nodes_by_name(gm) for gm in (before, after)]
    found: list[SiteParameters] = []
    for state in states:
        for site in state.sites:
            paths = list(dict.fromkeys(_paths(site, graphs))) if site.on else []
            rows = [left.pop(path) for path in paths if path in left]
            if rows:
                found.append(_of(state.name, site.site, rows))
    found += [_of("", "", [row]) for row in left.values()]
    return tuple(_with_copies(found))


def _paths(site: SiteState, graphs: Sequence[Mapping[str, Node]]) -> Iterator[str]:
    """Yield the modules whose parameters the nodes of a site read, in the original first."""
    before, after = graphs
    names = ((before, (*site.removed, *site.changed)), (after, (*site.created, *site.changed)))
    for nodes, of in names:
        for name in of:
            node = nodes.get(name)
            for one in (node, *inputs_of(node)) if node is not None else ():
                if one is node and one.op == "call_module":
                    yield str(one.target)
                elif one.op == "get_attr":
                    yield str(one.target).rpartition(".")[0] or "(root)"


def _of(pass_name: str, site: str, rows: list[ParameterRow]) -> SiteParameters:
    place = _holder([row.path for row in rows])
    old = [_inside(place, row.path) for row in rows if row.what != "added"]
    new = [_inside(place, row.path) for row in rows if row.what != "removed"]
    became = f"{' + '.join(old)} → {' + '.join(new) or 'nothing'}" if old != new else f"{' + '.join(old)} changed"
    return SiteParameters(
        pass_name,
        (site,) if site else (),
        place,
        became if old else f"{' + '.join(new)} added",
        sum(row.parameters_before for row in rows),
        sum(row.parameters_after for row in rows),
        sum(row.bytes_before for row in rows),
        sum(row.bytes_after for row in rows),
    )


def _holder(paths: list[str]) -> str:
    """Return the path of the innermost module that holds all of `paths`.

    >>> _holder(["layer.0.query", "layer.0.key"]), _holder(["head.linear"]), _holder(["stem"])
    ('layer.0', 'head', '')
    """
    holders = [path.split(".")[:-1] for path in paths]
    shared = takewhile(lambda names: len(set(names)) == 1, zip(*holders))
    return ".".join(names[0] for names in shared)


def _inside(place: str, path: str) -> str:
    return path.removeprefix(f"{place}.") if place else path


def _with_copies(found: list[SiteParameters]) -> Iterator[SiteParameters]:
    """Yield the same site of each copy of a block as one."""
    copies: dict[tuple[str, ...], list[SiteParameters]] = {}
    for one in found:
        key = (one.pass_name, re.sub(r"\d+", "*", one.place), re.sub(r"_\d+\b", "", one.became))
        copies.setdefault(key, []).append(one)
    for (_, place, became), of in copies.items():
        if len(of) == 1:
            yield of[0]
            continue
        yield replace(
            of[0],
            sites=tuple(site for one in of for site in one.sites),
            place=place,
            became=became,
            parameters_before=sum(one.parameters_before for one in of),
            parameters_after=sum(one.parameters_after for one in of),
            bytes_before=sum(one.bytes_before for one in of),
            bytes_after=sum(one.bytes_after for one in of),
        )
