import torch
from torch import nn

from fxopt import Workbench, fingerprint
from fxopt.evidence import site_report
from fxopt.workbench.site_code import site_code
from fxopt.workbench.site_trial import site_trial
from tests.examples import EXAMPLES

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


def test_the_code_of_a_site_is_the_same_whether_the_site_is_on_or_off() -> None:
    wb = Workbench(ATTENTION.graph())
    told = site_code(wb, "MergeLinears", "q")
    assert [line.partition(" = ")[0] for line in told.before.splitlines()] == ["q", "k", "v"]
    assert [line.partition(" = ")[0] for line in told.after.splitlines()] == ["q_k_v_merged", "q", "k", "v"]
    assert wb.is_restored
    wb.turn_on("MergeLinears")
    before = fingerprint(wb.current)
    assert site_code(wb, "MergeLinears", "q") == told
    assert fingerprint(wb.current) == before


def test_a_fold_removes_its_line_and_rewires_the_one_that_read_it() -> None:
    told = site_code(Workbench(CONV.graph()), "FuseBatchNorm2dInConv2d", "stem_bn")
    assert "stem_bn = " in told.before
    assert "stem_bn" not in told.after
    assert "stem = self.stem" in told.before
    assert "stem = self.stem" in told.after


class Twins(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) * self.k(x)


def test_a_copy_whose_nodes_are_numbered_anew_without_the_site_is_left_out() -> None:
    wb = Workbench(nn.Sequential(Twins(), Twins(), Twins()).eval(), (torch.rand(2, 4),))
    wb.turn_on("MergeLinears")
    told = site_code(wb, "MergeLinears", "_0_q")
    assert [line.partition(" = ")[0] for line in told.before.splitlines()] == ["_0_q", "_0_k"]
    assert [line.partition(" = ")[0] for line in told.after.splitlines()] == ["q_k_merged", "_0_q", "_0_k"]
    trial = site_trial(wb, "MergeLinears", "_0_q")
    report = site_report(trial.off, trial.on, trial.rewritten, (torch.rand(2, 4),))
    assert {one.name for one in report.site} == {"_0_q", "_0_k"}
