"""A captured graph can be scripted and traced by torch.jit, with passes on as well."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.fx import GraphModule

import fxopt
from fxopt.core import fingerprint
from fxopt.tracing import InputError, capture


class Attends(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores = torch.matmul(self.query(x), self.key(x).transpose(-1, -2)) / 2.0
        return scores.softmax(-1).reshape(x.size(0), -1)


X = torch.randn(2, 3, 4)


@pytest.fixture
def gm() -> GraphModule:
    return capture(Attends().eval(), (X,))


@pytest.fixture(autouse=True)
def without_the_news_of_torch() -> Iterator[None]:
    """Not be told that scripts are deprecated, nor of annotations in torch's own `__init__`."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", "The TorchScript type system")
        yield


def test_a_captured_graph_is_scripted_and_stays_as_it_was(gm: GraphModule) -> None:
    before = fingerprint(gm)
    for graph in (gm, copy.deepcopy(gm), nn.Sequential(gm, nn.Identity())):
        script = torch.jit.script(graph)
        torch.testing.assert_close(script(X), gm(X))
        torch.testing.assert_close(script(X[:1]), gm(X[:1]))
    assert fingerprint(gm) == before
    with pytest.raises(InputError):
        gm("text")


def test_a_graph_with_passes_on_is_scripted_and_keeps_the_way_back(gm: GraphModule) -> None:
    before, expected = fingerprint(gm), gm(X)
    for pass_ in (fxopt.MergeLinears(), fxopt.ChangeTrueDivToMulByInverse()):
        pass_(gm)
    script = torch.jit.script(gm)
    torch.testing.assert_close(script(X), expected)
    assert not any("ledger" in name for name, _ in script.named_modules())
    for pass_ in (fxopt.ChangeTrueDivToMulByInverse(), fxopt.MergeLinears()):
        assert pass_.sites_on(gm)
        pass_(gm, reverse=True)
    assert fingerprint(gm) == before


def test_a_script_shares_the_weights(gm: GraphModule) -> None:
    script = torch.jit.script(gm)
    assert script.query.weight.data_ptr() == gm.query.weight.data_ptr()


def test_a_captured_graph_is_traced_by_torch_jit(gm: GraphModule) -> None:
    fxopt.MergeLinears()(gm)
    torch.testing.assert_close(torch.jit.trace(gm, X)(X), gm(X))
