"""States from which a pass does not reverse in silence."""

import pickle
import warnings
from typing import Any

import pytest
import torch

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FxoptWarning,
    MergeLinears,
    RewriteError,
    compose,
    fingerprint,
)
from fxopt.graph.marks import LEDGER
from tests.core.states import ATTENTION, Scale, Silent, traced


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
