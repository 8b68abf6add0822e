"""Marks that transformations leave on a graph module: their keys, and the authors of nodes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from torch import nn
from torch.fx import Node

MARKS = "transformations"
"""Key of ``node.meta``: the signatures of the transformations that made or changed the node."""

ORIGIN = "origin"
"""Key of ``node.meta``: the `Origin` of a node that a pass made."""

MADE_BY = "_fxopt_made_by"
"""Attribute of a module that a pass made: the signature of the pass. Unlike ``node.meta``, it survives a retrace."""

LEDGER = "_fxopt_ledger"
"""The name of the child module that is the ledger."""


@dataclass(frozen=True)
class Origin:
    """The origin of a node: the pass that made it, the site, and the nodes it was made from."""

    pass_name: str
    site: str
    nodes: tuple[str, ...]


def place_of(node: Node, *, without: str) -> str:
    """Return the name of a node; where passes changed it, with a digest of those `without` the one of this signature.

    The input of such a node may be another one than that of its namesake in the graph before: a norm that is folded
    into a layer gives it the numbers that the norm read.
    """
    changed = sorted(set(node.meta.get(MARKS, ())) - {without})
    digest = hashlib.sha256("".join(changed).encode()).hexdigest()[:8]
    return f"{node.name}@{digest}" if changed else node.name


def made_by(thing: Node | nn.Module, signature: str) -> bool:
    """Return whether a pass of this signature made or changed the node, or made the module."""
    if isinstance(thing, Node):
        return signature in thing.meta.get(MARKS, ())
    return bool(thing.__dict__.get(MADE_BY) == signature)
