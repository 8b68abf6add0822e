"""A process beside this one that answers the text of rules while it is written."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from torch.fx import GraphModule

from fxopt.errors import CancelledError, FxoptError
from fxopt.tracing.stored import packed
from fxopt.writing.answer import Answer
from fxopt.writing.child import GRAPH, TEXT, receive, send

MOST_BYTES = 200 * 10**6
"""Of a graph with its weights: a larger one is not sent to another process."""
MOST_TEXT = 20_000
"""Characters of a text."""
_SECONDS_BETWEEN_LOOKS = 0.1


def can_run() -> bool:
    """Return whether rules can be run here."""
    return hasattr(os, "fork")


class RuleProcess:
    """Runs texts of rules on a graph, each in a process of its own with limits on time and memory.

    The process protects this one from a text that does not end, takes all memory or crashes. It is no jail: the text
    may do whatever its author may do on this machine, so it is only for texts whose author sits at it.

    It imports PyTorch when it begins, which takes seconds, and then answers within a moment, also on another graph.

    Raises:
        FxoptError: this system has no processes that fork.
    """

    def __init__(self) -> None:
        if not can_run():
            raise FxoptError("a rule is tried in a process that forks, which this system lacks; use Linux or macOS")
        self._content = b""
        self._changed = threading.Condition()
        self._number = 0
        self._answers: dict[int, Answer] = {}
        self._child: subprocess.Popen[bytes] | None = None
        self._ready: subprocess.Popen[bytes] | None = None
        """The process, once it takes requests."""
        self._sending = threading.Lock()
        """Held while messages are sent: whole, and a graph before the texts about it."""
        self._held: tuple[subprocess.Popen[bytes], bytes] | None = None
        """The process, and the graph that it holds."""

    def begin(self) -> None:
        """Start the process, where there is none that runs: a graph and a text may come later."""
        with self._changed:
            self._started()

    def hold(self, gm: GraphModule, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> None:
        """Take a captured graph with its example inputs, on which texts are tried from now on.

        Raises:
            FxoptError: the graph is too large, or has parts that another process cannot read.
        """
        weights = sum(one.nbytes for one in (*gm.parameters(), *gm.buffers()))
        if weights > MOST_BYTES:
            most = f"a rule is tried on up to {MOST_BYTES / 1e6:,.0f} MB"
            raise FxoptError(f"the weights of this model have {weights / 1e6:,.0f} MB, and {most}; open a smaller one")
        try:
            content = pickle.dumps((packed(gm), tuple(args), dict(kwargs or {})))
        except (ValueError, TypeError, AttributeError, pickle.PicklingError) as error:
            raise FxoptError(f"this graph cannot be sent to another process ({error}); open another model") from None
        with self._changed:
            self._content = content
            self._number += 1  # ends the work on texts about the graph before
            self._changed.notify_all()

    def ask(self, text: str, *, checks: bool = False, wanted: Callable[[], bool] = lambda: True) -> Answer:
        """Return the answer to a text about the graph that was taken last. A question that is asked meanwhile ends it.

        Args:
            text: Python, with rules made by `fxopt.rewrite`; it is run.
            checks: whether the laws of passes are checked (`fxopt.testing.check_pass`), which takes longer.
            wanted: asked a few times a second; False ends the work.

        Raises:
            CancelledError: a newer question came, or it is no longer wanted.
            FxoptError: the process could not be started, or the text is too long.
        """
        if len(text) > MOST_TEXT:
            raise FxoptError(f"the text has {len(text):,} characters, and may have {MOST_TEXT:,}")
        with self._changed:
            if not wanted():
                raise CancelledError("the answer is no longer wanted")  # and a newer question goes on
            self._number += 1
            number, content = self._number, self._content
            child = self._started()
            self._changed.notify_all()
            self._wait(lambda: self._ready is child, number, child, wanted)
        request = json.dumps({"number": number, "text": text, "checks": checks}).encode()
        try:
            self._send(request, content, child, number)
        except OSError:
            raise FxoptError("the process for rules has ended; ask again") from None
        with self._changed:
            self._wait(lambda: number in self._answers, number, child, wanted)
            return self._answers.pop(number)

    def _send(self, request: bytes, content: bytes, child: subprocess.Popen[bytes], number: int) -> None:
        """Send a request, after the graph that it is about, unless a newer question came meanwhile."""
        stream = _stream(child.stdin)
        with self._sending:
            if self._number != number:
                return
            if self._held is None or self._held[0] is not child or self._held[1] is not content:
                send(stream, GRAPH + content)
                self._held = child, content
            send(stream, TEXT + request)

    def _wait(
        self, there: Callable[[], bool], number: int, child: subprocess.Popen[bytes], wanted: Callable[[], bool]
    ) -> None:
        while not there():
            if self._number != number:
                raise CancelledError("a newer text came")
            if not wanted():
                raise CancelledError("the answer is no longer wanted")
            if child.poll() is not None:
                raise FxoptError(f"the process for rules has ended (exit code {child.returncode}); ask again")
            self._changed.wait(_SECONDS_BETWEEN_LOOKS)

    def close(self) -> None:
        """End the process; a later question starts a new one."""
        with self._changed:
            child, self._child, self._held = self._child, None, None
            self._number += 1
        if child is not None:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                with contextlib.suppress(OSError):
                    _stream(stream).close()

    def _started(self) -> subprocess.Popen[bytes]:
        """Return the process, and start it where there is none that runs."""
        if self._child is None or self._child.poll() is not None:
            roots = os.pathsep.join(dict.fromkeys([str(Path(__file__).parents[2]), *filter(None, sys.path)]))
            program = "from fxopt.writing.child import main; main()"
            child = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": roots, "OMP_NUM_THREADS": "1"},
            )
            self._child = child
            threading.Thread(target=self._listen, args=(child,), name="rules", daemon=True).start()
        return self._child

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        """Take in its answers as long as there are any; without a listener it has no use, and ends."""
        try:
            self._take_answers(child)
        finally:
            child.kill()

    def _take_answers(self, child: subprocess.Popen[bytes]) -> None:
        stream = _stream(child.stdout)
        while True:
            try:
                content = receive(stream)
            except (OSError, ValueError):
                content = None  # closed
            if content is None:
                return
            told = json.loads(content)
            with self._changed:
                if "number" in told:
                    self._answers = {told["number"]: Answer.of_plain(told["answer"])}
                else:
                    self._ready = child
                self._changed.notify_all()


def _stream(stream: Any) -> BinaryIO:
    assert stream is not None
    found: BinaryIO = stream
    return found
