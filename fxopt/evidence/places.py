"""The places of a model's parameters: which of its parts hold how many."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

NEARLY_ALL = 0.95
"""A part that holds such a share of the parameters says nothing of their place: its own parts are told instead."""


@dataclass(frozen=True)
class Place:
    """A part of a model, and its parameters; those shared with a part before count there."""

    path: str
    kind: str
    parameters: int
    share: float
    """Of all parameters of the model; 0 to 1."""


def parameter_places(model: nn.Module, most: int = 6) -> tuple[Place, ...]:
    """Return the parts with the most parameters, at most so many, the largest first.

    >>> places = parameter_places(nn.Sequential(nn.Linear(9, 9), nn.Linear(1, 1)))
    >>> [(place.path, place.parameters) for place in places]
    [('0', 90), ('1', 2)]
    """
    total = sum(parameter.numel() for parameter in model.parameters())
    path, parts = "", _parts("", model)
    while len(largest := [part for part in parts if total and part.parameters / total > NEARLY_ALL]) == 1:
        inner = _parts(largest[0].path, model.get_submodule(largest[0].path))
        if not inner or largest[0].path == path:
            break
        path, parts = largest[0].path, inner
    found = [Place(part.path, part.kind, part.parameters, part.parameters / total) for part in parts if part.parameters]
    return tuple(sorted(found, key=lambda place: -place.parameters)[:most])


def _parts(path: str, module: nn.Module) -> list[Place]:
    seen: set[int] = set()
    found = []
    for name, child in module.named_children():
        own = {id(parameter): parameter.numel() for parameter in child.parameters() if id(parameter) not in seen}
        seen |= own.keys()
        found.append(Place(f"{path}.{name}" if path else name, type(child).__name__, sum(own.values()), 0.0))
    return found
