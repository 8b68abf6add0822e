"""Answers that are the same for all visitors are made once, and those who open a model at once take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from torch import nn

from fxopt.edits import ReplaceModule
from fxopt.models import ZOO
from fxopt.ui.acts import edit, move, turn
from fxopt.ui.once import Once
from fxopt.ui.open_model import captured
from fxopt.ui.own_models import OwnModel
from fxopt.ui.session import Session
from fxopt.ui.turns import Turns
from fxopt.view import GraphView
from tests.ui.visitor import FOLD


def test_of_many_who_ask_at_once_one_makes_the_answer() -> None:
    once, made, all_here = Once(most=4), list[int](), threading.Barrier(6)

    def make() -> object:
        made.append(threading.get_ident())
        return object()

    def ask(_: int) -> object:
        all_here.wait()
        return once.answer("view", make)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(ask, range(6)))
    assert len(made) == 1
    assert all(answer is answers[0] for answer in answers)


def test_who_waits_for_one_that_fails_makes_the_answer_himself() -> None:
    once, begun, fail = Once(most=4), threading.Event(), threading.Event()

    def fails() -> int:
        begun.set()
        fail.wait()
        raise InterruptedError

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(once.answer, "view", fails)
        begun.wait()
        second = pool.submit(once.answer, "view", lambda: 2)
        fail.set()
        assert second.result() == 2
        with pytest.raises(InterruptedError):
            first.result()


def test_what_was_asked_for_least_lately_is_let_go_of() -> None:
    once = Once(most=2)
    for asked in "abac":
        once.answer(asked, lambda asked=asked: asked)  # type: ignore[misc]
    assert once.answer("a", lambda: "new") == "a"
    assert once.answer("b", lambda: "new") == "new"


@pytest.fixture
def two() -> tuple[Session, Session]:
    captured.clear()  # a capture of an earlier test may outlive its model
    opened = captured(ZOO[0].key, "", 2, None, ZOO[0])
    return Session(opened), Session(opened)


def test_visitors_with_the_same_choices_see_one_view_and_it_is_that_of_their_own_graphs(
    two: tuple[Session, Session],
) -> None:
    assert two[0].view_of("Now") is two[1].view_of("Original")
    for one in two:
        turn(one, FOLD, None, on=True)
        turn(one, "FuseBiasInLinear", None, on=True)
    assert two[0].view_of("Now") is two[1].view_of("Now")
    for one in two:
        assert one.view_of("Now").digest == GraphView.of(one.workbench.current).digest
    turn(two[0], "FuseBiasInLinear", None, on=False)
    assert two[0].view_of("Now").digest != two[1].view_of("Now").digest
    move(two[0], FOLD, 1)
    assert two[0].view_of("Now").digest == GraphView.of(two[0].workbench.current).digest


def test_work_in_a_thread_is_done_once_for_visitors_with_the_same_choices_but_for_a_model_that_may_be_trained(
    two: tuple[Session, Session],
) -> None:
    for one in two:
        turn(one, FOLD, None, on=True)
    first, second = (one.memo.sharing("numerics") for one in two)
    turn(two[0], FOLD, None, on=False)
    other = two[0].memo.sharing("numerics")
    assert (first(lambda: 1), second(lambda: 2), other(lambda: 3)) == (1, 1, 3)
    edit(two[1], "stem_relu", lambda: [ReplaceModule("stem_relu", "Tanh")])
    edited = two[1].memo.sharing("numerics")
    assert (edited(lambda: 4), edited(lambda: 5)) == (4, 5)
    trained = Session(replace(two[0].opened, source=OwnModel.of("mine", nn.ReLU(), [torch.ones(1)]))).memo.sharing(
        "numerics"
    )
    assert (trained(lambda: 6), trained(lambda: 7)) == (6, 7)


def test_who_waits_in_line_for_a_measurement_of_the_same_graphs_gets_it_and_who_asks_later_has_another(
    two: tuple[Session, Session],
) -> None:
    def measuring(one: Session) -> Callable[[Callable[[], int]], int]:
        return one.memo.measuring("latency", lambda answer: answer > 0)

    for one in two:
        turn(one, FOLD, None, on=True)
    first, waiting, third = measuring(two[0]), measuring(two[1]), measuring(two[1])
    turn(two[0], FOLD, None, on=False)
    other = measuring(two[0])
    assert first(lambda: -1) == -1, "a measurement that was cancelled is nobody else's"
    assert (waiting(lambda: 2), third(lambda: 3), other(lambda: 4)) == (2, 2, 4)
    assert measuring(two[1])(lambda: 5) == 5
    edit(two[1], "stem_relu", lambda: [ReplaceModule("stem_relu", "Tanh")])
    own, again = measuring(two[1]), measuring(two[1])
    assert (own(lambda: 6), again(lambda: 7)) == (6, 7)


def test_at_other_sizes_a_visitor_has_the_same_computed_weights(two: tuple[Session, Session]) -> None:
    other = Session(captured(ZOO[0].key, "", 3, None, ZOO[0]))
    for one in (two[0], other):
        turn(one, FOLD, None, on=True)
    weights = [{id(weight) for weight in one.workbench.current.parameters()} for one in (two[0], other)]
    assert weights[0] == weights[1]
    assert weights[0] - {id(weight) for weight in other.opened.model.parameters()}, "some were computed"


def test_an_edit_by_hand_is_seen_by_the_one_who_made_it(two: tuple[Session, Session]) -> None:
    first, second = two
    edit(first, "stem_relu", lambda: [ReplaceModule("stem_relu", "Tanh")])
    assert first.outcome_of_edit is not None
    assert first.outcome_of_edit.refusal is None, first.outcome_of_edit.refusal
    turn(second, FOLD, None, on=True)
    turn(first, FOLD, None, on=True)
    assert first.view_of("Now") is not second.view_of("Now")
    for one in two:
        assert one.view_of("Now").digest == GraphView.of(one.workbench.current).digest


def test_so_many_have_their_turn_at_once_and_who_steps_aside_lets_others() -> None:
    turns, inside, most, lock = Turns(at_once=2), 0, 0, threading.Lock()
    aside = threading.Barrier(5)

    def visit(_: int) -> None:
        nonlocal inside, most
        with turns.turn(), turns.turn():
            with lock:
                inside += 1
                most = max(most, inside)
            with lock:
                inside -= 1
            with turns.aside():
                aside.wait(20)  # all five at once, which two could never be

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(visit, range(5)))
    assert most <= 2
    assert isinstance(turns.aside(), nullcontext), "whose turn is over has none to step aside from"
