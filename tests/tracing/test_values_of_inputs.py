"""A value among the inputs that is no tensor is part of the graph: another value is refused, an equal one is taken."""

from __future__ import annotations

import cmath
import collections
import copy
import dataclasses
import enum
import functools
import io
import math
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fxopt.tracing import CaptureError, InputError, capture, install_checks
from fxopt.tracing.same_values import same_value

X = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Settings:
    scale: float


class Slotted:
    __slots__ = ("on",)

    def __init__(self, on: bool) -> None:
        self.on = on


class Scale:
    """An object with the equality of Python: it is equal to itself alone."""

    def __init__(self, by: float) -> None:
        self.by = by

    def of(self, x: Tensor) -> Tensor:
        return x * self.by


class SlottedArray:
    """An object whose equality gives an array, which has no truth value."""

    __slots__ = ("array",)

    def __init__(self, *numbers: float) -> None:
        self.array = np.array(numbers)

    def __eq__(self, other: object) -> Any:
        return self.array == other.array if isinstance(other, SlottedArray) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


def scaled(x: Tensor, by: float = 2.0) -> Tensor:
    return x * by


def weighted(x: Tensor, w: Tensor) -> Tensor:
    return x * w.nan_to_num(1.0)


def masked(*mask: bool) -> Any:
    return np.ma.masked_array([1.0, 2.0], mask=mask)


def times(number: float) -> Callable[[Tensor], Tensor]:
    return lambda x: x * number


def unset() -> Callable[[Tensor], Tensor]:
    def function(x: Tensor) -> Tensor:
        return x * 2 if x.dim() else number

    if math.pi < 3:
        number = X
    return function


def beside(**values: Any) -> dict[str, Any]:
    """The values beside a tensor, so that the graph takes the dict apart."""
    return {"t": X, **values}


class Applies(nn.Module):
    """A forward that decides by its second input."""

    def __init__(self, function: Callable[[Tensor, Any], Tensor], taped: bool) -> None:
        super().__init__()
        self.function, self.taped = function, taped

    def forward(self, x: Tensor, by: Any) -> Tensor:
        if self.taped:
            len(x)  # which torch.fx itself refuses
        return self.function(x, by)


TURN, SIZE = torch.tensor([1j]), torch.empty(2, device="meta")
RELU, TWO, THREE, NAN = nn.ReLU(), Scale(2.0), Scale(3.0), torch.tensor([math.nan])
REMEMBERS = [functools.lru_cache(times(number)) for number in (2.0, 3.0)]

VALUES: dict[str, tuple[Callable[[Tensor, Any], Tensor], Callable[[], Any], Any]] = {
    "a number, and a NaN": (lambda x, by: x * (2 if by != by else 3), lambda: 1.0, math.nan),
    "a NaN, and a number": (lambda x, by: x * (2 if by != by else 3), lambda: float("nan"), 1.0),
    "the sign of zero": (lambda x, by: x * math.copysign(1, by), lambda: 0.0, -0.0),
    "a complex number": (lambda x, by: x * by.real, lambda: 1 + 2j, 3 + 2j),
    "a dtype": (lambda x, by: x.to(by), lambda: torch.float32, torch.float64),
    "a device": (lambda x, by: x * len(by.type), lambda: torch.device("cpu"), torch.device("meta")),
    "a slice": (lambda x, by: x[by], lambda: slice(0, 1), slice(1, 2)),
    "an enum": (lambda x, by: x * by.value, lambda: Color.RED, Color.BLUE),
    "an array": (lambda x, by: x * float(by.sum()), lambda: np.ones(4), np.zeros(4)),
    "a number of numpy": (lambda x, by: x * float(by), lambda: np.float32(2), np.float32(3)),
    "an object": (lambda x, by: x * by.scale, lambda: Settings(2.0), Settings(3.0)),
    "an object with slots": (lambda x, by: x * (2 if by.on else 3), lambda: Slotted(True), Slotted(False)),
    "a function": (lambda x, by: by(x), lambda: torch.relu, torch.tanh),
    "a function made anew": (lambda x, by: by(x), lambda: times(2.0), times(3.0)),
    "arguments of a function": (lambda x, by: by(x), lambda: partial(scaled, by=1), partial(scaled, by=3)),
    "a class": (lambda x, by: x * (2 if by is int else 3), lambda: int, float),
    "a module": (lambda x, by: by(x), lambda: RELU, nn.Tanh()),
    "a set": (lambda x, by: x * len(by), lambda: {1, 2}, {1, 2, 3}),
    "bytes": (lambda x, by: x * len(by), lambda: b"12", b"123"),
    "a range": (lambda x, by: x * len(by), lambda: range(2), range(3)),
    "a bool in a list": (lambda x, by: x[by[0]] * 1.0, lambda: [1], [True]),
    "a float in a list": (lambda x, by: x * (2 if isinstance(by[0], int) else 3), lambda: [1], [1.0]),
    "a dtype beside a tensor": (lambda x, by: x.to(by["k"]), lambda: beside(k=torch.float32), beside(k=torch.int32)),
    "slots beside a tensor": (lambda x, by: x * by["c"].on, lambda: beside(c=Slotted(True)), beside(c=Slotted(False))),
    "a method of an object": (lambda x, by: by(x), lambda: Scale(2.0).of, Scale(3.0).of),
    "another method of an object": (lambda x, by: by(x), lambda: RELU.forward, RELU.half),
    "a method of a module": (lambda x, by: by(x), lambda: RELU.forward, nn.ReLU().forward),
    "a set of objects": (lambda x, by: x * len(by), lambda: {TWO, THREE}, {TWO}),
    "a dict by objects": (lambda x, by: x * by[TWO], lambda: {TWO: 2.0}, {THREE: 2.0}),
    "a weight that is NaN": (lambda x, by: by(x), lambda: partial(weighted, w=NAN.clone()), partial(weighted, w=X)),
    "the sign of a weight": (lambda x, by: by(x), lambda: partial(weighted, w=NAN * 0), partial(weighted, w=-NAN)),
    "sparse weights": (lambda x, by: by(x), lambda: partial(weighted, w=X), partial(weighted, w=X.to_sparse())),
    "an array of objects": (lambda x, by: x * by[0], lambda: np.array([float("2")], object), np.array([3.0], object)),
    "an array in another layout": (lambda x, by: x * by[0, 1], lambda: np.ones((2, 3)), np.ones((3, 2)).T * 2),
    "a masked array": (lambda x, by: x * float(by.sum()), lambda: masked(True, False), masked(False, True)),
    "equality that gives an array": (lambda x, by: x * by.array[0], lambda: SlottedArray(1, 2), SlottedArray(2, 2)),
    "modules in a list": (lambda x, by: by[0](x), lambda: [RELU], [nn.ReLU()]),
    "a module in a partial": (lambda x, by: by(x), lambda: partial(RELU), partial(nn.ReLU())),
    "a module of Python": (lambda x, by: x * by.sqrt(4).real, lambda: math, cmath),
    "a counter": (lambda x, by: x * by["a"], lambda: collections.Counter("aab"), collections.Counter("ab")),
    "a function of an unset name": (lambda x, by: by(x), unset, scaled),
    "conjugate weights": (lambda x, by: by(x), lambda: partial(scaled, by=TURN.conj()), partial(scaled, by=TURN)),
    "meta weights": (lambda x, by: x * len(by.args), lambda: partial(scaled, SIZE[:2]), partial(scaled, SIZE[1:])),
    "a function that remembers": (lambda x, by: by(x), lambda: REMEMBERS[0], REMEMBERS[1]),
}  # fmt: skip


@pytest.mark.parametrize("name", VALUES)
def test_another_value_is_refused_and_an_equal_one_taken(name: str) -> None:
    function, make, other = VALUES[name]
    model = Applies(function, taped=len(name) % 2 == 0).eval()
    captured = capture(model, (X, make()))
    for gm in (captured, copy.deepcopy(captured)):
        torch.testing.assert_close(gm(X, make()), model(X, make()))
        with pytest.raises(InputError, match=r"captured with by.* == .*, here it is .*: capture again with this"):
            gm(X, other)


def test_a_list_that_was_written_to_since_is_another_value() -> None:
    numbers = [2.0]
    gm = capture(Applies(lambda x, by: x * by[0], taped=False).eval(), (X, numbers))
    numbers[0] = 3.0
    with pytest.raises(InputError, match=r"captured with by == \[2\.0\], here it is \[3\.0\]"):
        gm(X, numbers)


@pytest.mark.parametrize("within", [lambda one: [one], lambda one: {"a": (one,)}], ids=["a list", "a tuple in a dict"])
def test_an_object_in_a_container_that_was_written_to_since_is_another_value(within: Callable[[Any], Any]) -> None:
    settings = Settings(2.0)
    read = (lambda by: by[0].scale) if isinstance(within(settings), list) else (lambda by: by["a"][0].scale)
    model = Applies(lambda x, by: x * read(by), taped=False).eval()
    gm = capture(model, (X, within(settings)))
    torch.testing.assert_close(gm(X, within(Settings(2.0))), X * 2)
    settings.scale = 3.0
    with pytest.raises(InputError, match=r"captured with by.*\.scale == 2\.0, here it is 3\.0"):
        gm(X, within(settings))


def test_a_dict_with_another_key_is_refused_with_the_keys_named() -> None:
    gm = capture(Applies(lambda x, by: x * by["a"] if "b" in by else x, taped=False).eval(), (X, {"a": X, "b": X}))
    torch.testing.assert_close(gm(X, {"b": X, "a": X}), X * X)
    with pytest.raises(InputError, match="by has the keys 'a', 'b', here it has 'a', 'c'"):
        gm(X, {"a": X, "c": X})


def test_a_report_with_such_values_pickles() -> None:
    gm = capture(
        Applies(lambda x, by: x * by["scale"].scale, taped=False).eval(), (X, {"scale": Settings(2.0), "t": X})
    )
    report = gm.meta["fxopt"]
    assert len(pickle.loads(pickle.dumps(report)).checks) == len(report.checks)


def test_values_that_tell_no_state_go_by_their_type() -> None:
    assert same_value(iter([1]), iter([1]))
    assert same_value(object(), object())
    assert not same_value(iter([1]), object())


def test_a_value_within_itself_is_compared_once() -> None:
    one: list[Any] = [1]
    one.append(one)
    assert same_value(one, copy.deepcopy(one))


def test_a_dict_in_another_order_is_refused_where_the_model_goes_by_it() -> None:
    def first(x: Tensor, by: dict[str, Tensor]) -> Tensor:
        return x * next(iter(by.values()))

    gm = capture(Applies(first, taped=False).eval(), (X, {"a": X, "b": X + 1}))
    assert (
        gm.meta["fxopt"].notes[-1]
        == "holds where by has the keys 'a', 'b' in this order: elsewhere the model goes another way"
    )
    with pytest.raises(InputError, match="by has the keys 'a', 'b' in this order, here it has 'b', 'a'"):
        gm(X, {"b": X, "a": X})


def test_a_tensor_that_is_given_twice_is_one_in_the_comparison_too() -> None:
    model = Applies(lambda x, by: x + by if x is by else x - by, taped=True).eval()
    with pytest.raises(CaptureError, match="agrees where no tensor is given twice"):
        capture(model, (X, X))
    plain = Applies(lambda x, by: x + by, taped=True).eval()
    torch.testing.assert_close(capture(plain, (X, X))(X, X + 1), X + X + 1)


def test_a_check_that_does_not_hold_for_the_example_itself_is_dropped() -> None:
    class Restless(np.ndarray):
        def __reduce__(self) -> Any:
            return object, (next(numbers),)

    numbers = iter(range(100))
    array = np.ones(2).view(Restless)
    gm = capture(Applies(lambda x, by: x * len(by), taped=False).eval(), (X, array))
    torch.testing.assert_close(gm(X, array), X * 2)


class Unwritable:
    def __reduce__(self) -> Any:
        raise pickle.PickleError("no copy of this can be written")


UNPICKLED: dict[str, tuple[Callable[[], Any], Any]] = {
    "a lambda": (lambda: lambda x: x * 2, 3),
    "a lock": (threading.Lock, None),
    "a lambda in a list": (lambda: [lambda x: x * 2], (3,)),
    "an object that refuses": (Unwritable, Settings(1.0)),
    "an object that holds a lock": (lambda: Scale(threading.Lock()), Settings(1.0)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", UNPICKLED)
def test_a_value_that_pickle_cannot_write_is_checked_by_its_type_after_loading(name: str) -> None:
    make, other = UNPICKLED[name]
    gm = capture(Applies(lambda x, by: x * 2, taped=False).eval(), (X, make()))
    file = io.BytesIO()
    torch.save(gm, file)
    file.seek(0)
    report = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(gm.meta["fxopt"]))))
    for loaded in (pickle.loads(pickle.dumps(gm)), torch.load(file, weights_only=False)):
        loaded.meta["fxopt"] = report
        install_checks(loaded)
        torch.testing.assert_close(loaded(X, make()), X * 2)
        with pytest.raises(InputError, match=r"captured with by == .*, here it is .*: capture again with this"):
            loaded(X, other)


@pytest.mark.parametrize(
    ("example", "other", "message"),
    [
        ({"a": X}, [X], "captured with a dict as by, here its type is list: capture again"),
        ({"a": X}, [[X]], "captured with a dict as by, here its type is list: capture again"),
        ({"a": X}, 3, "captured with a dict as by, here its type is int: capture again"),
        ([X], {"a": X}, "captured with a list or tuple as by, here its type is dict: capture again"),
        ((X,), 3, "captured with a list or tuple as by, here its type is int: capture again"),
        ({"a": [X]}, {"a": X}, r"captured with a list or tuple as by\['a'\], here its type is Tensor: capture again"),
    ],
)
def test_another_kind_of_container_is_refused_by_its_type(example: Any, other: Any, message: str) -> None:
    gm = capture(Applies(lambda x, by: x * 2, taped=False).eval(), (X, example))
    with pytest.raises(InputError, match=message):
        gm(X, other)


def test_a_tuple_is_taken_in_place_of_a_list() -> None:
    gm = capture(Applies(lambda x, by: x * by[0], taped=False).eval(), (X, [X]))
    torch.testing.assert_close(gm(X, (X,)), X * X)
