"""Weights that were trained, loaded or frozen after a pass are not thrown away."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    MergeLinears,
    RewriteError,
    fingerprint,
)
from tests.core.states import (
    ATTENTION,
    TRAVELS,
    every_travel,
    traced,
)


@every_travel
def test_training_in_between_is_not_thrown_away(travel: Any) -> None:
    gm = MergeLinears()(traced(ATTENTION))
    with torch.no_grad():
        gm.q_k_v_merged.weight.add_(1)
    with pytest.raises(
        RewriteError, match=r"q_k_v_merged.weight, made by MergeLinears, was given other values.*to_original\(gm\)"
    ):
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
