"""The law of numbers: outputs are as close to float64 as they were."""

import contextlib
import io
from typing import Any

import torch
from torch.fx import GraphModule

import fxopt
from fxopt import Exactness
from fxopt.evidence.difference import same_bits, same_numbers
from tests.fuzz.programs import Built, copied, run
from tests.fuzz.replay import entries_of


def check_numbers(built: Built, after: GraphModule) -> None:
    """The outputs, and the inputs afterwards, are those of before: as close to float64 as they were."""
    after.graph.lint()
    after.recompile()
    claims = {entry.exactness for entry in entries_of(after)}
    bitwise = claims <= {Exactness.BITWISE}
    for feed in dict.fromkeys(["plain", built.program.feed]):
        check_outputs(built, after, feed, bitwise)


def check_outputs(built: Built, after: GraphModule, feed: str, bitwise: bool) -> None:
    x = built.program.inputs(feed)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # fx prints where it failed
            old = run(_fresh(built, built.gm), x)
    except (RuntimeError, ValueError, IndexError, AssertionError, fxopt.InputSizeError):
        return  # the program does not take such inputs
    new = run(_fresh(built, after), x)
    exact = _exact(built, x) if feed == "plain" else None
    assert len(old) == len(new)
    more = _in_one_place(new) - _in_one_place(old)
    assert not more, f"{feed} outputs and inputs are one tensor that were two: {more}"
    for i, (a, b) in enumerate(zip(old, new)):
        if not isinstance(a, torch.Tensor):
            assert a == b
            continue
        assert isinstance(b, torch.Tensor)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        finite = a.isfinite()
        assert torch.equal(finite, b.isfinite()), f"{feed} output {i} is finite elsewhere"
        if bitwise:
            assert same_numbers(a, b), f"{feed} output {i} is not the same to the bit"
        elif a.is_floating_point() and finite.any():
            allowed = 32 * built.eps * built.largest
            reference = a[finite].double()
            if exact is not None:
                reference = exact[i][finite].double()
                allowed += 4 * float((a[finite].double() - reference).abs().max())
            error = float((b[finite].double() - reference).abs().max())
            assert error <= allowed, f"{feed} output {i} is off by {error}, more than {allowed}"
        elif not a.is_floating_point():
            assert same_bits(a, b)


def _in_one_place(values: list[torch.Tensor | None]) -> set[tuple[int, int]]:
    """The pairs of tensors that begin at the same place in memory."""
    tensors = [(i, value) for i, value in enumerate(values) if isinstance(value, torch.Tensor) and value.numel()]
    return {(i, j) for i, a in tensors for j, b in tensors if i < j and a.data_ptr() == b.data_ptr()}


def _fresh(built: Built, gm: GraphModule) -> GraphModule:
    return copied(gm) if built.is_stateful else gm


def _exact(built: Built, x: tuple[torch.Tensor, ...]) -> list[Any] | None:
    """What the program computes in float64; None where it does not run in it."""
    try:
        return run(copied(built.gm).double(), tuple(t.double() for t in x))
    except (RuntimeError, AssertionError, UserWarning):
        return None  # an exported program is for its own dtype, and an RMSNorm warns of an input that was cast to float
