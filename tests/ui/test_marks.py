"""The marks in the graph, as a function of the workbench."""

from __future__ import annotations

from fxopt.core import Exactness, Unmet
from fxopt.passes import FuseBatchNorm2dInConv2d, MergeLinears
from fxopt.ui.marks import legend_of, marks_of
from fxopt.view import Mark
from fxopt.workbench import MissState, PassState, SiteState

OFF = SiteState("0@norm", "norm", ("norm", "conv"), "it folds", Exactness.ROUNDING)
ON = SiteState("0@norm", "norm", ("norm", "conv"), "it folds", Exactness.ROUNDING, True, ("new",), ("conv",), ("norm",))
MISS = MissState("lonely", Unmet("no convolution before it"))


def state(site: SiteState) -> PassState:
    return PassState(FuseBatchNorm2dInConv2d(), site.on, (site,), (MISS,), 0.0)


def test_only_the_pass_that_is_looked_at_shows_its_matches_and_misses() -> None:
    other = PassState(MergeLinears(), False, (OFF,), (MISS,), 0.0)
    marks = marks_of([other, state(OFF)], "FuseBatchNorm2dInConv2d")
    assert marks == {name: (Mark("matched", 1, "norm"),) for name in ("norm", "conv")} | {
        "lonely": (Mark("miss", 1, "lonely"),)
    }
    assert marks_of([other, state(OFF)]) == {}


def test_a_pass_that_is_on_shows_what_it_made_and_changed_whatever_is_looked_at() -> None:
    marks = marks_of([state(ON)])
    assert marks["new"] == (Mark("applied", site="norm"), Mark("created", site="norm"))
    assert marks["conv"] == (Mark("applied", site="norm"), Mark("changed", site="norm"))
    assert "norm" not in marks


def test_the_original_graph_shows_what_is_removed() -> None:
    marks = marks_of([state(ON)], original=True)
    assert marks["norm"] == (Mark("removed", site="norm"),)
    assert "new" not in marks


def test_nodes_that_a_match_reads_alone_are_not_marked() -> None:
    site = SiteState("0@norm", "norm", ("norm", "conv"), "it folds", Exactness.ROUNDING, rewritten=("norm",))
    assert set(marks_of([state(site)], "FuseBatchNorm2dInConv2d")) == {"norm", "lonely"}


def test_the_legend_counts_sites_and_nodes_in_sites() -> None:
    assert legend_of([state(OFF)]) == ()
    assert legend_of([state(OFF)], "FuseBatchNorm2dInConv2d") == (
        ("matched", 0, "would apply at 1 site"),
        ("miss", 0, "1 near miss"),
    )
    assert legend_of([state(ON), state(OFF)]) == (("applied", 0, "3 nodes in 1 site"),)
