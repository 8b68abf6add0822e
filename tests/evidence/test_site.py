"""The effect of one site on the numbers, where it leaves off."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, symbolic_trace

from fxopt import Workbench, fingerprint
from fxopt.evidence import site_report
from fxopt.models import model_source
from fxopt.workbench.site_trial import site_trial

X = torch.linspace(-3, 3, 12).view(3, 4)


class Divides(nn.Module):
    def __init__(self, divisor: float) -> None:
        super().__init__()
        self.first, self.second, self.divisor = nn.Linear(4, 4), nn.Linear(4, 4), divisor

    def forward(self, x: Tensor) -> Tensor:
        scaled = self.first(x) / self.divisor
        return self.second(scaled) + scaled


def report_at(model: nn.Module, pass_name: str, site: str, x: Tensor = X, also: str = ""):  # type: ignore[no-untyped-def]
    wb = Workbench(model.eval(), (x,))
    if also:
        wb.turn_on(also)
    trial = site_trial(wb, pass_name, site)
    return site_report(trial.off, trial.on, trial.rewritten, (x,))


def test_a_division_by_a_power_of_two_changes_no_bit() -> None:
    report = report_at(Divides(8.0), "ChangeTrueDivToMulByInverse", "truediv")
    assert report.identical
    assert all(one.difference is not None and one.difference.identical for one in report.model)


def test_a_division_by_seven_differs_by_a_unit_in_the_last_place_at_its_own_output() -> None:
    report = report_at(Divides(7.0), "ChangeTrueDivToMulByInverse", "truediv")
    assert not report.identical
    [found] = report.site
    assert found.difference is not None
    assert 0 < found.difference.max_ulp <= 1  # type: ignore[operator]
    model = Divides(7.0)
    inside = model.first(X)
    assert (inside / 7 - inside * (1 / 7)).abs().max() > 0, "so the difference is really there"


def test_a_node_that_takes_over_for_another_is_compared_with_it() -> None:
    source = model_source("digits_conv_net")
    model = source.build()
    args, kwargs = source.inputs(model)
    wb = Workbench(model, args, kwargs)
    trial = site_trial(wb, "FuseBatchNorm2dInConv2d", "stem_norm")
    report = site_report(trial.off, trial.on, trial.rewritten, args, kwargs)
    [found] = report.site
    assert found.name == "stem_norm → stem_conv"
    assert found.difference is not None
    assert 0 < found.difference.max_abs < 1e-4
    assert report.model[0].difference is not None
    assert trial.resting == ()


def test_other_sites_that_are_on_are_on_in_both() -> None:
    alone = report_at(Divides(7.0), "ChangeTrueDivToMulByInverse", "truediv")
    beside = report_at(Divides(7.0), "ChangeTrueDivToMulByInverse", "truediv", also="FuseBiasInLinear")
    assert [one.name for one in alone.site] == [one.name for one in beside.site]
    assert beside.site[0].difference is not None
    assert beside.site[0].difference.max_ulp <= 1  # type: ignore[operator]


def test_what_rests_on_a_site_goes_with_it_and_is_named() -> None:
    source = model_source("digits_transformer")
    model = source.build()
    args, kwargs = source.inputs(model)
    wb = Workbench(model, args, kwargs)
    wb.turn_on("MergeLinears")
    wb.turn_on("FuseBiasInLinear")
    site = wb.state_of("MergeLinears").sites[0].site
    trial = site_trial(wb, "MergeLinears", site)
    assert any(name == "FuseBiasInLinear" for name, _ in trial.resting)
    report = site_report(trial.off, trial.on, trial.rewritten, args, kwargs)
    assert report.site
    assert all(one.difference is not None and one.difference.max_abs < 1e-4 for one in report.site)


def test_the_workbench_and_the_models_stay_as_they_were() -> None:
    model = Divides(3.0).eval()
    wb = Workbench(model, (X,))
    before = wb.fingerprint, fingerprint(symbolic_trace(model))
    trial = site_trial(wb, "ChangeTrueDivToMulByInverse", "truediv")
    site_report(trial.off, trial.on, trial.rewritten, (X,))
    assert (fingerprint(wb.current), fingerprint(symbolic_trace(model))) == before
    assert wb.is_restored


def test_values_are_compared_as_they_were_before_a_later_node_changed_them() -> None:
    class InPlace(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x / 2.0).add_(1)

    def graph(scale: float) -> GraphModule:
        gm = symbolic_trace(InPlace())
        node = next(node for node in gm.graph.nodes if node.name == "truediv")
        node.args = (node.args[0], scale)
        gm.recompile()
        return gm

    report = site_report(graph(2.0), graph(4.0), {"truediv"}, (X,))
    assert report.site[0].difference is not None
    assert report.site[0].difference.max_abs == 0.75
