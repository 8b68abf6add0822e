"""Interrupting an act at any line of the rewriting machine, as Ctrl+C or an exception from another thread can."""

import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from torch.fx import GraphModule

import fxopt
from fxopt.core import GraphIndex, Ledger, fingerprint

_PLACES = tuple(
    str(Path(fxopt.__file__).parent / folder) for folder in ("graph", "recording", "core", "process", "workbench")
)


class Lines:
    """Counts the lines that run in the rewriting machine, and raises at line number `at`.

    With `again`, it raises a second time, as many lines later, while the first interruption is rolled back. With
    `instructions`, it counts the instructions of Python instead, of which a line has several.
    """

    def __init__(self, at: int = 0, again: int = 0, instructions: bool = False) -> None:
        self._counted = "opcode" if instructions else "line"
        self.count = 0
        self.at = at
        self.again = again
        self.where = ""
        # Python 3.11 borrows the functions that trace: a method bound anew at each call may be gone while it runs
        self._on_call, self._on_line = self._call, self._line

    def run(self, act: Callable[[], object]) -> bool:
        """Run an act in a thread of its own, where no earlier interruption has disturbed tracing.

        Returns:
            whether it was interrupted.
        """
        raised: list[BaseException] = []

        def traced() -> None:
            sys.settrace(self._on_call)
            if self.again:
                sys.setprofile(self._trace_on)
            try:
                act()
            except BaseException as error:  # noqa: BLE001 - raised below
                raised.append(error)
            finally:
                sys.setprofile(None)
                sys.settrace(None)

        thread = threading.Thread(target=traced)
        thresholds = gc.get_threshold()
        gc.set_threshold(0)  # finalizers of other tests' cycles would be counted, and swallow what is raised in them
        thread.start()
        thread.join()
        gc.set_threshold(*thresholds)
        if raised and not isinstance(raised[0], KeyboardInterrupt):
            raise raised[0]
        return bool(raised)

    def _trace_on(self, frame: FrameType | None, event: str, arg: Any) -> None:
        """Trace again after the first interruption: Python ends a trace whose function raises."""
        if self.where and sys.gettrace() is None:
            sys.settrace(self._on_call)
            while frame is not None:
                if frame.f_code.co_filename.startswith(_PLACES):
                    frame.f_trace = self._on_line
                frame = frame.f_back

    def _call(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_PLACES):
            return None
        if self._counted == "opcode":
            frame.f_trace_opcodes = True
        return self._on_line

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == self._counted:
            self.count += 1
            if self.count == self.at or (self.again and self.count == self.at + self.again):
                self.where += f" {Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt(self.where)
        return self._on_line


def last(count: int, of: int) -> range:
    """The numbers of the last lines, where an act is committed: all of them, and no more than so many."""
    return range(max(1, of - count + 1), of + 1)


def moments(count: int, of: int, seed: str) -> Iterator[int]:
    """So many numbers of lines: the first and last ones, where an act begins and ends, and some at random."""
    draw = random.Random(seed)
    ends = [*range(1, 4), *range(of - 3, of + 1)]
    yield from draw.sample(range(1, of + 1), min(count, of))
    yield from draw.sample(ends, min(2, count))


def state_of(gm: GraphModule) -> tuple[object, ...]:
    """All that an act may change, more than a fingerprint: the graph's own records too."""
    users = [(node.name, [user.name for user in node.users]) for node in gm.graph.nodes]
    names = gm.graph._graph_namespace
    return (
        fingerprint(gm),
        users,
        [node.name for node in reversed(gm.graph.nodes)],
        len(gm.graph.nodes),
        sorted(names._used_names),
        sorted(names._base_count.items()),
        [entry.id for entry in Ledger.entries_of(gm)],
        list(gm._modules),
        gm.forward.__func__.__code__.co_code,
    )


def assert_nothing_lingers(gm: GraphModule, inputs: tuple[Any, ...], pristine: str) -> None:
    """Check that the graph is sound, runs, goes all the way back, and that neither lock nor setting was left behind."""
    assert gc.isenabled()
    gm.graph.lint()
    gm(*inputs)
    assert [node.name for node in gm.graph.find_nodes(op="placeholder")] == [
        node.name for node in gm.graph.nodes if node.op == "placeholder"
    ]
    back: list[object] = []

    def go_back() -> None:  # by another thread, which waits for ever where a lock was left behind
        back.append(len(Ledger.of(gm).rewind(GraphIndex(gm), 0)))

    thread = threading.Thread(target=go_back, daemon=True)
    thread.start()
    thread.join(60)
    assert back
    gm.graph.lint()
    gm.recompile()
    assert fingerprint(gm) == pristine
