"""Work in a fork: its answer and its errors come back, and it ends where nothing between two calls could end it."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fxopt.errors import CancelledError, FxoptError, ModelError
from fxopt.evidence import EvidenceError
from fxopt.evidence.running import _SEEDING
from fxopt.process.forked import in_fork
from fxopt.tracing import CaptureError
from fxopt.tracing.report import FailedRung

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere work stays in the process")

GB = 10**9
Tell = Callable[[float], bool]


def always(share: float) -> bool:
    return True


def long_call() -> float:
    """Make one call of torch that takes a minute of a core."""
    x = torch.ones(11_000, 11_000)
    return float((x @ x).sum())


def children() -> set[int]:
    """Return the processes that this one has forked and not yet waited for."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            found |= {int(process.name)} if int(parent) == os.getpid() else set()
    return found


def test_the_answer_comes_back_with_what_this_process_holds_and_leaves_it_as_it_is() -> None:
    x, seen = torch.arange(4.0), []

    def work(tell: Tell) -> torch.Tensor:
        seen.append("in the fork")
        x.add_(1)
        return x * 2

    assert in_fork(work, always, 0.0, memory=GB, seconds=60).tolist() == [2, 4, 6, 8]
    assert x.tolist() == [0, 1, 2, 3]
    assert not seen


def test_many_threads_compute_in_it_after_many_have_computed_here() -> None:
    before, threads = children(), torch.get_num_threads()
    x = torch.rand(700, 700)
    torch.set_num_threads(2)
    try:
        expected = x @ x
        for _ in range(3):
            assert torch.equal(in_fork(lambda tell: x @ x, always, 0.0, memory=GB, seconds=60), expected)
    finally:
        torch.set_num_threads(threads)
    assert children() == before


def test_it_may_print_though_nobody_reads_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(tell: Tell) -> int:
        return sum((stream.write("text\n") and stream.flush()) or 1 for stream in (sys.stdout, sys.stderr))

    with (tmp_path / "log").open("w") as log:  # whose number is closed in the fork
        monkeypatch.setattr(sys, "stdout", log)
        monkeypatch.setattr(sys, "stderr", log)
        assert in_fork(work, always, 0.0, memory=GB, seconds=60) == 2


def test_what_it_tells_is_heard() -> None:
    heard: list[float] = []

    def listen(share: float) -> None:
        heard.append(share)

    def work(tell: Tell) -> str:
        assert tell(0.25)
        time.sleep(0.3)
        assert tell(0.75)
        return "done"

    assert in_fork(work, listen, 0.0, memory=GB, seconds=60) == "done"
    assert heard[-1] == 0.75
    assert 0.25 in heard


@pytest.mark.parametrize(
    "error",
    [
        EvidenceError("the model fails"),
        KeyError("weight"),
        CaptureError("no way worked:", (FailedRung("symbolic", "a reason"),), ("a remedy",)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_its_error_is_raised_here(error: Exception) -> None:
    def work(tell: Tell) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        in_fork(work, always, 0.0, memory=GB, seconds=60)
    assert str(caught.value) == str(error) if not isinstance(error, KeyError) else "weight" in str(caught.value)
    assert vars(caught.value) == vars(error)


def test_an_error_of_a_class_that_is_nowhere_to_be_found_keeps_its_text() -> None:
    class LocalError(Exception):
        pass

    def work(tell: Tell) -> None:
        raise LocalError("some text")

    with pytest.raises(RuntimeError, match="some text"):
        in_fork(work, always, 0.0, memory=GB, seconds=60)


def test_an_answer_that_cannot_be_pickled_is_told() -> None:
    with pytest.raises(FxoptError, match="the answer cannot leave its process"):
        in_fork(lambda tell: threading.Lock(), always, 0.0, memory=GB, seconds=60)


def test_a_single_call_ends_within_a_second_or_two_once_it_is_not_wanted() -> None:
    began = time.monotonic()
    with pytest.raises(CancelledError):
        in_fork(lambda tell: long_call(), lambda share: time.monotonic() - began < 1, 0.0, memory=9 * GB, seconds=600)
    assert time.monotonic() - began < 5


def test_work_that_hears_of_the_end_may_answer_with_what_it_has() -> None:
    def work(tell: Tell) -> float:
        steps = 0.0
        while tell(steps):
            steps += 1
        return steps

    assert in_fork(work, lambda steps: steps < 1, 0.0, memory=GB, seconds=60) > 0


def test_it_ends_at_its_limit_of_memory() -> None:
    with pytest.raises(ModelError, match=r"more than 1\.0 GB of memory beside what is there, and was ended"):
        in_fork(lambda tell: torch.ones(2 * 10**9).sum().item(), always, 0.0, memory=GB, seconds=60)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_fork_that_the_system_refuses_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    in_fork(lambda tell: 1, always, 0.0, memory=GB, seconds=60)
    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fork", refuse)
        for _ in range(3):
            with pytest.raises(ModelError, match=r"begins no further process \(Resource temporarily unavailable\)"):
                in_fork(lambda tell: 1, always, 0.0, memory=GB, seconds=60)
    assert open_files() == before
    assert in_fork(lambda tell: 2, always, 0.0, memory=GB, seconds=60) == 2
    assert open_files() == before


def test_a_pipe_that_the_system_refuses_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made, pipe = [], os.pipe

    def once() -> tuple[int, int]:
        if made:
            raise OSError(24, "Too many open files")
        made.append(pipe())
        return made[0]

    before = open_files()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pipe", once)
        with pytest.raises(ModelError, match="Too many open files"):
            in_fork(lambda tell: 1, always, 0.0, memory=GB, seconds=60)
    assert open_files() == before


def test_it_ends_at_its_limit_of_time() -> None:
    with pytest.raises(ModelError, match="more than 1 s of a processor, and was ended"):
        in_fork(lambda tell: long_call(), always, 0.0, memory=9 * GB, seconds=1)


def test_locks_that_other_threads_hold_are_free_in_it() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with _SEEDING:
            held.set()
            done.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    assert held.wait(60)
    try:
        assert in_fork(lambda tell: _SEEDING.acquire(timeout=5), always, 0.0, memory=GB, seconds=60)
    finally:
        done.set()
        other.join()


def test_a_module_that_another_thread_imports_is_whole_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(1)\nanswer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    other = threading.Thread(target=importlib.import_module, args=("imported_slowly",))
    other.start()
    while "imported_slowly" not in sys.modules:
        time.sleep(0.01)

    def work(tell: Tell) -> int:
        answer: int = importlib.import_module("imported_slowly").answer
        return answer

    began = time.monotonic()
    try:
        assert in_fork(work, lambda share: time.monotonic() - began < 20, 0.0, memory=GB, seconds=60) == 42
    finally:
        other.join()
        del sys.modules["imported_slowly"]


def test_a_module_whose_import_begins_in_the_moment_of_the_fork_is_imported_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "begun_too_late.py").write_text("value = 42")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("fxopt.process.forked._wait_for_imports", lambda waiting: None)
    spec = importlib.util.find_spec("begun_too_late")
    assert spec is not None
    half = importlib.util.module_from_spec(spec)
    spec._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "begun_too_late", half)

    def work(tell: Tell) -> int:
        value: int = importlib.import_module("begun_too_late").value
        return value

    assert in_fork(work, always, 0.0, memory=GB, seconds=60) == 42


def test_a_module_that_another_thread_is_looking_for_is_found_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looked_for.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    is_looking, may_find = threading.Event(), threading.Event()

    class Slow:
        """Looks for a module for a second."""

        here = os.getpid()

        def find_spec(self, name: str, *of: object) -> None:
            if name == "looked_for" and os.getpid() == self.here:
                is_looking.set()
                may_find.wait(1)  # a fork is made after it, since it takes Python's lock of all imports

    monkeypatch.setattr(sys, "meta_path", [Slow(), *sys.meta_path])
    other = threading.Thread(target=importlib.import_module, args=("looked_for",))
    other.start()
    assert is_looking.wait(60)

    def work(tell: Tell) -> int:
        answer: int = importlib.import_module("looked_for").answer
        return answer

    began = time.monotonic()
    try:
        assert in_fork(work, lambda share: time.monotonic() - began < 20, 0.0, memory=GB, seconds=60) == 42
    finally:
        may_find.set()
        other.join()
        del sys.modules["looked_for"]


def test_it_lets_go_of_files_so_that_a_connection_ends_where_this_process_closes_it() -> None:
    reader, writer = os.pipe()
    is_over = threading.Event()

    def wait_in_a_fork() -> None:
        with pytest.raises(CancelledError):
            in_fork(lambda tell: time.sleep(60), lambda share: not is_over.is_set(), 0.0, memory=GB, seconds=60)

    thread = threading.Thread(target=wait_in_a_fork)
    before = children()
    thread.start()
    while children() == before:
        time.sleep(0.01)
    time.sleep(0.3)
    os.close(writer)
    assert os.read(reader, 1) == b"", "the end of the stream"
    is_over.set()
    thread.join(10)
    assert not thread.is_alive()
    assert children() == before
    os.close(reader)
