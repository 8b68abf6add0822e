"""The process beside this one that runs rules: its limits, and its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import fxopt
from fxopt.errors import CancelledError, FxoptError
from fxopt.writing import Answer, RuleProcess, look, rule_process
from tests.writing.test_looking import ARGS, REMOVE_ONE, Scaled

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a system with processes that fork"),
]


@pytest.fixture(scope="module")
def gm() -> torch.fx.GraphModule:
    return fxopt.capture(Scaled(), ARGS)


def holding(gm: torch.fx.GraphModule) -> RuleProcess:
    made = RuleProcess()
    made.hold(gm, ARGS)
    return made


@pytest.fixture(scope="module")
def process(gm: torch.fx.GraphModule) -> Iterator[RuleProcess]:
    made = holding(gm)
    yield made
    made.close()


def test_its_answer_is_that_of_this_process(process: RuleProcess, gm: torch.fx.GraphModule) -> None:
    assert process.ask(REMOVE_ONE) == look(REMOVE_ONE, gm)
    assert process.ask("def f(:").faults[0].line == 1
    assert process.ask(REMOVE_ONE, checks=True).found[0].checked.startswith("remove_one obeys ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("while True: pass", "it takes more than 5 s: is there a loop without an end?"),
        ("import time; time.sleep(60)", "it takes more than 5 s: is there a loop without an end?"),
        ("x = bytearray(8 * 2**30)", "it takes more memory than it may"),
        ("import os; os._exit(0)", "its process ended before it could answer"),
        ("import os; os.kill(os.getpid(), 11)", "its process ended before it could answer"),
        ("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()", ""),
    ],
)
def test_what_does_not_end_takes_too_much_or_crashes_is_a_fault(process: RuleProcess, text: str, told: str) -> None:
    (fault,) = process.ask(text).faults
    assert told in fault.text
    assert process.ask(REMOVE_ONE).found, "the next text is answered"


def test_a_text_leaves_nothing_behind_for_the_next(process: RuleProcess) -> None:
    process.ask("torch.relu = None; import fxopt; fxopt.rewrite = None; fxopt.core.GraphIndex = None")
    assert process.ask(REMOVE_ONE).found


def test_a_newer_text_ends_the_one_before(process: RuleProcess) -> None:
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            process.ask("import time; time.sleep(60)")
        except CancelledError as error:
            ended.append(error)

    before = process._number
    older = threading.Thread(target=ask)
    older.start()
    while process._number == before:
        time.sleep(0.01)
    assert process.ask(REMOVE_ONE).found
    older.join(30)
    assert len(ended) == 1
    answers = iter((True, True, False))
    with pytest.raises(CancelledError):
        process.ask("import time; time.sleep(60)", wanted=lambda: next(answers))
    before = process._number
    with pytest.raises(CancelledError):
        process.ask(REMOVE_ONE, wanted=lambda: False)
    assert process._number == before, "a question that nobody waits for ends no other one"


def ask_in_thread(process: RuleProcess, text: str = REMOVE_ONE) -> list[Answer]:
    """Ask in a thread of its own, as the page does, and return the answer once that thread has ended."""
    found: list[Answer] = []
    asking = threading.Thread(target=lambda: found.append(process.ask(text)))
    asking.start()
    asking.join(120)
    return found


def test_the_process_outlives_the_thread_that_started_it_and_ends_with_its_requests(gm: torch.fx.GraphModule) -> None:
    made = holding(gm)
    try:
        assert ask_in_thread(made)[0].found
        child = made._child
        time.sleep(0.5)  # a signal at the end of the thread would have come by now
        assert child is not None
        assert child.poll() is None
        assert ask_in_thread(made)[0].found
        assert made._child is child
        assert child.stdin is not None
        child.stdin.close()  # as the system does where this process ends
        assert child.wait(30) is not None
    finally:
        made.close()


def test_a_text_cannot_write_among_the_answers(process: RuleProcess) -> None:
    noise = "import os\nfor one in range(3, 100):\n    try: os.write(one, b'x' * 99)\n    except OSError: pass\n"
    (fault,) = process.ask(noise).faults
    child = process._child
    assert process.ask(REMOVE_ONE).found
    assert process._child is child, fault


def test_answers_that_cannot_be_read_end_the_process(gm: torch.fx.GraphModule, monkeypatch: pytest.MonkeyPatch) -> None:
    made = holding(gm)
    monkeypatch.setattr(rule_process, "receive", lambda stream: None)
    try:
        with pytest.raises(FxoptError, match="has ended"):
            made.ask(REMOVE_ONE)
    finally:
        made.close()


def test_it_takes_another_graph_and_a_text_about_the_one_before_ends(gm: torch.fx.GraphModule) -> None:
    made = RuleProcess()
    try:
        made.begin()
        child = made._child
        made.hold(gm, ARGS)
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                made.ask("import time; time.sleep(60)")
            except CancelledError as error:
                ended.append(error)

        before = made._number
        older = threading.Thread(target=ask)
        older.start()
        while made._number == before:
            time.sleep(0.01)
        other = fxopt.capture(nn.Sequential(nn.ReLU()), ARGS)
        made.hold(other, ARGS)
        older.join(30)
        assert len(ended) == 1
        assert made.ask(REMOVE_ONE) == look(REMOVE_ONE, other) != look(REMOVE_ONE, gm)
        made.hold(gm, ARGS)
        assert made.ask(REMOVE_ONE) == look(REMOVE_ONE, gm)
        assert made._child is child
    finally:
        made.close()


def test_it_ends_with_close_and_starts_anew(gm: torch.fx.GraphModule) -> None:
    made = holding(gm)
    assert isinstance(made.ask(REMOVE_ONE), Answer)
    child = made._child
    assert child is not None
    made.close()
    assert child.poll() is not None
    assert made.ask(REMOVE_ONE).found
    made.close()


def test_a_graph_that_is_too_large_and_a_text_that_is_too_long_are_refused(
    gm: torch.fx.GraphModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FxoptError, match="may have 20,000"):
        holding(gm).ask("#" * 20_001)
    monkeypatch.setattr(rule_process, "MOST_BYTES", 10)
    with pytest.raises(FxoptError, match="open a smaller one"):
        holding(gm)
