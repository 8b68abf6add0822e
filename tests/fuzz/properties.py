"""The laws, as checks of one program: each raises `AssertionError` where a law does not hold."""

import contextlib
import copy
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fxopt import Pass, RewriteError, fingerprint
from fxopt.core import GraphIndex, Rewriter, shared_copy
from tests.fuzz.outputs import check_numbers
from tests.fuzz.programs import Built
from tests.fuzz.replay import assert_replays, assert_same, entries_of
from tests.fuzz.travel import check_travel
from tests.fuzz.walks import walk_in_place, walk_workbench


def check_pass(built: Built, pass_: Pass[Any], draw: random.Random) -> int:
    """The laws of one pass alone; gives the number of its sites."""
    gm = shared_copy(built.gm)
    start, code, owner = fingerprint(built.gm), built.gm.code, fingerprint(gm)
    assert owner == start
    found = [match.site for match in pass_.scan(gm).matches]
    assert fingerprint(gm) == start, "scan changed something"
    pass_.apply(GraphIndex(gm))
    done = [entry.site for entry in entries_of(gm)]
    rest = iter(done)
    assert all(site in rest for site in found), "apply does not do what scan says, in its order"
    check_numbers(built, gm)
    once = fingerprint(gm)
    pass_.apply(GraphIndex(gm))
    gm.recompile()
    assert fingerprint(gm) == once, "a second run found something to do"
    assert_replays(built.gm, gm)
    pass_.undo(gm)
    gm.recompile()
    assert_same(gm, built.gm, "reverse did not restore the graph")
    assert gm.code == code
    pass_.apply(GraphIndex(gm))
    gm.recompile()
    assert fingerprint(gm) == once, "applied again, it is another graph"
    if done:
        check_all_or_nothing(built, pass_, draw)
        check_travel(built, gm, [pass_])
    assert fingerprint(built.gm) == start, "the user's model was touched"
    return len(done)


class SabotageError(Exception):
    pass


@contextlib.contextmanager
def edits_fail(at: int, after: bool) -> Iterator[list[int]]:
    """Let the edit with the number `at` fail, before it is done or after."""
    original, made = Rewriter._do, [0]

    def do(self: Rewriter, edit: Any) -> None:
        made[0] += 1
        if made[0] - 1 != at or after:
            original(self, edit)
        if made[0] - 1 == at:
            raise SabotageError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rewriter, "_do", do)
        yield made


def check_all_or_nothing(built: Built, pass_: Pass[Any], draw: random.Random) -> None:
    gm = shared_copy(built.gm)
    start = fingerprint(gm)
    with edits_fail(-1, after=False) as made:
        pass_.apply(GraphIndex(gm))
    pass_.undo(gm)
    for at in draw.sample(range(made[0]), min(3, made[0])):
        with edits_fail(at, after=draw.random() < 0.5), pytest.raises(RewriteError, match="SabotageError"):
            pass_.apply(GraphIndex(gm))
        gm.recompile()
        assert fingerprint(gm) == start, f"a failure at edit {at} left the graph changed"


def check_program(built: Built, pass_: Pass[Any], others: Sequence[Pass[Any]], seed: int) -> Counter[str]:
    """All laws for one program and one pass, alone and in a walk with `others`; gives the number of acts."""
    draw = random.Random(seed)
    before = copy.copy(fingerprint(built.gm))
    done: Counter[str] = Counter(programs=1)
    done["sites"] += check_pass(built, pass_, draw)
    mixed = [pass_, *others]
    done["toggles"] += walk_workbench(built, mixed, draw, 4)
    done["toggles"] += walk_in_place(built, mixed, draw, 4)
    assert fingerprint(built.gm) == before, "the user's model was touched"
    return done
