"""A commit drops the way back, and frees the memory that it held."""

import copy
import gc
import weakref

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ALL_PASSES,
    MergeLinears,
    RewriteError,
    Transformation,
    compose,
    fingerprint,
)
from fxopt.core import GraphIndex, Ledger, Rewriter, shared_copy
from fxopt.core.rewriter import Run
from fxopt.recording.patch import undo
from tests.core.states import (
    ATTENTION,
    Silent,
    every_whole,
)
from tests.examples import EXAMPLES, Example


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
