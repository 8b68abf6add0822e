"""The process in which a text of rules is run: it holds the graph, and forks for each text.

It has imported torch and fxopt, and holds the graph, once; so a text is answered within a moment. It has one thread, so
that a fork of it is a whole process. Only forks run the text of the author.

Messages are a length of 8 bytes and as many bytes. To this process: `GRAPH` and a packed graph with its example, or
`TEXT` and a request as JSON, which is about the last graph; from it: `{}` once it takes requests, then answers as JSON.
The process ends with its requests, and so with the process that asks. The death signal of Linux would be too early for
it: that comes at the end of the thread which started the process.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import time
from typing import Any, BinaryIO

LOOK_SECONDS, CHECK_SECONDS = 5, 60
"""The most that a text may take, and with the laws checked."""
MOST_BYTES = 2**30
"""The most memory that a text may take beside the graph and the libraries."""
MOST_FILE = 2**20
MOST_ANSWER = 8 * 2**20
GRAPH, TEXT = b"g", b"t"
"""The first byte of a message to the process."""
_CHUNK = 2**16


def send(stream: BinaryIO, content: bytes) -> None:
    stream.write(len(content).to_bytes(8, "big") + content)
    stream.flush()


def receive(stream: BinaryIO) -> bytes | None:
    """Return the next message; None at the end of the stream."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    content = stream.read(int.from_bytes(head, "big"))
    return content if len(content) == int.from_bytes(head, "big") else None


def main() -> None:
    """Answer requests until the stream of them ends; a newer one ends the work on an older one."""
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries print
    import torch

    torch.set_num_threads(1)
    import fxopt.writing.looking  # noqa: F401 - once, for all forks
    from fxopt.tracing.stored import unpacked

    send(answers, b"{}")
    graph: tuple[Any, ...] = ()
    work: _Work | None = None
    while True:
        waiting = [requests.fileno(), *([work.pipe] if work is not None else [])]
        seconds = max(0.0, work.deadline - time.monotonic()) if work is not None else None
        ready, _, _ = select.select(waiting, [], [], seconds)
        if requests.fileno() in ready:
            if work is not None:
                work.end()
            asked = receive(_whole(requests))
            if asked is None:
                return
            kind, content, work = asked[:1], asked[1:], None
            if kind == GRAPH:
                packed, args, kwargs = pickle.loads(content)  # of the parent's making
                graph = unpacked(packed), args, kwargs
            else:
                work = _Work(json.loads(content), graph, (requests.fileno(), answers.fileno()))
        elif work is not None and (not ready or not work.read()):
            send(answers, work.answer(is_late=not ready))
            work = None


class _Whole:
    """A stream that reads as many bytes as it is asked for, and never more."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            part = self._stream.read(min(count - len(found), _CHUNK * 64))
            if not part:
                break
            found += part
        return bytes(found)


def _whole(stream: Any) -> Any:
    return _Whole(stream)


class _Work:
    """A fork that answers one request, without the streams of this process."""

    def __init__(self, request: dict[str, Any], graph: tuple[Any, ...], streams: tuple[int, ...]) -> None:
        self.number: int = request["number"]
        self.seconds = CHECK_SECONDS if request["checks"] else LOOK_SECONDS
        self.deadline = time.monotonic() + self.seconds
        self.pipe, inner = os.pipe()
        self._found = bytearray()
        parent = os.getpid()
        self._process = os.fork()
        if self._process == 0:
            _answer_in_fork(request, graph, inner, (*streams, self.pipe), parent)
        os.close(inner)

    def read(self) -> bool:
        """Take in a part of the answer; return False at its end."""
        part = os.read(self.pipe, _CHUNK)
        self._found += part
        return bool(part) and len(self._found) <= MOST_ANSWER

    def answer(self, *, is_late: bool) -> bytes:
        """End the fork; return its answer, or the reason why there is none, as JSON."""
        status = self.end()
        found: dict[str, Any] | None = None
        if not is_late:
            try:
                found = json.loads(bytes(self._found))
            except ValueError:
                found = None
        if found is None:
            killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
            if is_late or killed:
                text = f"it takes more than {self.seconds} s: is there a loop without an end?"
            else:
                text = "its process ended before it could answer"
            found = {"found": [], "faults": [{"text": text, "line": 0, "code": ""}]}
        return json.dumps({"number": self.number, "answer": found}).encode()

    def end(self) -> int:
        """Kill the fork, if it runs still, and return its status."""
        os.kill(self._process, signal.SIGKILL)  # which no longer reaches one that has ended, and is waited for below
        _, status = os.waitpid(self._process, 0)
        os.close(self.pipe)
        return status


def _answer_in_fork(
    request: dict[str, Any], graph: tuple[Any, ...], pipe: int, streams: tuple[int, ...], parent: int
) -> None:
    """Write the answer to a request into a pipe, and end this process. The text has no part in `streams`."""
    try:
        from fxopt.process.child_limits import die_with, limit
        from fxopt.writing.answer import Answer, Fault
        from fxopt.writing.looking import check, look

        die_with(parent)
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2, *streams):
            os.dup2(nothing, stream)
        seconds = CHECK_SECONDS if request["checks"] else LOOK_SECONDS
        limit(memory=_address_space() + MOST_BYTES, seconds=seconds, file=MOST_FILE)
        gm, args, kwargs = graph
        try:
            answer = check(request["text"], gm, args, kwargs) if request["checks"] else look(request["text"], gm)
        except MemoryError:
            answer = Answer(faults=(Fault("it takes more memory than it may"),))
        with os.fdopen(pipe, "wb") as stream_of_answer:
            stream_of_answer.write(json.dumps(answer.to_plain()).encode())
    finally:
        os._exit(0)


def _address_space() -> int:
    """Return the bytes of address space that this process has."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no Linux
        return 2**40


if __name__ == "__main__":
    main()
