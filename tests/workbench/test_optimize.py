"""`fxopt.optimize`: one call, and the evidence for it."""

import copy

import pytest
import torch
from torch import nn

import fxopt
from fxopt.evidence.latency import Round, report_of
from fxopt.packed import PackedConv2d, PackedLinear
from fxopt.workbench.tuning import site_times

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout())
    return nn.Sequential(*layers, nn.Linear(8, 4), nn.GELU()).eval()


def test_the_passes_run_in_an_order_in_which_each_finds_its_sites() -> None:
    model = net()
    before = copy.deepcopy(model.state_dict())
    module, report, _ = fxopt.optimize(model, X, measured=False)
    kinds = [type(module.get_submodule(str(n.target))) for n in module.graph.nodes if n.op == "call_module"]
    assert kinds == [PackedConv2d, nn.AdaptiveAvgPool2d, nn.Flatten, PackedLinear]
    assert report.numerics.fits
    assert "FuseBatchNorm2dInConv2d: 1 of 1 sites" in str(report)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_exact_keeps_every_bit() -> None:
    _, report, _ = fxopt.optimize(net(), (X,), level="exact")
    assert report.numerics.identical
    assert [state.sites_on for state in report.states] == [1]


def test_the_choices_replay_and_slower_sites_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model = net()
    monkeypatch.setattr("fxopt.workbench.tuning._ratio", lambda module, given: 0.5)
    module, report, choices = fxopt.optimize(model, {"input": X}, budget=0.2)
    assert isinstance(module.get_submodule("6"), nn.Linear)
    assert "2.00x slower when packed" in str(report)
    again = fxopt.optimize(model, {"input": X}, choices=choices, measured=False)
    assert fxopt.fingerprint(again.module) == fxopt.fingerprint(module)


def test_nothing_is_rewritten_where_the_whole_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    slower = report_of([Round(1.0, 2.0, 1.0)] * 9)
    monkeypatch.setattr("fxopt.workbench.optimize.measure", lambda *args, **kwargs: slower)
    module, report, choices = fxopt.optimize(net(), X)
    assert isinstance(module.get_submodule("0"), nn.Conv2d)
    assert "as it was captured" in str(report)
    assert not any(choice.on for choice in choices)


def test_packed_layers_that_are_alike_are_timed_once() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)).eval()
    x = torch.randn(3, 8)
    gm = fxopt.PackLinears()(fxopt.capture(model, (x,)))
    first, second = site_times(gm, (x,), {})
    assert (first.sites, second.sites, first.shape) == (("_0", "_1"), ("_2",), (3, 8))
    assert min(first.ratio, second.ratio) > 0


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(fxopt.FxoptError, match="there is no level 'fastest'; give one of exact, rounding"):
        fxopt.optimize(net(), X, level="fastest")  # type: ignore[arg-type]
