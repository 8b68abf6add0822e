import torch
from torch import nn

from fxopt import Workbench
from fxopt.workbench.verdicts import Verdict, verdicts_of
from tests.examples import EXAMPLES

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


def of(wb: Workbench, name: str, pass_name: str) -> Verdict:
    found = [verdict for verdict in verdicts_of(wb, name) if verdict.state.name == pass_name]
    assert len(found) == 1
    return found[0]


def test_every_pass_answers_for_every_node_of_either_graph() -> None:
    for example in (ATTENTION, CONV):
        wb = Workbench(example.graph())
        for pass_ in wb.passes:
            wb.turn_on(pass_)
        names = {node.name for gm in (wb.pristine, wb.current) for node in gm.graph.nodes}
        for name in sorted(names):
            found = verdicts_of(wb, name)
            assert {verdict.state.name for verdict in found} == {pass_.name for pass_ in wb.passes}
            assert all(bool(verdict.reason) == (verdict.kind == "silent") for verdict in found)


def test_a_site_is_told_whether_it_is_on_and_from_every_node_it_is_about() -> None:
    wb = Workbench(CONV.graph())
    assert of(wb, "stem_bn", "FuseBatchNorm2dInConv2d").kind == "matched"
    wb.turn_on("FuseBatchNorm2dInConv2d")
    for name in ("stem", "stem_bn"):
        found = of(wb, name, "FuseBatchNorm2dInConv2d")
        assert (found.kind, found.site and found.site.site) == ("applied", "stem_bn")


def test_a_pass_without_a_target_here_says_what_it_looks_at_and_what_this_is() -> None:
    reason = of(Workbench(CONV.graph()), "relu", "MergeLinears").reason
    assert "looks only at calls of Linear" in reason
    assert "a call of torch.relu" in reason or "a call of ReLU" in reason


def test_inputs_and_outputs_are_no_calls() -> None:
    wb = Workbench(CONV.graph())
    assert "the output of the model" in of(wb, "output", "MergeLinears").reason
    placeholder = next(node.name for node in wb.pristine.graph.nodes if node.op == "placeholder")
    assert "an input of the model" in of(wb, placeholder, "MergeLinears").reason
    assert "no such node" in of(wb, "nowhere", "MergeLinears").reason


def test_a_node_that_comes_or_goes_with_another_pass_says_so() -> None:
    wb = Workbench(CONV.graph())
    wb.turn_on("FuseBatchNorm2dInConv2d")
    assert "FuseBatchNorm2dInConv2d removed it" in of(wb, "stem_bn", "FuseBiasInLinear").reason
    wb = Workbench(ATTENTION.graph())
    wb.turn_on("MergeLinears")
    assert "MergeLinears makes it" in of(wb, "q_k_v_merged", "FuseBatchNorm1dInLinear").reason


def test_a_near_miss_is_told_with_its_reason() -> None:
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.BatchNorm2d(2))
    model[1].train()
    wb = Workbench(model, (torch.rand(1, 2, 4, 4),))
    found = of(wb, "_1", "FuseBatchNorm2dInConv2d")
    assert found.kind == "miss"
    assert found.miss is not None
    assert "training" in found.miss.reason
