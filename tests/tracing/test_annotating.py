"""`fxopt.annotate`: a plain trace is no dead end."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import fxopt


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: object, factor: object) -> object:
        return self.linear(self.norm(x)) * factor / 3


@pytest.fixture
def gm() -> torch.fx.GraphModule:
    return torch.fx.symbolic_trace(Net().eval())


def test_a_call_says_what_it_could_not_prove_and_annotate_mends_it(gm: torch.fx.GraphModule) -> None:
    told = "FuseBatchNorm1dInLinear changed nothing: the graph lacks .* that could prove a site.*fxopt.annotate"
    with pytest.warns(fxopt.FxoptWarning, match=told):
        fxopt.FuseBatchNorm1dInLinear()(gm)
    code = gm.code
    assert fxopt.annotate(gm, torch.rand(2, 4), factor=torch.ones(4)) is gm
    assert gm.code == code
    assert [str(node.meta["tensor_info"]) for node in gm.graph.find_nodes(op="call_module", target="linear")] == [
        "float32 batch x 4"
    ]
    fxopt.FuseBatchNorm1dInLinear()(gm)
    assert "norm" not in gm.code
    fxopt.FuseBatchNorm1dInLinear()(gm)  # it is in force: nothing to say


def test_nothing_is_said_where_shapes_would_not_help(gm: torch.fx.GraphModule) -> None:
    before = fxopt.fingerprint(gm)
    with warnings.catch_warnings(record=True) as said:
        fxopt.MergeLinears()(gm)
        fxopt.FuseBatchNorm2dInConv2d()(gm)
    assert said == []
    assert fxopt.fingerprint(gm) == before


def test_annotating_again_follows_a_change_by_hand(gm: torch.fx.GraphModule) -> None:
    fxopt.annotate(gm, torch.rand(2, 4), torch.ones(4))
    gm.linear = nn.Linear(4, 7)
    fxopt.annotate(gm, torch.rand(2, 4), torch.ones(7), dynamic="none")
    assert gm.graph.find_nodes(op="call_module", target="linear")[0].meta["tensor_info"].shape == (2, 7)


def test_wrong_examples_are_refused_and_a_run_that_stops_is_told(gm: torch.fx.GraphModule) -> None:
    with pytest.raises(fxopt.FxoptError, match="factor"):
        fxopt.annotate(gm, torch.rand(2, 4))
    with pytest.raises(fxopt.FxoptError):
        fxopt.annotate(gm, torch.rand(2, 4), torch.ones(4), dynamic={"nowhere": [0]})
    with pytest.warns(fxopt.FxoptWarning, match="shapes stop at factor: RuntimeError: running_mean"):
        fxopt.annotate(gm, torch.rand(2, 5), torch.ones(4))


def test_a_division_is_proven_by_its_function() -> None:
    def divided(x: torch.Tensor, n: object) -> object:
        return torch.div(n, 3), n.div(4), n / 4, n / 3  # type: ignore[attr-defined]

    gm = torch.fx.Tracer().trace(divided)
    pass_ = fxopt.ChangeTrueDivToMulByInverse()
    scan = pass_.scan(torch.fx.GraphModule(nn.Module(), gm))
    assert [match.site for match in scan.matches] == ["div", "div_1"]
    assert {pass_.exactness(match) for match in scan.matches} == {fxopt.Exactness.ROUNDING}
    assert [miss.site for miss in scan.misses] == ["truediv", "truediv_1"]


def test_transformed_nodes_are_those_of_optimum() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.q(x) + self.k(x)

    for pass_, transformed, marked in (
        (fxopt.MergeLinears(), ["q_k_merged"], ["q_k_merged", "q", "k"]),
        (fxopt.FuseBiasInLinear(), ["q", "k"], ["pad", "q", "k"]),
    ):
        gm = pass_(fxopt.capture(Two(), (torch.rand(2, 4),)))
        assert [node.name for node in pass_.get_transformed_nodes(gm)] == transformed
        assert [node.name for node in pass_.marked_nodes(gm)] == marked


def test_a_graph_that_has_shapes_keeps_them_where_the_example_misfits() -> None:
    gm = fxopt.capture(Net().eval(), (torch.rand(2, 4), torch.ones(4)))
    before = fxopt.fingerprint(gm)
    with pytest.raises(fxopt.FxoptError, match="the example misfits the graph: shapes stop at factor"):
        fxopt.annotate(gm, torch.rand(2, 5), torch.ones(4))
    assert fxopt.fingerprint(gm) == before


def test_a_plain_module_is_no_graph() -> None:
    with pytest.raises(fxopt.FxoptError, match="takes a graph module; this is a Net"):
        fxopt.annotate(Net(), torch.rand(2, 4), torch.ones(4))  # type: ignore[arg-type]
