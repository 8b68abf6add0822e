"""The rows of the charts, without a browser."""

from __future__ import annotations

import copy
import math

import torch

from fxopt.evidence import Costs
from fxopt.evidence.blocks import Block
from fxopt.evidence.depth import error_by_depth
from fxopt.ui.charts import KINDS, depth_frame
from fxopt.ui.cost_tab import _told
from tests.evidence.test_divergence import X, steps


def test_a_node_that_became_nan_stands_above_all_others_in_a_kind_of_its_own() -> None:
    gm = steps()
    new = copy.deepcopy(gm)
    with torch.no_grad():
        new.get_parameter("first.bias").add_(0.001)
        new.get_parameter("second.bias").fill_(math.nan)
    frame = depth_frame(error_by_depth(gm, new, (X,), rewritten={"second"})).set_index("node")
    assert frame["value"]["second"] == "NaN or infinite"
    others = frame[frame["value"] != "NaN or infinite"]
    assert frame["error"]["second"] > others["error"].max() > 0
    assert frame["error"]["second"] < math.inf, "an axis has to end"
    assert set(frame["value"]) <= set(KINDS)


def test_a_cost_that_no_single_node_has_much_of_is_told_without_an_empty_list() -> None:
    costs = Costs("FLOP", {"a_1": frozenset({("a_1", 2000)})})
    assert _told(costs, costs, ()) == f"{costs.told(2000)}. Click a part to select it in the graph."
    block = Block("a_1", "linear", True, 1, 0.0, 1.0, 2000)
    assert "The most: a_1 100%." in _told(costs, costs, (block,)), "plain text, for the alternative of the chart too"
