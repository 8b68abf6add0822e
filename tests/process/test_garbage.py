"""The search for garbage cycles waits for a rewrite, and goes on after it as it was."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from fxopt import FuseBiasInLinear, RewriteError
from fxopt.core import GraphIndex, Match, Miss

seen: list[bool] = []


class Watching(FuseBiasInLinear):
    """Notes at each node whether the search is on."""

    def match(self, node: torch.fx.Node, index: GraphIndex) -> Match | Miss | None:
        seen.append(gc.isenabled())
        return super().match(node, index)


class Failing(FuseBiasInLinear):
    def match(self, node: torch.fx.Node, index: GraphIndex) -> Match | Miss | None:
        raise ZeroDivisionError


@pytest.fixture(autouse=True)
def search_is_on() -> Iterator[None]:
    seen.clear()
    gc.enable()
    yield
    gc.enable()


def linear() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))


def test_it_waits_while_a_pass_scans_and_rewrites_and_is_on_afterwards() -> None:
    gm, pass_ = linear(), Watching()
    pass_.scan(gm)
    pass_(gm)
    assert seen
    assert not any(seen)
    assert gc.isenabled()
    pass_(gm, reverse=True)
    assert gc.isenabled()


def test_it_is_on_after_a_failure() -> None:
    with pytest.raises(RewriteError):
        Failing()(linear())
    assert gc.isenabled()


def test_where_it_was_off_it_stays_off() -> None:
    gc.disable()
    Watching()(linear())
    assert not gc.isenabled()
