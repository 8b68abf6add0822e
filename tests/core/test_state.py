"""The way back survives copies, files, moves of the whole graph module and other passes, or says that it does not."""

import copy
import functools
import gc
import io
import pickle
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ALL_PASSES,
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    FxoptWarning,
    MergeLinears,
    RewriteError,
    Transformation,
    compose,
    fingerprint,
)
from fxopt.core import GraphIndex, Ledger, Rewriter, shared_copy
from fxopt.core.rewriter import Run
from fxopt.graph.marks import LEDGER
from fxopt.recording.patch import undo
from tests.examples import EXAMPLES, Example
from tests.quick import third

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


class Scale(Transformation):
    """By hand: another module, another node, another buffer, and an attribute set on a module of the model."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        graph = graph_module.graph
        output = next(node for node in graph.nodes if node.op == "output")
        first = next(node for node in graph.nodes if node.op == "call_module")
        graph_module.get_submodule(str(first.target)).extra = "set by hand"  # type: ignore[assignment]
        graph_module.register_buffer("factor", torch.full((1,), 1.5))
        graph_module.add_submodule("head", nn.Identity())
        with graph.inserting_before(output):
            factor = graph.get_attr("factor")
            scaled = graph.call_function(torch.mul, (output.args[0], factor))
            output.args = (graph.call_module("head", (scaled,)),)
        self.mark_as_transformed(scaled)
        return graph_module


class Silent(Scale):
    def mark_as_transformed(self, node: Any) -> None:
        """Leaves no mark."""


class WiderLast(Transformation):
    """By hand: the last linear gets a new weight, assigned into the module."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        linear = [m for m in graph_module.modules() if isinstance(m, nn.Linear)][-1]
        linear.weight = nn.Parameter(linear.weight.detach() * 2)
        return graph_module


def save_and_load(gm: GraphModule) -> GraphModule:
    file = io.BytesIO()
    torch.save(gm, file)
    file.seek(0)
    loaded: GraphModule = torch.load(file, weights_only=False)
    return loaded


TRAVELS: dict[str, Callable[[GraphModule], GraphModule]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda gm: pickle.loads(pickle.dumps(gm)),
    "torch.save": save_and_load,
    "shared copy": shared_copy,
    "deepcopy of a copy": lambda gm: copy.deepcopy(copy.deepcopy(gm)),
    "pickle of a copy": lambda gm: pickle.loads(pickle.dumps(copy.deepcopy(gm))),
    "pickle of a pickle": lambda gm: pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(gm)))),
    "copy of a pickle": lambda gm: copy.deepcopy(pickle.loads(pickle.dumps(gm))),
    "inside another model": lambda gm: copy.deepcopy(nn.Sequential(gm))[0],
}
every_travel = pytest.mark.parametrize("travel", third(TRAVELS.values()), ids=TRAVELS)

MOVES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "half": lambda m: m.half(),
    "double": lambda m: m.double(),
    "bfloat16": lambda m: m.to(torch.bfloat16),
    "half and float": lambda m: m.half().float(),
    "meta": lambda m: m.to("meta"),
    "train": lambda m: m.train(),
    "train and eval": lambda m: m.train().eval(),
    "half, train, double": lambda m: m.half().train().double(),
}
every_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)

WHOLES: dict[str, tuple[Example, Transformation]] = {
    "merge": (ATTENTION, MergeLinears()),
    "merge and fuse": (ATTENTION, compose(ChangeTrueDivToMulByInverse(), MergeLinears(), FuseBiasInLinear())),
    "fold": (CONV, FuseBatchNorm2dInConv2d()),
    "by hand": (ATTENTION, Scale()),
    "assigned by hand": (ATTENTION, WiderLast()),
    "all of them": (ATTENTION, compose(MergeLinears(), Scale(), FuseBiasInLinear(), WiderLast())),
}
every_whole = pytest.mark.parametrize(("example", "whole"), WHOLES.values(), ids=WHOLES)


def traced(example: Example) -> GraphModule:
    """Of the model's own code, which pickling traces again."""
    return torch.fx.symbolic_trace(example.model())


@every_whole
@every_travel
def test_the_way_back_travels(travel: Any, example: Example, whole: Transformation) -> None:
    gm = traced(example)
    pristine = travel(gm)
    before = fingerprint(pristine)
    whole(gm)
    changed = fingerprint(gm)
    gone = travel(gm)
    whole(gone, reverse=True)
    gone.recompile()
    assert [node.name for node in gone.graph.nodes] == [node.name for node in pristine.graph.nodes]
    assert gone.code == pristine.code
    assert list(gone.state_dict()) == list(pristine.state_dict())
    for a, b in zip(gone.state_dict().values(), pristine.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert fingerprint(gm) == changed, "the one that stayed is as it was"
    whole(gm, reverse=True)
    if travel is copy.deepcopy or travel is shared_copy:
        assert fingerprint(gone) == before


@every_whole
@every_move
def test_the_reverse_leads_to_what_a_move_of_the_pristine_graph_would_be(
    move: Any, example: Example, whole: Transformation
) -> None:
    gm, pristine = example.graph(), example.graph()
    before = copy.deepcopy(pristine)
    whole(gm)
    move(gm)
    move(pristine)
    whole(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(pristine)
    move(gm)
    whole(gm)
    assert fingerprint(gm) != fingerprint(before)


@every_whole
@pytest.mark.parametrize("travel", [copy.deepcopy, TRAVELS["pickle"]], ids=["deepcopy", "pickle"])
def test_a_move_after_a_travel_is_followed_too(travel: Any, example: Example, whole: Transformation) -> None:
    gm, pristine = travel(whole(traced(example))).half(), travel(traced(example)).half()
    gm, pristine = travel(gm), travel(pristine)
    whole(gm, reverse=True)
    gm.recompile()
    assert gm.code == pristine.code
    for (name, a), (other, b) in zip(gm.state_dict().items(), pristine.state_dict().items(), strict=True):
        assert name == other
        assert a.dtype == b.dtype == torch.float16 or not a.is_floating_point()
        assert torch.equal(a, b)


@functools.cache
def with_model(example: Example) -> tuple[nn.Module, GraphModule]:
    model = example.model()
    return model, fxopt.capture(model, example.inputs())


@every_whole
@every_move
def test_a_move_does_not_reach_what_only_the_users_model_has(
    move: Any, example: Example, whole: Transformation
) -> None:
    model, gm = copy.deepcopy(with_model(example))  # together, so that they share weights as before
    whole(gm)
    mine = {name: module for name, module in model.named_modules() if module not in set(gm.modules())}
    held = {id(t) for t in [*gm.parameters(), *gm.buffers()]}
    before = {
        name: [(t.dtype, t.device, t._version) for t in module.parameters(recurse=False) if id(t) not in held]
        for name, module in mine.items()
    }
    training = {name: module.training for name, module in mine.items()}
    move(gm)
    assert {name: module.training for name, module in mine.items()} == training
    assert before == {
        name: [(t.dtype, t.device, t._version) for t in module.parameters(recurse=False) if id(t) not in held]
        for name, module in mine.items()
    }


def test_what_is_tied_stays_tied_when_it_is_moved() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.b(self.a(x))

    class Replace(Transformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            graph_module.a, graph_module.b = nn.Identity(), nn.Identity()
            return graph_module

    gm = torch.fx.symbolic_trace(Tied())
    Replace()(gm)
    gm.half()
    Replace()(gm, reverse=True)
    assert gm.a.weight is gm.b.weight
    assert gm.a.weight.dtype == torch.float16


@every_travel
def test_training_in_between_is_not_thrown_away(travel: Any) -> None:
    gm = MergeLinears()(traced(ATTENTION))
    with torch.no_grad():
        gm.q_k_v_merged.weight.add_(1)
    with pytest.raises(RewriteError, match=r"q_k_v_merged.weight, made by MergeLinears, was given other values"):
        MergeLinears()(travel(gm), reverse=True)


@pytest.mark.parametrize("travel", [TRAVELS["pickle"], copy.deepcopy], ids=["pickle", "deepcopy"])
def test_training_after_a_travel_is_not_thrown_away(travel: Any) -> None:
    gm = travel(MergeLinears()(traced(ATTENTION)))
    with torch.no_grad():
        gm.q_k_v_merged.weight.add_(1)
    with pytest.raises(RewriteError, match=r"q_k_v_merged.weight, made by MergeLinears, was given other values"):
        MergeLinears()(gm, reverse=True)


@pytest.mark.parametrize("first", [True, False], ids=["trained and moved", "moved and trained"])
def test_training_before_or_after_a_move_is_not_thrown_away(first: bool) -> None:
    gm = MergeLinears()(ATTENTION.graph())
    gm = gm if first else gm.double()
    with torch.no_grad():
        gm.q_k_v_merged.weight.add_(1)
    gm = gm.double() if first else gm
    with pytest.raises(RewriteError, match=r"q_k_v_merged.weight, made by MergeLinears, was given other values"):
        MergeLinears()(gm, reverse=True)


LOADS: dict[str, Callable[[GraphModule], object]] = {
    "its own": lambda gm: gm.load_state_dict(gm.state_dict()),
    "a copy": lambda gm: gm.load_state_dict(copy.deepcopy(gm.state_dict())),
    "assigned": lambda gm: gm.load_state_dict(copy.deepcopy(gm.state_dict()), assign=True),
}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("travel", [lambda gm: gm, copy.deepcopy], ids=["as it is", "deepcopy"])
def test_a_graph_that_loaded_its_own_unchanged_weights_reverses(load: str, travel: Any) -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    MergeLinears()(gm)
    ChangeTrueDivToMulByInverse()(gm)
    LOADS[load](gm)
    gm = travel(gm)
    MergeLinears()(gm, reverse=True)
    ChangeTrueDivToMulByInverse()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_weights_that_are_trained_after_a_load_of_the_same_are_not_thrown_away() -> None:
    gm = MergeLinears()(ATTENTION.graph())
    gm.load_state_dict(gm.state_dict())
    MergeLinears().turn_on(gm, MergeLinears().sites_on(gm)[0])
    with torch.no_grad():
        gm.q_k_v_merged.weight[0, 0] = -gm.q_k_v_merged.weight[0, 0]
    with pytest.raises(RewriteError, match="was given other values"):
        MergeLinears()(gm, reverse=True)


def test_a_load_into_memory_that_what_is_kept_shares_is_not_taken_for_the_same() -> None:
    gm = MergeLinears(keep="view")(ATTENTION.graph())
    with torch.no_grad():
        gm.q_k_v_merged.weight.add_(1)
    with pytest.raises(RewriteError, match="was given other values"):
        MergeLinears(keep="view")(gm, reverse=True)


def test_a_load_of_other_weights_is_not_thrown_away() -> None:
    gm = MergeLinears()(ATTENTION.graph())
    gm.load_state_dict({name: torch.zeros_like(tensor) for name, tensor in gm.state_dict().items()})
    with pytest.raises(RewriteError, match="was given other values"):
        MergeLinears()(gm, reverse=True)


def test_freezing_what_a_pass_made_is_not_thrown_away() -> None:
    gm = MergeLinears()(ATTENTION.graph())
    gm.requires_grad_(False)
    with pytest.raises(RewriteError, match="had requires_grad set to False"):
        MergeLinears()(gm, reverse=True)
    gm.requires_grad_(True)
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(ATTENTION.graph())


def test_a_move_of_a_part_is_refused_and_moving_it_back_helps() -> None:
    gm = MergeLinears()(ATTENTION.graph())
    gm.q_k_v_merged.double()
    with pytest.raises(RewriteError, match=r"was moved from torch.float32 on cpu to torch.float64 on cpu"):
        MergeLinears()(gm, reverse=True)
    gm.q_k_v_merged.float()
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(ATTENTION.graph())


def test_dead_code_elimination_in_between_keeps_names_and_weights_together() -> None:
    gm = traced(ATTENTION)
    MergeLinears()(gm)
    ChangeTrueDivToMulByInverse()(gm)
    gm.graph.eliminate_dead_code()
    MergeLinears()(gm, reverse=True)
    ChangeTrueDivToMulByInverse()(gm, reverse=True)
    pristine = traced(ATTENTION)
    pristine.graph.eliminate_dead_code()
    pristine.recompile()
    assert fingerprint(gm) == fingerprint(pristine)


def test_a_ledger_that_was_taken_away_is_said_to_be_lost() -> None:
    gm = Scale()(ATTENTION.graph())
    del gm._modules[LEDGER]
    with pytest.raises(RewriteError, match="mul was made by Scale, but this graph module has lost the way back"):
        Scale()(gm, reverse=True)


@pytest.mark.parametrize("kind", [MergeLinears, Scale])
def test_a_retraced_graph_does_not_reverse_in_silence(kind: Any) -> None:
    gm = kind()(traced(ATTENTION))
    again = torch.fx.symbolic_trace(gm)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((RewriteError, FxoptWarning), match=r"lost the way back|nothing was reversed"):
            kind()(again, reverse=True)


def test_loading_only_the_state_dict_does_not_reverse_in_silence() -> None:
    gm = MergeLinears()(traced(ATTENTION))
    other = traced(ATTENTION)
    with pytest.raises(RuntimeError, match="q_k_v_merged"):
        other.load_state_dict(gm.state_dict())
    with pytest.warns(FxoptWarning, match="nothing was reversed"):
        MergeLinears()(other, reverse=True)


def test_a_transformation_that_cannot_be_pickled_still_reverses_but_does_not_run_again() -> None:
    class Local(Silent):
        pass

    gm = traced(ATTENTION)
    pristine = pickle.loads(pickle.dumps(gm))
    compose(ChangeTrueDivToMulByInverse(), Local())(gm)
    one, two = pickle.loads(pickle.dumps(gm)), pickle.loads(pickle.dumps(gm))

    Local()(one, reverse=True)
    ChangeTrueDivToMulByInverse()(one, reverse=True)
    assert one.code == pristine.code

    with pytest.warns(FxoptWarning, match="Local at call 1 rested on ChangeTrueDivToMulByInverse"):
        ChangeTrueDivToMulByInverse()(two, reverse=True)
    assert two.code == pristine.code


# ---- commit


@every_whole
def test_commit_drops_the_way_back_and_frees_what_it_held(example: Example, whole: Transformation) -> None:
    gm = example.graph()
    assert fxopt.bytes_retained(gm) == 0
    whole(gm)
    kept = fxopt.bytes_retained(gm)
    changed = fingerprint(gm)
    assert fxopt.commit(gm) == kept
    assert fxopt.bytes_retained(gm) == 0
    assert fxopt.commit(gm) == 0
    assert Ledger.entries_of(gm) == ()
    assert fingerprint(gm) == changed
    gm.graph.lint()


def test_after_a_commit_reversing_is_an_error_and_a_second_run_finds_nothing() -> None:
    gm = MergeLinears()(ATTENTION.graph())
    fxopt.commit(gm)
    with pytest.raises(RewriteError, match=r"has lost the way back: it was traced again, built .* or committed"):
        MergeLinears()(gm, reverse=True)
    changed = fingerprint(gm)
    MergeLinears()(gm)
    assert fingerprint(gm) == changed


def test_bytes_kept_are_the_replaced_weights_once_each() -> None:
    gm = ATTENTION.graph()
    size = sum(t.numel() * t.element_size() for name, t in gm.state_dict().items() if name[:2] in ("q.", "k.", "v."))
    MergeLinears()(gm)
    assert fxopt.bytes_retained(gm) == size
    assert fxopt.bytes_retained(shared_copy(gm)) == size
    MergeLinears()(gm, reverse=True)
    merged = fxopt.bytes_retained(gm)
    assert merged in (0, size), "at most the merged weights, for when it is switched on again"
    fxopt.commit(gm)
    assert fxopt.bytes_retained(gm) == 0


def test_commit_lets_go_of_the_tensors_themselves() -> None:
    gm = ATTENTION.graph()
    MergeLinears()(gm)
    held = [weakref.ref(module) for entry in Ledger.entries_of(gm) for module in entry.patch.kept]
    assert len(held) == 3
    fxopt.commit(gm)
    gc.collect()
    assert [module() for module in held] == [None] * 3


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not e.exported], ids=lambda e: e.name)
def test_all_passes_and_a_hand_together_travel_move_and_reverse(example: Example) -> None:
    gm, pristine = example.graph(), example.graph()
    parts = [*(kind() for kind in ALL_PASSES)]
    if any(node.op == "call_module" for node in gm.graph.nodes) and not isinstance(gm(*example.inputs()), dict):
        parts.insert(2, Silent())  # type: ignore[arg-type]
    whole = compose(*parts)
    whole(gm)
    gm = copy.deepcopy(gm).double()
    gm = copy.deepcopy(gm)
    whole(gm, reverse=True)
    assert fingerprint(gm) == fingerprint(pristine.double())


def test_a_hook_on_a_copy_with_other_tensors_does_not_reach_the_users_module() -> None:
    linear = nn.Linear(2, 2)
    fxopt.with_tensors(linear, bias=None).register_forward_hook(lambda *_: None)
    assert not linear._forward_hooks
    assert linear.bias is not None


def test_the_reversal_of_a_parameter_in_place_of_a_buffer_leaves_the_buffer_out_of_the_state_dict() -> None:
    root, graph = nn.Module(), torch.fx.Graph()
    root.register_buffer("scale", torch.ones(2), persistent=False)
    graph.output(graph.get_attr("scale"))
    gm = GraphModule(root, graph)
    gm._non_persistent_buffers_set.add("scale")
    index = GraphIndex(gm)
    rewriter = Rewriter(index, gm.graph.output_node(), "Learned", "signature", Run())
    rewriter.set_tensor("scale", nn.Parameter(torch.zeros(2)))
    assert list(gm.state_dict()) == ["scale"]
    undo(index, [rewriter.patch()])
    assert list(gm.state_dict()) == []
    assert torch.equal(gm.scale, torch.ones(2))
