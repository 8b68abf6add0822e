import pytest
import torch
from torch import nn
from torch.fx import Node

import fxopt
from fxopt import ALL_PASSES, FxoptError, Miss, Pass, RewriteError, Rewriter, Workbench, fingerprint
from fxopt.core import GraphIndex, Match
from tests.examples import EXAMPLES, outputs

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


def test_it_opens_a_model_and_says_what_each_pass_would_do() -> None:
    wb = Workbench(CONV.model(), CONV.inputs())
    state = wb.state_of("FuseBatchNorm2dInConv2d")
    assert (state.on, state.sites_on, len(state.sites)) == (False, 0, 4)
    assert all("only scales and shifts" in site.explanation for site in state.sites)
    assert not wb.is_changed


def test_switching_on_and_off_changes_the_current_graph_and_never_the_pristine_one() -> None:
    gm = ATTENTION.graph()
    wb = Workbench(gm)
    wb.turn_on("MergeLinears")
    state = wb.state_of("MergeLinears")
    assert (state.sites_on, state.sites[0].created, state.sites[0].changed) == (1, ("q_k_v_merged",), ("q", "k", "v"))
    assert "q_k_v_merged" in dict(wb.current.named_children())
    assert fingerprint(gm) == wb.fingerprint
    torch.testing.assert_close(outputs(wb.current, ATTENTION.inputs()), outputs(gm, ATTENTION.inputs()))
    assert not wb.is_restored
    wb.turn_off("MergeLinears")
    assert wb.is_restored


def test_a_pass_that_comes_earlier_can_be_switched_on_later() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("FuseBiasInLinear")
    assert [site.site for site in wb.state_of("FuseBiasInLinear").sites] == ["q", "k", "v", "out"]
    wb.turn_on("MergeLinears")
    assert [site.site for site in wb.state_of("FuseBiasInLinear").sites] == ["q_k_v_merged", "out"]
    wb.turn_off("MergeLinears")
    assert [site.site for site in wb.state_of("FuseBiasInLinear").sites if site.on] == ["q", "k", "v", "out"]


def test_single_sites_can_be_switched() -> None:
    wb = Workbench(CONV.graph())
    name = "FuseBatchNorm2dInConv2d"
    sites = [site.site for site in wb.state_of(name).sites]
    wb.turn_on(name, sites[1])
    assert [site.on for site in wb.state_of(name).sites] == [False, True, False, False]
    wb.turn_on(name)
    wb.turn_off(name, sites[0])
    assert [site.on for site in wb.state_of(name).sites] == [False, True, True, True]
    for site in sites[1:]:
        wb.turn_off(name, site)
    assert wb.is_restored
    assert not wb.state_of(name).on


def test_undo_and_redo_walk_through_the_switches() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    merged = fingerprint(wb.current)
    wb.turn_on("ChangeTrueDivToMulByInverse")
    both = fingerprint(wb.current)
    wb.undo()
    assert fingerprint(wb.current) == merged
    wb.undo()
    assert wb.is_restored
    assert not wb.can_undo
    wb.undo()
    wb.redo()
    wb.redo()
    assert fingerprint(wb.current) == both
    assert not wb.can_redo
    wb.undo()
    wb.turn_on("FuseBiasInLinear")
    assert not wb.can_redo, "a new switch ends what could be redone"


def test_reverse_all_restores_and_can_itself_be_undone() -> None:
    wb = Workbench(ATTENTION.graph())
    for kind in ALL_PASSES:
        wb.turn_on(kind())
    every = fingerprint(wb.current)
    wb.reverse_all()
    assert wb.is_restored
    wb.undo()
    assert fingerprint(wb.current) == every


def test_a_weight_written_to_behind_its_back_is_not_called_restored() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    with torch.no_grad():
        wb.pristine.get_submodule("out").weight.add_(1)
    wb.reverse_all()
    assert not wb.is_restored


def test_nodes_tell_their_story() -> None:
    wb = Workbench(CONV.graph())
    wb.turn_on("FuseBatchNorm2dInConv2d")
    assert wb.story("stem") == ["changed by FuseBatchNorm2dInConv2d at stem_bn"]
    assert wb.story("stem_bn") == ["removed by FuseBatchNorm2dInConv2d at stem_bn"]
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    assert wb.story("q_k_v_merged") == ["made by MergeLinears from q, k, v"]


class Broken(Pass[Match]):
    """Replace `relu` by an error."""

    targets = (nn.ReLU, torch.relu, "relu")

    def match(self, node: Node, index: GraphIndex) -> Match | Miss:
        return Match(node)

    def explain(self, match: Match) -> str:
        return "breaks"

    def rewrite(self, match: Match, rewriter: Rewriter) -> None:
        rewriter.call_function(torch.neg, (match.anchor,))
        raise KeyError("on purpose")


def test_a_pass_that_fails_is_rolled_back_and_said_and_the_others_stay() -> None:
    gm = CONV.graph()
    wb = Workbench(gm, passes=[Broken(), fxopt.FuseBatchNorm2dInConv2d()])
    wb.turn_on("FuseBatchNorm2dInConv2d")
    wb.turn_on("Broken")
    assert "Broken failed at relu" in wb.state_of("Broken").error
    assert wb.state_of("FuseBatchNorm2dInConv2d").sites_on == 4
    wb.turn_off("FuseBatchNorm2dInConv2d")
    assert wb.is_restored


def test_mistakes_are_named() -> None:
    wb = Workbench(CONV.graph())
    with pytest.raises(FxoptError, match="no pass Nothing; it has FuseBatchNorm2dInConv2d"):
        wb.turn_on("Nothing")
    with pytest.raises(FxoptError, match="FuseBatchNorm2dInConv2d has no site nowhere; it has stem_bn"):
        wb.turn_on("FuseBatchNorm2dInConv2d", "nowhere")
    with pytest.raises(FxoptError, match="twice"):
        Workbench(CONV.graph(), passes=[Broken(), Broken()])
    gm = CONV.graph()
    fxopt.FuseBatchNorm2dInConv2d()(gm)
    with pytest.raises(RewriteError, match="passes in force"):
        Workbench(gm)


def test_two_workbenches_of_one_model_do_not_see_each_other() -> None:
    gm = ATTENTION.graph()
    first, second = Workbench(gm), Workbench(gm)
    first.turn_on("MergeLinears")
    assert not second.is_changed
    second.turn_on("FuseBiasInLinear")
    first.reverse_all()
    assert first.is_restored
    assert second.state_of("FuseBiasInLinear").sites_on == 4
    second.reverse_all()
    assert second.is_restored
    assert fingerprint(gm) == first.fingerprint
