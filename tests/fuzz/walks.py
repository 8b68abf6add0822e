"""Random walks: passes, sites and transformations written by hand are switched on and off in any order."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from torch.fx import GraphModule

from fxopt import Pass, RewriteError, Transformation, Workbench, fingerprint
from fxopt.core import GraphIndex, shared_copy
from tests.fuzz.handwritten import HANDWRITTEN, FailsHalfway
from tests.fuzz.outputs import check_numbers
from tests.fuzz.programs import Built
from tests.fuzz.replay import assert_replays, assert_same, entries_of
from tests.fuzz.travel import check_travel, resting_is_no_fault, reverse_all


def walk_workbench(built: Built, passes: Sequence[Pass[Any]], draw: random.Random, length: int) -> int:
    """Switch passes and sites at random; the sites that are on decide the graph. Gives the number of switches."""
    bench = Workbench(built.gm, passes=passes)
    if draw.random() < 0.5:
        bench = Workbench(built.gm, passes=draw.sample(list(passes), len(passes)))
    for _ in range(length):
        pass_ = draw.choice(bench.passes)
        site = draw.choice([None, *(found.site for found in bench.state_of(pass_).sites)])
        act: Callable[..., None] = draw.choice([bench.turn_on, bench.turn_on, bench.turn_off])
        act(pass_, site)
        if draw.random() < 0.2:
            draw.choice([bench.undo, bench.redo])()
        assert [state.error for state in bench.states] == [""] * len(bench.passes)
        assert_replays(built.gm, bench.current)
    check_numbers(built, bench.current)
    bench.reverse_all()
    assert bench.is_restored
    return length


def walk_in_place(built: Built, passes: Sequence[Pass[Any]], draw: random.Random, length: int) -> int:
    """Switch passes and sites of one graph module in any order, and transformations written by hand among them.

    Gives the switches made.
    """
    gm = shared_copy(built.gm)
    by_hand: list[Transformation] = [kind() for kind in draw.sample(HANDWRITTEN, 2)]
    for _ in range(length):
        if draw.random() < 0.2:
            left_behind, before = gm, fingerprint(gm)
            gm = shared_copy(gm)
            assert fingerprint(gm) == before
            switch(gm, draw.choice(passes), draw)
            assert fingerprint(left_behind) == before, "a copy that shares weights is not independent"
        if draw.random() < 0.3:
            call_by_hand(gm, draw.choice(by_hand), draw)
        else:
            switch(gm, draw.choice(passes), draw)
        assert_replays(built.gm, gm)
    check_numbers(built, gm)
    everything = [*passes, *by_hand]
    check_travel(built, gm, draw.sample(everything, len(everything)))
    reverse_all(gm, draw.sample(everything, len(everything)))
    assert_same(gm, built.gm, "reverse did not restore the graph")
    return length


def call_by_hand(gm: GraphModule, transformation: Transformation, draw: random.Random) -> None:
    """Call a transformation, or reverse its last call; or call one that fails, which must leave no trace."""
    act = draw.choice(["call", "call", "reverse", "fail"])
    if act == "call":
        assert transformation(gm) is gm
    elif act == "fail":
        before = fingerprint(gm)
        with pytest.raises(ZeroDivisionError, match="on purpose"):
            FailsHalfway()(gm)
        assert fingerprint(gm) == before
    elif any(entry.signature == transformation.signature for entry in entries_of(gm)):
        with resting_is_no_fault():
            transformation(gm, reverse=True)


def switch(gm: GraphModule, pass_: Pass[Any], draw: random.Random) -> None:
    """One pass or one site of it, on or off; an act that fails must leave everything as it was."""
    matches, on = [match.site for match in pass_.scan(gm).matches], pass_.sites_on(gm)
    entries, before = entries_of(gm), fingerprint(gm)
    act = draw.choice(["site on", "site on", "site off", "all on", "all off"])
    if act == "site on" and matches:
        try:
            pass_.turn_on(gm, draw.choice(matches))
        except RewriteError:  # it came to match only after passes that ran later
            gm.recompile()
            assert fingerprint(gm) == before
            assert on
    elif act == "site off" and on:
        site = draw.choice(on)
        resting = [entry.id for entry in pass_.resting_on(gm, site)]
        assert fingerprint(gm) == before, "to ask what rests on a site changed something"
        assert [entry.id for entry in pass_.turn_off(gm, site)] == resting, "what rested on it was told wrongly"
    elif act == "all on" and not (entries and entries[-1].signature == pass_.signature):
        pass_.apply(GraphIndex(gm))
    elif act == "all off":
        with resting_is_no_fault():
            pass_.undo(gm)
    gm.recompile()
