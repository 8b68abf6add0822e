"""The inspector of a saved page: the facts of each node as texts, which the browser shows once it is selected."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from torch.fx import GraphModule, Node

from fxopt.graph.nodes import info_of, module_of, source_of, target_name
from fxopt.view.comparison import GONE
from fxopt.workbench import PassState, Workbench
from fxopt.workbench.descent import descent

Facts = Mapping[str, tuple[tuple[str, str], ...]]
"""By the name of a box, pairs of a label and a text."""

MOST_NODES = 2_000
"""The facts of as many take some hundred kilobytes; of larger graphs, those of the nodes in the picture are saved."""
MOST_TEXT = 160


def facts_of(wb: Workbench, seen: Iterable[str]) -> Facts:
    """Return the facts of the nodes of both graphs; of large graphs, those of the boxes that are `seen`.

    A node that a pass has changed is there twice, as its boxes are: as it was before by its name with `GONE`.
    """
    now, before = _nodes(wb.current), _nodes(wb.pristine)
    said, heirs, origins = _said(wb.states), defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for old, new in descent(wb) if wb.is_changed else ():
        if old != new:
            heirs[old].append(new)
            origins[new].append(old)
    changed = {name + GONE for state in wb.states for site in state.sites if site.on for name in site.changed}
    names = [*now, *(name for name in before if name not in now), *sorted(changed)]
    if len(now) + len(before) > MOST_NODES:
        names = [name for name in seen if name in names]
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    for name in names:
        own = name.removesuffix(GONE)
        node = now.get(name) or before.get(own)
        if node is None:  # a pass changed a node that another had made, and both are gone
            continue
        rows = _rows(node)
        if name in now:
            rows += [("Made from", ", ".join(origins[name]))]
        else:
            rows += [("Became", ", ".join(heirs[own]))]
        rows += [("History", told) for told in wb.story(own)] + said[own]
        found[name] = tuple((label, _short(text)) for label, text in rows if text)
    return found


def _nodes(gm: GraphModule) -> dict[str, Node]:
    return {node.name: node for node in gm.graph.nodes}


def _rows(node: Node) -> list[tuple[str, str]]:
    info, module, source = info_of(node), module_of(node), source_of(node)
    line = (
        f"{source.file.replace(chr(92), '/').rpartition('/')[2]}, line {source.line}: {source.text}" if source else ""
    )
    return [
        ("op", node.op),
        ("calls", target_name(node) if node.op != "output" else ""),
        ("class", type(module).__name__ if module is not None else ""),
        ("returns", str(info) if info is not None else ""),
        ("reads", ", ".join(one.name for one in node.all_input_nodes)),
        ("read by", ", ".join(one.name for one in node.users)),
        ("line", line),
    ]


def _said(states: Iterable[PassState]) -> dict[str, list[tuple[str, str]]]:
    """Return the words of the passes on each node: of sites, and of near misses with the remedy."""
    found = defaultdict[str, list[tuple[str, str]]](list)
    for state in states:
        for site in state.sites:
            done = "applied" if site.on else "matches"
            told = f"{done} at {site.site}: {site.explanation.rstrip('.')}. Exactness: {site.exactness.value}"
            for name in dict.fromkeys((*site.nodes, *site.created, *site.changed, *site.removed)):
                found[name].append((state.pass_.label, told))
        for miss in state.misses:
            told = f"near miss: {miss.reason}" + (f"; {miss.remedy}" if miss.remedy else "")
            found[miss.site].append((state.pass_.label, told))
    return found


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…"
