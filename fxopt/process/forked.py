"""Work in a fork of this process: a single call of torch comes to its end, a process is killed.

A fork has all that this process has, models and graphs included, without a copy of the memory. It ends when it is done,
when it is no longer wanted, with this process, and at its limits of memory and time; its answer comes back as a pickle.

A fork has one thread: the one that forked. So the moment is chosen. No build, capture or tracing is at work, nor an
import: a fork would keep the changed state of the whole process, or a module half imported. Locks of fxopt that other
threads hold are free again in it (`fxopt.process.locks`). The thread that forks is a new one: OpenMP gives each thread
helpers of its own, and those of a thread that has computed before are missing in the fork.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import importlib
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

from fxopt.errors import CancelledError, FxoptError, ModelError
from fxopt.process.child_limits import die_with, limit
from fxopt.process.memory import in_words
from fxopt.process.module_calls import TRACING
from fxopt.process.one_at_a_time import one_at_a_time

T = TypeVar("T")
M = TypeVar("M")

GRACE_SECONDS = 0.5
"""Work that is no longer wanted may end by itself within so long, and tell how far it came; then it is killed."""
_SECONDS_BETWEEN_LOOKS = 0.1
_MOST_SECONDS_OF_IMPORTS = 20.0
"""That of transformers takes four; a fork that is asked for by a module which is being imported waits in vain."""
_SPARE_ADDRESSES = 2**31
"""Address space that threads and allocators reserve and leave unused."""
_MOST_FILE = 2**26
_SLOWNESS = 10
"""On a busy machine, a second of a processor takes up to so many."""
_HEAD = 8
_CHUNK = 2**20

_TOLD, _ANSWER, _FAILURE = range(3)


def can_fork() -> bool:
    """Return whether work can be done in a fork here: on Linux, where the libraries below torch bear it."""
    return sys.platform == "linux"


def in_fork(
    work: Callable[[Callable[[M], bool]], T],
    listen: Callable[[M], bool | None],
    start: M,
    *,
    memory: int,
    seconds: int,
    remedy: str = "choose smaller sizes",
) -> T:
    """Return the answer of `work`, which is done in a fork.

    Args:
        work: is given a function that tells a message to `listen`, at most ten a second, and answers False once the
            work is to end. Its answer is pickled.
        listen: is told the last message ten times a second, in a thread of its own; False ends the work.
        start: the message before the first.
        memory: bytes that the work may take beside those in use.
        seconds: of a processor.
        remedy: the end of the message where it took more than that.

    Raises:
        CancelledError: `listen` asked for the end, and the work had no answer soon after.
        ModelError: it took more memory or time than it may, or the system begins no process.
        Exception: the exception of the work.
    """

    def waiting() -> None:
        if listen(start) is False:
            raise CancelledError("it was cancelled before it began")

    fork = _Fork(work, listen, start, memory, seconds, remedy)
    context = contextvars.copy_context()
    supervisor = threading.Thread(target=context.run, args=(fork.supervise,), name="fork", daemon=True)
    with one_at_a_time(waiting):
        _wait_for_imports(waiting)
        with TRACING:
            supervisor.start()
            fork.has_begun.wait()
    supervisor.join()
    return fork.outcome()


def _wait_for_imports(waiting: Callable[[], None]) -> None:
    """Wait until no thread imports a module: in a fork it would stay half imported, and whoever needs it would wait."""
    until = time.monotonic() + _MOST_SECONDS_OF_IMPORTS
    while time.monotonic() < until:
        specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
        if not any(getattr(spec, "_initializing", False) for spec in specs):
            return
        waiting()
        time.sleep(_SECONDS_BETWEEN_LOOKS / 10)


class _Fork(Generic[T, M]):
    """A process that does some work, and the thread that waits for it."""

    def __init__(
        self,
        work: Callable[[Callable[[M], bool]], T],
        listen: Callable[[M], bool | None],
        start: M,
        memory: int,
        seconds: int,
        remedy: str,
    ) -> None:
        self.has_begun = threading.Event()
        self._work, self._listen, self._last = work, listen, start
        self._memory, self._seconds, self._remedy = memory, seconds, remedy
        self._answers: list[T] = []
        self._failure: BaseException | None = None
        self._is_wanted = True

    def outcome(self) -> T:
        if self._failure is not None:
            raise self._failure
        [answer] = self._answers
        return answer

    def supervise(self) -> None:
        """Fork, and wait for the answer. On Linux the fork ends with the thread that made it."""
        here = os.getpid()
        try:
            with contextlib.ExitStack() as ours:
                try:
                    with contextlib.ExitStack() as theirs:
                        try:
                            from_fork, to_us = _pipe(ours, theirs)
                            from_us, to_fork = _pipe(theirs, ours)
                            process = os.fork()
                        except OSError as error:
                            told = f"this machine begins no further process ({error.strerror}); try again later"
                            raise ModelError(told) from error
                        if process == 0:
                            _work_and_exit(self._work, to_us, from_us, here, self._memory, self._seconds)
                finally:
                    self.has_begun.set()
                try:
                    self._wait(from_fork, to_fork)
                finally:
                    os.kill(process, signal.SIGKILL)  # one that has ended is there until it is waited for
                    _, status = os.waitpid(process, 0)
            if not self._answers and self._failure is None:
                self._failure = self._reason_of(status)
        except BaseException as error:  # noqa: BLE001 - it is raised where the work was asked for
            self._failure = error

    def _wait(self, from_fork: int, to_fork: int) -> None:
        """Take in messages until the answer, or the end."""
        found = bytearray()
        looks = select.poll()  # which takes any number of a file, as a server with many visitors has
        looks.register(from_fork, select.POLLIN)
        until = time.monotonic() + self._seconds * _SLOWNESS
        while not self._answers and self._failure is None:
            if looks.poll(_SECONDS_BETWEEN_LOOKS * 1000):
                part = os.read(from_fork, _CHUNK)
                if not part:
                    return
                found += part
                self._take(found)
            elif time.monotonic() > until:
                self._failure = self._too_long() if self._is_wanted else None
                return
            if self._is_wanted and self._listen(self._last) is False:
                self._is_wanted = False
                self._ask_for_the_end(to_fork)
                until = time.monotonic() + GRACE_SECONDS

    @staticmethod
    def _ask_for_the_end(to_fork: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has just ended
            os.write(to_fork, b".")

    def _take(self, found: bytearray) -> None:
        """Take whole messages off the beginning."""
        while len(found) >= _HEAD:
            end = _HEAD + int.from_bytes(found[:_HEAD], "big")
            if len(found) < end:
                return
            kind, value = pickle.loads(memoryview(found)[_HEAD:end])  # of this program's making
            del found[:end]
            if kind == _TOLD:
                self._last = value
            elif kind == _ANSWER:
                self._answers.append(value)
            else:
                self._failure = self._too_much() if value is None else _error_of(*value)

    def _reason_of(self, status: int) -> Exception:
        if not self._is_wanted:
            return CancelledError("it was cancelled, and its process ended")
        killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        if killed == signal.SIGXCPU:
            return self._too_long()
        ended = f"was ended by signal {killed}" if killed else f"ended with status {os.waitstatus_to_exitcode(status)}"
        return ModelError(f"its process {ended} before it had an answer; {self._remedy}")

    def _too_long(self) -> ModelError:
        return ModelError(f"it takes more than {self._seconds} s of a processor, and was ended; {self._remedy}")

    def _too_much(self) -> ModelError:
        memory = in_words(self._memory)
        return ModelError(f"it takes more than {memory} of memory beside what is there, and was ended; {self._remedy}")


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    """Return the two ends of a new pipe, each to be closed by its owner."""
    ends = os.pipe()
    for owner, end in zip((reader, writer), ends):
        owner.callback(os.close, end)
    return ends


class _Teller:
    """Tells messages to the process that forked, and learns whether it wants the work still."""

    def __init__(self, pipe: int, end: int) -> None:
        self._pipe = pipe
        self._end = select.poll()
        self._end.register(end, select.POLLIN)
        self._told = 0.0
        self._is_wanted = True

    def __call__(self, message: Any) -> bool:
        now = time.monotonic()
        if now - self._told > _SECONDS_BETWEEN_LOOKS and self._is_wanted:
            self._told = now
            self.send(_TOLD, message)
            self._is_wanted = not self._end.poll(0)
        return self._is_wanted

    def send(self, kind: int, value: Any) -> None:
        content = pickle.dumps((kind, value))
        view = memoryview(len(content).to_bytes(_HEAD, "big") + content)
        while view:
            view = view[os.write(self._pipe, view) :]


def _work_and_exit(work: Callable[[Any], Any], pipe: int, end: int, parent: int, memory: int, seconds: int) -> NoReturn:
    """Do the work in this process, which has just been forked, and end it."""
    try:
        _be_alone_with(pipe, end, parent)
        teller = _Teller(pipe, end)
        limit(memory=_address_space() + memory + _SPARE_ADDRESSES, seconds=seconds, file=_MOST_FILE)
        try:
            answer = work(teller)
            try:
                teller.send(_ANSWER, answer)
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                raise FxoptError(f"the answer cannot leave its process: {error}") from None
        except BaseException as error:  # noqa: BLE001 - it is raised in the process that forked
            teller.send(_FAILURE, _plain(error))
    finally:
        os._exit(0)


def _be_alone_with(pipe: int, end: int, parent: int) -> None:
    """Let go of everything that belongs to the process that forked, but for two of its files.

    A connection that it closes is closed once nobody else holds it.
    """
    die_with(parent)
    for name, module in list(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            del sys.modules[name]  # another thread began to import it in the moment of the fork: it is imported anew
    # of modules that other threads were about to import; those that they had begun with were waited for
    vars(importlib._bootstrap).get("_module_locks", {}).clear()  # Python 3.3 to 3.14
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal; the process that forked decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # finalizers of what was there belong to the process that forked
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    sys.stdout = sys.stderr = open(nothing, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  libraries print
    kept = sorted((pipe, end, nothing))
    for first, last in zip((3, *(each + 1 for each in kept)), (*kept, os.sysconf("SC_OPEN_MAX"))):
        os.closerange(first, last)


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _plain(error: BaseException) -> tuple[type[BaseException], str, dict[str, Any]] | None:
    """Return an exception as plain data: its class, its text, and those of its attributes that can be pickled.

    None stands for a lack of memory.
    """
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        return None
    kept = {name: value for name, value in vars(error).items() if _pickles(value)}
    return (type(error) if _pickles(type(error)) else RuntimeError), str(error), kept


def _pickles(value: Any) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001 - whatever it is, it stays behind
        return False
    return True


def _error_of(kind: type[BaseException], text: str, attributes: dict[str, Any]) -> BaseException:
    error = kind.__new__(kind, text)
    error.args = (text,)
    vars(error).update(attributes)
    return error
