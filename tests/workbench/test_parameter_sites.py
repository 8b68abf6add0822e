"""Changes of parameters by site: the modules before and now, and sums that are those of the table."""

from __future__ import annotations

import torch
from torch import nn
from torch.fx import GraphModule, symbolic_trace

from fxopt import FuseBatchNorm2dInConv2d, FuseBiasInLinear, MergeLinears, Workbench, capture
from fxopt.edits import ReplaceModule
from fxopt.evidence import parameter_table
from fxopt.workbench.parameter_sites import SiteParameters, parameters_by_site


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.norm = nn.Linear(4, 4), nn.Linear(4, 2), nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.query(x) * self.key(x).sum())


def on(bench: Workbench, *names: str) -> tuple[SiteParameters, ...]:
    for name in names:
        bench.turn_on(name)
    table = parameter_table(bench.pristine, bench.current)
    found = parameters_by_site(table, bench.states, bench.pristine, bench.current)
    rows = table.changed_rows
    for one, other in (
        (sum(of.parameters_before for of in found), sum(row.parameters_before for row in rows)),
        (sum(of.parameters_after for of in found), sum(row.parameters_after for row in rows)),
        (sum(of.bytes_before for of in found), sum(row.bytes_before for row in rows)),
        (sum(of.bytes_after for of in found), sum(row.bytes_after for row in rows)),
    ):
        assert one == other
    return found


def blocks() -> GraphModule:
    torch.manual_seed(0)
    return symbolic_trace(nn.Sequential(*[Block() for _ in range(3)]).eval())


def test_merged_linears_of_all_copies_are_one_line_with_their_names() -> None:
    [found] = on(Workbench(blocks(), passes=[MergeLinears()]), "MergeLinears")
    assert (found.place, len(found.sites)) == ("*", 3)
    old, _, new = found.became.partition(" → ")
    assert old == "query + key"
    assert "merged" in new
    assert (found.parameters_before, found.parameters_after) == (90, 90)
    assert found.bytes_after == 4 * 90


def test_a_fold_names_the_layer_that_stays_and_the_norm_that_goes() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).eval()
    [found] = on(Workbench(symbolic_trace(model), passes=[FuseBatchNorm2dInConv2d()]), "FuseBatchNorm2dInConv2d")
    assert (found.place, sorted(found.became.split(" → ")[0].split(" + "))) == ("", ["0", "1"])
    assert found.became.endswith("→ 0")
    assert found.parameters_before - found.parameters_after == 4


def test_each_changed_module_is_counted_once_however_many_passes_changed_it() -> None:
    passes = [MergeLinears(), FuseBiasInLinear()]
    found = on(Workbench(blocks(), passes=passes), *(one.name for one in passes))
    assert {one.pass_name for one in found} >= {"MergeLinears"}


def test_an_edit_by_hand_has_a_line_of_its_own_and_no_change_has_none() -> None:
    graph = capture(nn.Sequential(*[Block() for _ in range(2)]).eval(), (torch.randn(3, 4),))
    bench = Workbench(graph, passes=[MergeLinears()])
    assert on(bench) == ()
    edit = bench.edit(ReplaceModule("_0_norm", "Identity"))
    [found] = on(bench)
    assert (found.pass_name, found.parameters_before, found.parameters_after) == (edit.name, 8, 0)
