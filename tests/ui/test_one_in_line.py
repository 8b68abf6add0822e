"""One measurement at a time, in the order in which they were asked for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import cast

import pytest
from torch import nn
from torch.fx import symbolic_trace

from fxopt.errors import CancelledError
from fxopt.evidence import RunStoppedError
from fxopt.ui.job import Job, Progress
from fxopt.ui.memo import Memo
from fxopt.ui.one_in_line import Line
from fxopt.ui.open_model import OpenModel
from fxopt.ui.waiting import in_line
from fxopt.workbench import Workbench


def held(line: Line) -> tuple[Job[str], Callable[[], None]]:
    """A job that has its turn, and a function that ends it."""
    going, ended = threading.Event(), threading.Event()

    def work(progress: Progress) -> str:
        going.set()
        assert ended.wait(30)
        return "first"

    job = Job(work, line=line)
    assert going.wait(30)
    return job, ended.set


def joined(line: Line, at: int, told: list[int]) -> Job[int]:
    """A job that waits at this place of the line, and tells its place when it is done."""

    def work(progress: Progress) -> int:
        told.append(at)
        return at

    job = Job(work, line=line)
    while job.before < at:
        assert not job.wait(0.01)
    return job


def test_a_line_may_serve_a_few_at_once() -> None:
    line, told = Line(at_once=2), list[int]()
    (first, end), (second, end_second) = held(line), held(line)
    third = joined(line, 1, told)
    assert (first.before, second.before, third.before) == (0, 0, 1)
    end_second()
    assert third.wait(30)
    assert told == [1]
    assert first.running
    end()
    assert first.wait(30)


def test_jobs_are_done_one_by_one_in_the_order_in_which_they_came_and_know_their_place() -> None:
    line, told = Line(), list[int]()
    first, end = held(line)
    others = [joined(line, at, told) for at in (1, 2, 3)]
    assert (in_line(first), in_line(others[0])) == ("", ", after 1 other measurement")
    assert in_line(others[2]) == ", after 3 other measurements"
    others[1].cancel()
    assert others[1].wait(30)
    assert isinstance(others[1].failure, CancelledError)
    assert others[2].before == 2
    assert told == []
    end()
    assert others[2].wait(30)
    assert told == [1, 3]
    assert first.result == "first"


def test_a_job_that_fails_gives_its_turn_to_the_next() -> None:
    def fail(progress: Progress) -> None:
        raise ValueError("no")

    line = Line()
    assert Job(fail, line=line).wait(30)
    assert Job(lambda progress: 1, line=line).wait(30)
    with pytest.raises(CancelledError), line.turn("a", lambda: True), line.turn("b", lambda: False):
        pass
    assert line.before("b") == 0


def test_a_job_that_ended_before_its_turn_is_no_answer_and_is_made_anew() -> None:
    gm = symbolic_trace(nn.Linear(1, 1))
    memo = Memo(cast(OpenModel, None), Workbench(gm))
    line = Line()
    first, end = held(line)
    away = memo.remember("times", 1, lambda: Job(lambda progress: 1, lambda: False, line))
    assert away.wait(30)
    assert away.is_unanswered
    back = memo.remember("times", 1, lambda: Job(lambda progress: 2, line=line))
    assert back is not away
    end()
    assert back.wait(30)
    assert (back.result, back.is_unanswered, first.is_unanswered) == (2, False, False)
    assert memo.remember("times", 1, lambda: Job(lambda progress: 3)) is back


def test_a_job_that_ended_as_nobody_wanted_it_any_more_is_no_answer_and_is_made_anew() -> None:
    memo = Memo(cast(OpenModel, None), Workbench(symbolic_trace(nn.Linear(1, 1))))
    begun, is_here = threading.Event(), [True]

    def stopping(progress: Progress) -> int:
        begun.set()
        while progress(0):
            time.sleep(0.001)
        raise RunStoppedError("the run was stopped: nobody waits for it any more")

    away = memo.remember("first difference", 1, lambda: Job(stopping, lambda: is_here[0]))
    assert begun.wait(30)
    is_here[0] = False
    assert away.wait(30)
    back = memo.remember("first difference", 1, lambda: Job(lambda progress: 2))
    assert back.wait(30)
    assert back.result == 2
    canceled = memo.remember("times", 1, lambda: Job(stopping))
    canceled.cancel()
    assert canceled.wait(30)
    assert memo.remember("times", 1, lambda: Job(lambda progress: 3)) is canceled


def test_a_job_that_fails_in_its_turn_has_an_answer() -> None:
    def stopped(progress: Progress) -> int:
        raise CancelledError("it was stopped while it ran")

    failed = Job(stopped, line=Line())
    assert failed.wait(30)
    assert not failed.is_unanswered
