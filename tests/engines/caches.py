"""A model that takes a step behind a cache of each kind."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Cache:
    """The keys and values of earlier steps, and their number."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values, self.seen = keys, values, 1


class Step(nn.Module):
    """Takes a cache of each kind, and returns a longer one beside the result, with the values as they were."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor, past: Any) -> Any:
        if isinstance(past, Cache):
            past.keys = torch.cat([past.keys, self.k(x)])
            return F.softmax(self.q(x) @ past.keys.t(), -1) @ (past.values + 1), past
        keys, values = past["layer"] if isinstance(past, dict) else past[0]
        keys = torch.cat([keys, self.k(x)])
        return F.softmax(self.q(x) @ keys.t(), -1) @ (values + 1), [(keys, values)]


def caches() -> dict[str, Any]:
    torch.manual_seed(0)
    keys, values = torch.randn(2, 8), torch.randn(3, 8)
    return {
        "an object": Cache(keys, values),
        "tuples": ((keys, values),),
        "lists": [[keys, values]],
        "a dict": {"layer": (keys, values)},
    }
