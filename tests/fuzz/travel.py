"""The law of travel: sites in force can be reversed in copies, and in graphs that come out of files."""

import contextlib
import io
import warnings
from collections.abc import Iterator, Sequence

import torch
from torch.fx import GraphModule

import fxopt
from fxopt import Transformation
from fxopt.evidence.difference import same_bits
from tests.fuzz.programs import Built, copied
from tests.fuzz.replay import entries_of


def check_travel(built: Built, gm: GraphModule, passes: Sequence[Transformation]) -> None:
    """Sites in force can be reversed in a copy, and in a graph out of a file where torch can save the model."""
    check_reversed(copied(built.gm), copied(gm), passes)
    if built.program.level == "aten":
        return
    saved = through_file(built.gm)
    if saved is not None and structure(saved) == structure(built.gm):
        gone = through_file(gm)
        assert gone is not None
        check_reversed(saved, gone, passes)


def check_reversed(pristine: GraphModule, gm: GraphModule, passes: Sequence[Transformation]) -> None:
    reverse_all(gm, passes)
    assert structure(gm) == structure(pristine)
    assert gm.code == pristine.code
    tensors, expected = gm.state_dict(), pristine.state_dict()
    assert sorted(tensors) == sorted(expected)  # torch's deepcopy may put modules in another order
    for name, tensor in tensors.items():
        assert same_bits(tensor, expected[name])


def reverse_all(gm: GraphModule, transformations: Sequence[Transformation]) -> None:
    """Reverse all of them in that order, each as many times as it was called."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* rested on |.*nothing was reversed", fxopt.FxoptWarning)
        for one in transformations:
            while any(entry.signature == one.signature for entry in entries_of(gm)):
                assert one(gm, reverse=True) is gm
    gm.recompile()
    assert not entries_of(gm)


def through_file(gm: GraphModule) -> GraphModule | None:
    """`gm` out of a file; None where torch cannot write or trace such a graph again."""
    file = io.BytesIO()
    try:
        torch.save(gm, file)
    except (AttributeError, TypeError, RuntimeError):
        return None
    file.seek(0)
    try:
        loaded: GraphModule = torch.load(file, weights_only=False)
    except (TypeError, RuntimeError, AttributeError, torch.fx.proxy.TraceError):
        return None
    return loaded


def structure(gm: GraphModule) -> list[str]:
    return [f"{node.name} {node.op} {node.target} {node.args} {node.kwargs}" for node in gm.graph.nodes]


@contextlib.contextmanager
def resting_is_no_fault() -> Iterator[None]:
    """A site that rested on a reversed one is undone with it, which is said in a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* rested on ", fxopt.FxoptWarning)
        yield
