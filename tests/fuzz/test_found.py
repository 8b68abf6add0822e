"""Faults that random programs found, each as the smallest program that shows it."""

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import FoldBatchNorm, FuseBatchNorm1dInLinear, FuseBiasInLinear, MergeLinears, fingerprint
from fxopt.core import GraphIndex, shared_copy
from tests.fuzz.handwritten import OtherWeights
from tests.fuzz.programs import Program, build, run
from tests.fuzz.properties import check_program
from tests.fuzz.rules import remove_one
from tests.saving import saved_and_loaded


class Siblings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.a(x) + self.b(x)


class ChannelsLast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.contiguous(memory_format=torch.channels_last))


def exported(model: nn.Module, x: torch.Tensor) -> GraphModule:
    made = torch.export.export(model, (x,)).module()
    assert isinstance(made, GraphModule)
    return made


def folding_model() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval()


def test_a_copy_of_an_exported_program_that_shares_weights_comes_without_a_warning() -> None:
    gm = exported(folding_model(), torch.zeros(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fingerprint(shared_copy(gm)) == fingerprint(gm)


def test_a_copy_that_shares_weights_keeps_an_output_node_of_another_name() -> None:
    gm = torch.fx.symbolic_trace(folding_model())
    last = next(iter(reversed(gm.graph.nodes)))
    last.name = "output_7"
    assert fingerprint(shared_copy(gm)) == fingerprint(gm)


def test_what_was_done_beside_a_memory_format_can_be_saved() -> None:
    gm = torch.fx.symbolic_trace(ChannelsLast())
    code = gm.code
    FuseBiasInLinear()(gm)
    loaded = saved_and_loaded(gm)
    assert FuseBiasInLinear()(loaded, reverse=True).code == code


def test_what_was_done_to_aten_operators_can_be_saved() -> None:
    class Aten(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.aten.add.Tensor(self.linear(x), 1)

    gm = torch.fx.symbolic_trace(Aten())
    code = gm.code
    FuseBiasInLinear()(gm)
    assert FuseBiasInLinear()(saved_and_loaded(gm), reverse=True).code == code


def test_what_was_done_to_nodes_with_fake_tensors_in_their_metadata_can_be_copied() -> None:
    gm = exported(folding_model(), torch.zeros(2, 4))
    names = [node.name for node in gm.graph.nodes]
    fxopt.FoldBatchNorm()(gm)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own, of copying tree specs
        copied = copy.deepcopy(gm)
    FoldBatchNorm()(copied, reverse=True)
    assert [node.name for node in copied.graph.nodes] == names


@pytest.mark.parametrize("copied", [shared_copy, copy.deepcopy])
def test_the_copy_of_a_graph_module_can_be_saved_and_reversed(copied: Any) -> None:
    gm = torch.fx.symbolic_trace(Siblings())
    names, code = [node.name for node in gm.graph.nodes], gm.code
    MergeLinears()(gm)
    loaded = saved_and_loaded(copied(gm))
    MergeLinears()(loaded, reverse=True)
    assert ([node.name for node in loaded.graph.nodes], loaded.code) == (names, code)


def test_modules_come_back_in_order_though_one_was_replaced_by_hand_before() -> None:
    gm = torch.fx.symbolic_trace(Siblings())
    before = fingerprint(gm)
    by_hand, merge = OtherWeights(), MergeLinears()
    merge(by_hand(gm))
    by_hand(gm, reverse=True)
    merge(gm, reverse=True)
    assert fingerprint(gm) == before


def test_keeping_views_does_not_bar_the_way_back_of_what_was_done_before() -> None:
    model = Siblings()
    model.a = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))  # type: ignore[assignment]
    gm = fxopt.capture(model.eval(), (torch.zeros(2, 4),))
    before = fingerprint(gm)
    fold, merge = FuseBatchNorm1dInLinear(), MergeLinears(keep="view")
    merge(fold(gm))
    fold(gm, reverse=True)
    merge.undo(gm)
    gm.recompile()
    assert fingerprint(gm) == before


def test_a_batch_norm_that_folds_both_ways_is_folded() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4)).eval()
    gm = fxopt.capture(model, (torch.zeros(2, 4),))
    assert [match.site for match in FoldBatchNorm().scan(gm).matches] == ["_1"]


def test_keeping_views_does_not_part_what_something_in_force_took_out_from_what_it_is_tied_to() -> None:
    model = Siblings()
    model.b.weight = model.a.weight
    gm = fxopt.capture(model.eval(), (torch.zeros(2, 4),))
    before = fingerprint(gm)
    other, merge = OtherWeights(), MergeLinears(keep="view")
    merge(other(gm))
    assert merge.sites_on(gm)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* rested on ", fxopt.FxoptWarning)
        other(gm, reverse=True)
    merge.undo(gm)
    gm.recompile()
    assert fingerprint(gm) == before


def test_a_copy_that_closes_gaps_stays_where_numbers_are_added_up_in_the_order_of_memory() -> None:
    built = build(Program((("view", 0, 3), ("scale", 0, 6), ("combine", 2, 0), ("view", 0, 0))))
    assert built is not None
    check_program(built, remove_one, [], 0)


def test_a_site_turned_on_later_shares_the_column_of_ones_made_after_the_last_write() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            a = self.a(y)
            y.add_(0.5)
            return a + self.b(y) + self.c(y)

    gm = fxopt.capture(Written().eval(), (torch.zeros(2, 4),))
    at_once, one_by_one = shared_copy(gm), shared_copy(gm)
    FuseBiasInLinear()(at_once)
    for site in ("a", "b", "c"):
        FuseBiasInLinear().apply(GraphIndex(one_by_one), {site})
    one_by_one.recompile()
    assert one_by_one.code == at_once.code


def test_a_view_of_the_gaps_of_an_input_reads_the_same_in_every_run() -> None:
    class Gaps(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.as_strided((7,), (1,)).clone()

    x = torch.zeros(14).as_strided((4,), (2,)).fill_(1)
    found, _ = run(torch.fx.symbolic_trace(Gaps()), (x,))
    assert found is not None
    assert found.tolist() == [1, 0, 1, 0, 1, 0, 1]
