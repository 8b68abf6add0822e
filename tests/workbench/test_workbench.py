import random

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


def test_what_rests_on_a_pass_or_site_is_told_before_and_comes_back_with_it() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    wb.turn_on("FuseBiasInLinear")
    before = fingerprint(wb.current)
    assert wb.resting_on("MergeLinears") == (("FuseBiasInLinear", "q_k_v_merged"),)
    assert wb.resting_on("MergeLinears", "q") == wb.resting_on("MergeLinears")
    assert wb.resting_on("FuseBiasInLinear") == wb.resting_on("FuseBiasInLinear", "out") == ()
    assert fingerprint(wb.current) == before
    wb.turn_off("MergeLinears", "q")
    assert [site.site for site in wb.state_of("FuseBiasInLinear").sites if site.on] == ["q", "k", "v", "out"]
    wb.turn_on("MergeLinears", "q")
    assert fingerprint(wb.current) == before
    with pytest.raises(FxoptError, match="no site nothing"):
        wb.resting_on("MergeLinears", "nothing")


def test_near_misses_come_with_what_is_needed_the_nearest_first() -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2), nn.ReLU(), nn.BatchNorm2d(2)).eval()
    model[1].train()
    misses = Workbench(model, (torch.rand(1, 2, 4, 4),)).state_of("FuseBatchNorm2dInConv2d").misses
    assert [miss.met for miss in misses] == sorted((miss.met for miss in misses), reverse=True)
    training = next(miss for miss in misses if miss.site == "_1")
    assert ("training" in training.actual, training.needed != "", training.remedy) == (True, True, "model.eval()")


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
    with pytest.raises(FxoptError, match="no pass Nothing; it has CopySharedLayer, FuseBatchNorm2dInConv2d"):
        wb.turn_on("Nothing")
    with pytest.raises(FxoptError, match="FuseBatchNorm2dInConv2d has no site nowhere; it has stem_bn"):
        wb.turn_on("FuseBatchNorm2dInConv2d", "nowhere")
    with pytest.raises(FxoptError, match="twice"):
        Workbench(CONV.graph(), passes=[Broken(), Broken()])
    gm = CONV.graph()
    fxopt.FuseBatchNorm2dInConv2d()(gm)
    with pytest.raises(RewriteError, match="passes in force"):
        Workbench(gm)


def test_a_failure_names_its_node_and_comes_with_a_report_and_the_sites_stay_listed() -> None:
    wb = Workbench(CONV.graph(), passes=[Broken()])
    sites = [site.site for site in wb.state_of("Broken").sites]
    wb.turn_on("Broken")
    state = wb.state_of("Broken")
    assert (state.failed_at, state.sites_on, [site.site for site in state.sites]) == ("relu", 0, sites)
    assert "KeyError: 'on purpose'" in state.report
    assert "in rewrite" in state.report


def test_several_sites_are_switched_as_one_step() -> None:
    wb = Workbench(CONV.graph())
    name = "FuseBatchNorm2dInConv2d"
    sites = [site.site for site in wb.state_of(name).sites]
    wb.turn_on(name, sites[:2])
    assert [site.on for site in wb.state_of(name).sites] == [True, True, False, False]
    wb.turn_on(name, {sites[3]})
    wb.turn_off(name, (sites[0], sites[3]))
    assert [site.on for site in wb.state_of(name).sites] == [False, True, False, False]
    wb.undo()
    assert [site.on for site in wb.state_of(name).sites] == [True, True, False, True]
    wb.turn_off(name, [])
    assert wb.state_of(name).sites_on == 3, "no site, no change"
    with pytest.raises(FxoptError, match="no site nowhere"):
        wb.turn_off(name, [sites[0], "nowhere"])


def test_moving_a_pass_changes_what_it_finds_and_can_be_undone() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    wb.turn_on("FuseBiasInLinear")
    merged_first, choices = fingerprint(wb.current), wb.choices
    assert wb.order == wb.passes
    wb.move("FuseBiasInLinear", 0)
    assert wb.states[0].name == wb.order[0].name == "FuseBiasInLinear"
    assert [site.site for site in wb.states[0].sites if site.on] == ["q", "k", "v", "out"]
    assert wb.choices != choices
    assert [pass_.name for pass_ in wb.passes] == [kind.__name__ for kind in ALL_PASSES], "as given, whatever the order"
    wb.undo()
    assert (fingerprint(wb.current), wb.choices) == (merged_first, choices)
    wb.redo()
    wb.reverse_all()
    assert wb.is_restored
    assert wb.order[0].name == "FuseBiasInLinear"
    wb.move("FuseBiasInLinear", 0)
    assert not wb.can_redo
    with pytest.raises(FxoptError, match="cannot run as number 99"):
        wb.move("MergeLinears", 99)


def test_a_moved_pass_gives_the_graph_of_a_bench_built_in_that_order() -> None:
    wb = Workbench(ATTENTION.graph())
    for kind in ALL_PASSES:
        wb.turn_on(kind())
    draw = random.Random(3)
    for _ in range(8):
        wb.move(draw.choice(wb.passes), draw.randrange(len(wb.passes)))
        built = Workbench(ATTENTION.graph(), passes=wb.order)
        for pass_ in wb.order:
            built.turn_on(pass_)
        assert fingerprint(wb.current) == fingerprint(built.current)


def test_the_choices_of_one_bench_can_be_taken_over_by_another() -> None:
    first, second = Workbench(ATTENTION.graph()), Workbench(ATTENTION.graph())
    first.move("FuseBiasInLinear", 0)
    first.turn_on("FuseBiasInLinear", ["q", "out"])
    second.choose(first.choices)
    assert fingerprint(second.current) == fingerprint(first.current)
    second.undo()
    assert second.is_restored
    with pytest.raises(FxoptError, match="other passes"):
        second.choose(first.choices[:2])


def test_a_trial_is_the_graph_that_a_switch_would_give_and_changes_nothing() -> None:
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("FuseBiasInLinear")
    before = fingerprint(wb.current)
    trial = wb.trial(wb.with_("MergeLinears", on=True))
    assert fingerprint(wb.current) == before
    wb.turn_on("MergeLinears")
    trial.recompile()
    assert fingerprint(trial) == fingerprint(wb.current)
    trial = wb.trial(wb.with_("MergeLinears", "q", on=False))
    trial.recompile()
    assert fingerprint(trial) == before


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


def test_a_graph_that_is_held_runs_what_is_on_now() -> None:
    wb = Workbench(ATTENTION.graph())
    held = wb.current
    wb.turn_on("MergeLinears")
    torch.testing.assert_close(outputs(held, ATTENTION.inputs()), outputs(wb.pristine, ATTENTION.inputs()))
    assert "q_k_v_merged" in held.code
    wb.reverse_all()
    assert held.code == wb.pristine.code
    assert held is wb.current
