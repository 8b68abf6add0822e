"""A program that answers one question: bounded in time, in memory, and in the length of its answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from fxopt.errors import FxoptError

POLL_SECONDS = 0.1
"""The interval at which `wanted` is asked whether the answer is still needed."""
MOST_ANSWER = 256 * 2**20
"""Bytes of an answer: a picture of 12,000 boxes has some 30 MB."""
MOST_SAID = 64 * 2**10
"""Bytes kept of a program's messages about its troubles."""
MOST_MEMORY = 4 * 2**30
"""Bytes of address space; held where the system can hold another process to it, as Linux does."""


class EngineError(FxoptError, RuntimeError):
    """A layout engine failed: it is missing, crashed, took or wrote too much, or answered nonsense."""


class LayoutStoppedError(FxoptError, RuntimeError):
    """A layout that was stopped, because it is needed no longer."""


def answer_of(
    command: Sequence[str],
    text: bytes,
    timeout: float,
    wanted: Callable[[], bool] = lambda: True,
    most: int = MOST_ANSWER,
) -> bytes:
    """Return the answer that `command` writes to `text`.

    The program is ended, with the programs that it has begun, at `timeout` seconds, beyond `most` bytes of answer, and
    once the answer is no longer `wanted`.

    Raises:
        EngineError: it failed to answer within its bounds.
        LayoutStoppedError: the answer is no longer wanted.
    """
    program = command[0]
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as question:
        question.write(text)
        question.seek(0)
        process = _begun(command, question)
    assert process.stdout is not None
    assert process.stderr is not None
    answer, said = _Reader(process.stdout, most), _Reader(process.stderr, MOST_SAID, drains=True)
    try:
        while answer.is_alive() or process.poll() is None:
            if answer.is_full:
                break
            if time.monotonic() >= deadline:
                raise EngineError(f"{program} was stopped after {timeout:.0f} s")
            if not wanted():
                raise LayoutStoppedError("the layout was stopped: something else is to be shown")
            answer.join(POLL_SECONDS)
            if not answer.is_alive() and not answer.is_full:
                with suppress(subprocess.TimeoutExpired):  # the deadline decides
                    process.wait(POLL_SECONDS)
    finally:
        _end(process)
        for reader in (answer, said):
            reader.join()
        process.stdout.close()
        process.stderr.close()
    if answer.is_full:
        raise EngineError(f"{program} was stopped: its answer is longer than {most:,} bytes")
    if process.returncode:
        told = bytes(said.read).decode(errors="replace").strip()[:300]
        raise EngineError(f"{program} ended with code {process.returncode}" + (f": {told}" if told else ""))
    return bytes(answer.read)


def _begun(command: Sequence[str], question: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        process = subprocess.Popen(
            command, stdin=question, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:  # a ValueError for a NUL in its name
        raise EngineError(f"{command[0]} cannot be started: {error}") from error
    if sys.platform == "linux":
        import resource

        with suppress(OSError, ValueError):  # it has ended already, or is held to less
            resource.prlimit(process.pid, resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and those that it has begun, which would else hold its pipes open."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):  # all of them have ended
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


class _Reader(threading.Thread):
    """Reads a pipe: up to `most` bytes to keep, and then, where it `drains`, on to the end."""

    def __init__(self, pipe: IO[bytes], most: int, drains: bool = False) -> None:
        super().__init__(daemon=True)
        self.read = bytearray()
        self.is_full = False
        self._pipe, self._most, self._drains = pipe, most, drains
        self.start()

    def run(self) -> None:
        while chunk := os.read(self._pipe.fileno(), 2**16):
            if len(self.read) + len(chunk) > self._most:
                self.is_full = True
                if not self._drains:
                    return
            else:
                self.read += chunk
