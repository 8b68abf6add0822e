"""The surface of ``optimum.fx.optimization``: names, call forms, marks, return values, compositions."""

import copy
import operator
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    FxoptWarning,
    MergeLinears,
    ReversibleTransformation,
    RewriteError,
    Transformation,
    compose,
    fingerprint,
)
from fxopt.core import shared_copy
from fxopt.graph.marks import LEDGER
from tests.examples import EXAMPLES, outputs

ATTENTION = EXAMPLES[0]


class MulToAdd(Transformation):
    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and node.target is operator.mul:
                node.target = operator.add
                self.mark_as_transformed(node)
        return graph_module


class DoubleMul(ReversibleTransformation):
    def __init__(self, factor: Any = 2) -> None:
        self.factor = factor

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in graph_module.graph.nodes:
            if node.target is operator.mul and not self.transformed(node):
                node.args = (node.args[0], node.args[1] * self.factor)
                self.mark_as_transformed(node)
        return graph_module

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        for node in self.get_transformed_nodes(graph_module):
            node.args = (node.args[0], node.args[1] / self.factor)
            self.mark_as_restored(node)
        return graph_module


def tripled() -> GraphModule:
    return torch.fx.symbolic_trace(lambda x: x * 3.0)


def test_a_users_transformation_changes_every_multiplication_to_an_addition() -> None:
    gm = torch.fx.symbolic_trace(lambda x: x * 3 * x)
    assert MulToAdd()(gm) is gm
    assert gm(torch.tensor(5.0)) == 13
    assert [node.name for node in MulToAdd().get_transformed_nodes(gm)] == ["mul", "mul_1"]
    assert MulToAdd.preserves_computation is False


def test_a_users_reversible_transformation_doubles_and_halves_back() -> None:
    gm = tripled()
    before = fingerprint(gm)
    assert DoubleMul()(gm)(torch.tensor(5.0)) == 30
    assert DoubleMul()(gm, reverse=True)(torch.tensor(5.0)) == 15
    assert fingerprint(gm) == before


def test_marking_as_restored_what_was_never_transformed_raises() -> None:
    node = next(iter(tripled().graph.nodes))
    with pytest.raises(ValueError, match="x was not transformed by this DoubleMul"):
        DoubleMul().mark_as_restored(node)


def test_without_lint_and_recompile_the_code_is_the_old_one() -> None:
    gm = ATTENTION.graph()
    code = gm.code
    ChangeTrueDivToMulByInverse()(gm, lint_and_recompile=False)
    assert gm.code == code
    gm.recompile()
    assert gm.code != code


def test_any_instance_of_equal_signature_reverses() -> None:
    gm = tripled()
    DoubleMul(4)(gm)
    DoubleMul(2)(gm, reverse=True)
    assert gm(torch.tensor(1.0)) == 12
    DoubleMul(4)(gm, reverse=True)
    assert gm(torch.tensor(1.0)) == 3


def test_signatures_tell_arguments_and_their_types_apart() -> None:
    values = [1, 1.0, True, "1", (1,), [1], {"a": 1}, {1}, None, torch.ones(2), torch.ones(3), torch.ones(2).int()]
    signatures = [DoubleMul(value).signature for value in values]
    assert len(set(signatures)) == len(values)
    assert signatures == [DoubleMul(value).signature for value in values]
    assert DoubleMul({"b": 2, "a": [1]}).signature == DoubleMul({"a": [1], "b": 2}).signature
    assert MulToAdd().signature != MergeLinears().signature


def test_asking_for_a_signature_changes_nothing() -> None:
    transformation = DoubleMul()
    transformation.signature
    assert vars(transformation) == {"factor": 2}


@pytest.mark.slow
def test_signatures_are_the_same_in_every_process() -> None:
    code = "import fxopt; print(fxopt.MergeLinears().signature, fxopt.compose(fxopt.MergeLinears()).signature)"
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert runs == {f"{MergeLinears().signature} {compose(MergeLinears()).signature}\n"}


def test_compose_runs_from_first_to_last_and_back_from_last_to_first() -> None:
    ran: list[str] = []

    class Note(DoubleMul):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            ran.append(f"{self.factor}")
            return super().transform(graph_module)

        def reverse(self, graph_module: GraphModule) -> GraphModule:
            ran.append(f"-{self.factor}")
            return super().reverse(graph_module)

    gm = tripled()
    both = compose(Note(2), Note(5))
    assert isinstance(both, ReversibleTransformation)
    assert both(gm)(torch.tensor(1.0)) == 30
    assert both(gm, reverse=True)(torch.tensor(1.0)) == 3
    assert ran == ["2", "5", "-5", "-2"]


def test_a_composition_is_reversible_only_if_every_part_is() -> None:
    assert not isinstance(compose(MulToAdd(), DoubleMul()), ReversibleTransformation)
    assert isinstance(compose(compose(DoubleMul()), MergeLinears()), ReversibleTransformation)
    assert compose(DoubleMul(), MergeLinears()).preserves_computation is False
    assert compose(MergeLinears(), FuseBiasInLinear()).preserves_computation is True


def test_a_composition_of_one_reverses() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    one = compose(MergeLinears())
    one(gm)
    assert fingerprint(gm) != before
    one(gm, reverse=True)  # type: ignore[call-arg]
    assert fingerprint(gm) == before


def test_a_composition_that_is_not_in_place_leaves_its_input_alone_forward_and_back() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    both = compose(ChangeTrueDivToMulByInverse(), MergeLinears(), inplace=False)
    assert isinstance(both, ReversibleTransformation)
    new = both(gm)
    assert new is not gm
    assert fingerprint(gm) == before
    changed = fingerprint(new)
    restored = both(new, reverse=True)
    assert fingerprint(new) == changed
    assert fingerprint(restored) == before
    assert restored.get_submodule("out") is gm.get_submodule("out"), "weights are shared, not copied"
    for a, b in zip(outputs(gm, ATTENTION.inputs()), outputs(new, ATTENTION.inputs()), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("inplace", [True, False])
def test_a_composition_runs_until_nothing_changes_and_reverses(inplace: bool) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.BatchNorm1d(4), nn.Identity(), nn.BatchNorm1d(4)).eval()
    gm = fxopt.capture(model, (torch.rand(2, 4),))
    before, old = fingerprint(gm), gm(torch.ones(2, 4))
    parts = compose(fxopt.FuseBatchNorm1dInLinear(), compose(fxopt.RemoveIdentities()))
    once, stable = parts(shared_copy(gm)), compose(parts, inplace=inplace, until_stable=True)
    assert len(once.graph.nodes) == 5, "both norms are still there"
    assert isinstance(stable, ReversibleTransformation)
    assert stable.signature not in (parts.signature, compose(parts).signature)
    new = stable(gm)
    assert (len(new.graph.nodes), new is gm) == (3, inplace)
    torch.testing.assert_close(new(torch.ones(2, 4)), old)
    assert stable(new).code == new.code
    for changed in (copy.deepcopy(new), new):  # no warning that one part rested on another
        assert fingerprint(stable(changed, reverse=True)) == before


def test_what_is_in_force_of_others_stays_when_a_stable_composition_is_reversed() -> None:
    gm, alone = ATTENTION.graph(), ATTENTION.graph()
    stable = compose(ChangeTrueDivToMulByInverse(), MulToAdd(), until_stable=True)
    stable(gm)
    for one in (gm, alone):
        MergeLinears()(one)
    stable(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(alone)


def test_a_composition_that_never_ends_is_refused_with_the_name_of_the_culprit() -> None:
    class Grow(Transformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            (mul,) = (node for node in graph_module.graph.nodes if node.op == "call_function")
            mul.args = (mul.args[0], mul.args[1] + 1)
            return graph_module

    gm = tripled()
    before = fingerprint(gm)
    with pytest.raises(RewriteError, match=r"not stable after 4 rounds: in the last one, Grow \(at call 4\) still"):
        compose(MergeLinears(), Grow(), until_stable=True, limit=4)(gm)
    assert fingerprint(gm) == before


def test_the_signature_of_a_composition_follows_from_its_parts() -> None:
    assert compose(MergeLinears(), DoubleMul(3)).signature == compose(MergeLinears(), DoubleMul(3)).signature
    assert compose(MergeLinears(), DoubleMul(3)).signature != compose(DoubleMul(3), MergeLinears()).signature


def test_compose_refuses_nothing_and_what_is_no_transformation() -> None:
    with pytest.raises(ValueError, match="at least one"):
        compose()
    with pytest.raises(TypeError, match="an instance, not the class"):
        compose(MergeLinears)  # type: ignore[arg-type]


@pytest.mark.parametrize(("limit", "error"), [(None, TypeError), (2.5, TypeError), (0, ValueError), (-1, ValueError)])
def test_compose_refuses_a_limit_that_is_no_number_of_rounds(limit: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"limit={limit} .* such as limit=10"):
        compose(MergeLinears(), until_stable=True, limit=limit)


def test_reversing_what_was_never_applied_says_so_and_does_nothing() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    with pytest.warns(FxoptWarning, match="MergeLinears has no site in force"):
        MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == before
    assert MergeLinears().undo(gm) == 0


def test_what_rests_on_a_reversed_pass_is_named_and_undone_too() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    MergeLinears()(gm)
    FuseBiasInLinear()(gm)
    with pytest.warns(FxoptWarning, match="FuseBiasInLinear at q_k_v_merged rested on MergeLinears"):
        MergeLinears()(gm, reverse=True)
    assert gm.get_submodule("out").in_features == 17, "the bias of what does not rest on it stays fused"
    FuseBiasInLinear()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_a_later_edit_by_hand_that_uses_a_new_node_rules_the_way_back_out() -> None:
    gm = ATTENTION.graph()
    MergeLinears()(gm)
    (merged,) = (node for node in gm.graph.nodes if node.name == "q_k_v_merged")
    (output,) = (node for node in gm.graph.nodes if node.op == "output")
    with gm.graph.inserting_before(output):
        added = gm.graph.call_function(torch.relu, (merged,))
    output.args = ((output.args[0], added),)
    gm.recompile()
    changed = fingerprint(gm)
    with pytest.raises(RewriteError, match="q_k_v_merged has to stay in the graph: relu came to use it"):
        MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == changed


def test_a_later_transformation_by_hand_elsewhere_does_not_stand_in_the_way() -> None:
    gm = ATTENTION.graph()
    MergeLinears()(gm)
    for node in gm.graph.nodes:
        if node.target is operator.add:
            node.target = operator.sub
    MergeLinears()(gm, reverse=True)
    assert "q_k_v_merged" not in dict(gm.named_children())
    assert gm(*ATTENTION.inputs()).shape == (2, 5, 16)


def test_a_lost_ledger_is_not_a_silent_no_op() -> None:
    gm = ATTENTION.graph()
    ChangeTrueDivToMulByInverse()(gm)
    del gm._modules[LEDGER]
    with pytest.raises(RewriteError, match="lost the way back"):
        ChangeTrueDivToMulByInverse()(gm, reverse=True)


def test_deleting_unused_submodules_leaves_the_way_back() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    MergeLinears()(gm)
    gm.delete_all_unused_submodules()
    assert LEDGER not in dict(gm.named_modules())
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_nothing_of_the_way_back_is_in_the_state_dict_or_among_the_parameters() -> None:
    gm = ATTENTION.graph()
    count = sum(p.numel() for p in gm.parameters())
    MergeLinears()(gm)
    assert sum(p.numel() for p in gm.parameters()) == count
    assert set(gm.state_dict()) == {"q_k_v_merged.weight", "q_k_v_merged.bias", "out.weight", "out.bias"}


def test_a_folded_model_still_trains_what_it_trained() -> None:
    gm = fxopt.capture(nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).eval(), (torch.rand(1, 1, 2, 2),))
    FuseBatchNorm2dInConv2d()(gm)
    gm(torch.rand(1, 1, 2, 2)).sum().backward()
    assert all(p.grad is not None for p in gm.parameters())


@pytest.mark.parametrize("thing", [nn.Linear(2, 2), None])
def test_a_model_that_is_no_graph_module_is_told_to_be_captured(thing: object) -> None:
    for call in (fxopt.MergeLinears().scan, fxopt.MergeLinears()):
        with pytest.raises(fxopt.FxoptError, match=r"takes a graph module.*fxopt\.capture"):
            call(thing)  # type: ignore[operator]
