"""An operation that gives back its input goes; one that may change a bit, a dtype or a writer stays with a reason."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import RemoveIdentities
from fxopt.core import GraphIndex
from fxopt.testing import Case, check, check_pass, laws
from tests.passes.asserts import Net, assert_left_alone, captured, traced
from tests.quick import third

PATTERNS = (
    [("scale", 0, 6), ("pointwise", 0, 0)],
    [("linear", 0, 0), ("scale", 0, 12), ("write", 0, 0)],
    [("pointwise", 0, 0), ("scale", 0, 11), ("write", 1, 0)],
    [("view", 0, 1), ("view", 0, 1), ("scale", 0, 6)],
    [("layer", 0, 0), ("layer", 0, 1), ("pointwise", 0, 7)],
    [("linear", 0, 0), ("layer", 0, 6), ("write", 0, 0)],
)

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)

REMOVED: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "x * 1": lambda m, x: x * 1,
    "x * 1.0": lambda m, x: x * 1.0,
    "1 * x": lambda m, x: 1 * x,
    "mul": lambda m, x: torch.mul(x, 1.0),
    "aten.mul": lambda m, x: torch.ops.aten.mul.Tensor(x, 1),
    "a product of integers": lambda m, x: (x.argmax(-1) * 1).float(),
    "x / 1": lambda m, x: x / 1,
    "div": lambda m, x: x.div(1.0),
    "x - 0": lambda m, x: x - 0,
    "sub": lambda m, x: torch.sub(x, 0.0, alpha=1),
    "x + -0.0": lambda m, x: x + -0.0,
    "0 + integers": lambda m, x: (0 + x.argmax(-1)).float(),
    "transpose": lambda m, x: x.transpose(0, 1).transpose(1, -3),
    "transpose, read by others": lambda m, x: (y := x.transpose(1, 2)).transpose(2, 1) + y.sum(),
    "swapaxes": lambda m, x: x.swapaxes(0, 1).transpose(0, 1),
    "t": lambda m, x: x[0].t().t(),
    "permute": lambda m, x: x.permute(2, 0, 1).permute(1, 2, 0),
    "dropout": lambda m, x: m.drop(x),
    "dropout called twice": lambda m, x: m.drop(m.drop(x)),
    "dropout2d": lambda m, x: m.channels(x[None])[0],
    "dropout in place": lambda m, x: m.in_place(x),
    "dropout in place, beside another reader": lambda m, x: (y := x.sin(), m.in_place(y) + y)[1],
    "dropout2d in place": lambda m, x: m.channels_in_place(x[None])[0],
    "F.dropout in place": lambda m, x: F.dropout(x, 0.1, False, True),
    "F.dropout": lambda m, x: F.dropout(x, 0.1, training=False),
    "aten.dropout": lambda m, x: torch.ops.aten.dropout.default(x, 0.1, False),
    "identity": lambda m, x: m.identity(x),
    "all at once": lambda m, x: m.identity(m.drop(x * 1) - 0) / 1.0,
}  # fmt: skip

LEFT: dict[str, tuple[Callable[[Any, torch.Tensor], Any], str]] = {
    "x + 0": (lambda m, x: x + 0, "x_1 + 0 is 0.0 where x_1 is -0.0"),
    "x - -0.0": (lambda m, x: x - -0.0, "x_1 - -0.0 is 0.0 where x_1 is -0.0"),
    "another dtype": (lambda m, x: x.argmax(-1) * 1.0, "mul is float32 batch x sequence, but argmax is int64"),
    "a quotient of integers": (lambda m, x: x.argmax(-1) / 1, "argmax is torch.int64, and its quotient a float"),
    "complex numbers": (lambda m, x: torch.view_as_complex(x.view(2, 3, 2, 2)) * 1, "infinities and signs of zeros"),
    "training": (lambda m, x: F.dropout(x, 0.1, training=True), "in training mode | model.eval()"),
    "a write to the result": (lambda m, x: (x * 1).add_(1) + x, "add_ may change mul in place"),
    "a write to the input": (lambda m, x: operator.add(x * 1, x.add_(1)), "add_ may change x_1 in place later"),
}  # fmt: skip

NOTHING_TO_SAY: dict[str, Callable[[Any, torch.Tensor], torch.Tensor]] = {
    "another factor": lambda m, x: x * 2,
    "two tensors": lambda m, x: x * x,
    "true": lambda m, x: x * True,
    "another addend": lambda m, x: x + 1,
    "1 / x": lambda m, x: 1 / x,
    "0 - x": lambda m, x: 0 - x,
    "one transposition": lambda m, x: x.transpose(0, 1),
    "two transpositions": lambda m, x: x.transpose(0, 1).transpose(1, 2),
    "another order": lambda m, x: x.permute(2, 0, 1).permute(2, 0, 1),
    "in place": lambda m, x: (x + 1).mul_(1),
    "rounded": lambda m, x: torch.div(x, 1, rounding_mode="floor"),
}


def layers() -> dict[str, nn.Module]:
    in_place = {"in_place": nn.Dropout(inplace=True), "channels_in_place": nn.Dropout2d(inplace=True)}
    return {"drop": nn.Dropout(), "channels": nn.Dropout2d(), "identity": nn.Identity(), **in_place}


def between(forward: Callable[[Any, torch.Tensor], Any]) -> Callable[..., Any]:
    """`forward` on a tensor that nobody else has, with a copy of its result returned."""
    return lambda m, x: torch.utils._pytree.tree_map(torch.neg, forward(m, torch.neg(x)))


@pytest.mark.parametrize("forward", third(REMOVED.values()), ids=REMOVED)
def test_what_gives_back_its_input_goes(forward: Callable[..., Any]) -> None:
    case = Case.of("net", Net(between(forward), **layers()).eval(), (X,))
    check(laws.outputs_are_as_exact_as_declared, RemoveIdentities(), case)
    assert len(case.special) == 4, "signed zeros, the ends of the range, infinities and NaN"
    gm = case.graph()
    count = len(gm.graph.nodes)
    assert RemoveIdentities().scan(gm).matches
    RemoveIdentities()(gm)
    assert len(gm.graph.nodes) < count
    assert RemoveIdentities().scan(gm).matches == ()


COMPLEX = [name for name in REMOVED if name.startswith(("transpose", "swap", "t", "permute", "F.", "identity"))]


@pytest.mark.parametrize("name", third(COMPLEX))
def test_of_complex_numbers_what_only_moves_them_goes(name: str) -> None:
    numbers = torch.complex(X, X.flip(0))
    case = Case.of("net", Net(between(REMOVED[name]), **layers()).eval(), (numbers,))
    check(laws.outputs_are_as_exact_as_declared, RemoveIdentities(), case)
    assert RemoveIdentities().scan(case.graph()).matches
    assert len(case.special) == 4


@pytest.mark.parametrize(("forward", "reason"), LEFT.values(), ids=LEFT)
def test_what_may_be_told_apart_is_left_alone_with_a_reason(forward: Callable[..., Any], reason: str) -> None:
    gm = captured(lambda m, x: forward(m, x + 2), X, **layers())
    assert_left_alone(RemoveIdentities(), gm, *reason.replace("x_1", "add").split(" | "))


@pytest.mark.parametrize("forward", NOTHING_TO_SAY.values(), ids=NOTHING_TO_SAY)
def test_of_other_operations_there_is_nothing_to_say(forward: Callable[..., Any]) -> None:
    scan = RemoveIdentities().scan(traced(forward, X))
    assert (scan.matches, scan.misses) == ((), ())


@pytest.mark.parametrize(
    ("forward", "sites", "reason"),
    [
        (lambda m, x: (x, F.dropout(m.drop(m.identity(x)), training=False)), ["identity", "drop", "dropout"], None),
        (lambda m, x: m.identity(x) * 1, ["identity"], "mul is returned, and would be the caller's own x"),
        (lambda m, x: m.identity(x + 2) * 1 / 1, ["identity", "mul", "truediv"], None),
    ],
    ids=["views of the caller's own", "a copy of the caller's own", "a tensor of its own"],
)
def test_of_identities_in_a_row_the_scan_names_those_that_go(
    forward: Callable[..., Any], sites: list[str], reason: str | None
) -> None:
    gm = captured(forward, X, **layers())
    scan = RemoveIdentities().scan(gm)
    assert [match.site for match in scan.matches] == sites
    assert [miss.reason[: len(reason or "")] for miss in scan.misses] == ([] if reason is None else [reason])
    assert [entry.site for entry in RemoveIdentities().apply(GraphIndex(gm))] == sites


def test_the_page_reads_which_identity_it_is() -> None:
    gm = captured(between(lambda m, x: x * 1.0), X)
    (match,) = RemoveIdentities().scan(gm).matches
    said = "Replace `x * 1` with `x`: the product is the very number, and needs no rounding. At mul: x is neg; c is 1.0"
    assert RemoveIdentities().explain(match) == said


@pytest.mark.slow
def test_it_obeys_the_laws_where_every_rule_applies() -> None:
    cases = [Case.of(name, Net(between(REMOVED[name]), **layers()).eval(), (X,)) for name in (
        "x / 1", "x + -0.0", "transpose, read by others", "permute", "dropout called twice", "dropout2d", "all at once",
    )]  # fmt: skip
    report = check_pass(RemoveIdentities(), cases)
    assert all(report.sites_of.values())
    assert report.skipped == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, 7, 300])  # one by one, and in vectors
def test_torch_gives_the_same_bits(dtype: torch.dtype, length: int) -> None:
    info, bits = torch.finfo(dtype), {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    special = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, info.max, info.min, info.tiny, info.smallest_normal / 4]
    x = torch.cat([torch.tensor(special, dtype=dtype), torch.randn(length).to(dtype)]).repeat(length)
    numbers = ~x.isnan()
    for same in (x * 1, x * 1.0, 1 * x, x / 1, x / 1.0, x - 0, x - 0.0, x + -0.0, -0.0 + x):
        assert torch.equal(same.view(bits)[numbers], x.view(bits)[numbers])
        assert torch.equal(same.isnan(), x.isnan())
    for other in (x + 0, x + 0.0, x - -0.0):
        assert not torch.equal(other.view(bits)[numbers], x.view(bits)[numbers]), "or it could be removed as well"


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    "kind", [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout]
)
def test_torch_gives_back_the_very_tensor_and_writes_nothing_in_evaluation(kind: Any, in_place: bool) -> None:
    sizes = {nn.Dropout1d: (2, 3, 4), nn.Dropout2d: (2, 3, 4, 5), nn.Dropout3d: (2, 3, 4, 5, 6)}
    x = torch.randn(sizes.get(kind, (2, 3)), requires_grad=True)
    before, version = x.detach().clone(), x._version
    assert kind(inplace=in_place).eval()(x) is x
    assert F.dropout(x, 0.1, False, in_place) is x
    assert torch.equal(x, before)
    assert x._version == version


def test_a_dropout_in_place_stays_in_training_mode() -> None:
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.Dropout(inplace=True), nn.ReLU()))
    assert_left_alone(RemoveIdentities(), gm, "in training mode", "model.eval()")


def test_a_dropout_that_changes_the_shape_in_place_stays() -> None:
    """Of an input without a batch, torch calls `unsqueeze_`, which a leaf refuses where gradients are recorded."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout1d(inplace=True), nn.ReLU()).eval()
    gm = fxopt.capture(net, (torch.randn(3, 4),))
    assert_left_alone(RemoveIdentities(), gm, "gives an input without a batch one more dimension", "inplace=False")
