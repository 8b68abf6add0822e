"""Values are taken apart and put together without loss."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fxopt.tracing import capture
from fxopt.tracing.structure import Slot, assemble, dismantle, same_structure, tensors_of, whole_parts_of

Point = collections.namedtuple("Point", "x y")


class Box:
    """An ordinary object, as the key-value caches of transformers are."""

    def __init__(self, content: Any) -> None:
        self.content = content


@dataclasses.dataclass
class Output(collections.OrderedDict[str, Any]):
    """As the ModelOutput of transformers: an assigned attribute becomes an item, in the order of assignment."""

    first: Any = None
    second: Any = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("first", "second") and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


def output(pairs: list[tuple[str, Any]]) -> Output:
    made = Output()
    for name, value in pairs:
        setattr(made, name, value)
    return made


leaves = st.one_of(
    st.integers(0, 9).map(lambda size: torch.arange(float(size))),
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(max_size=3),
)
values = st.recursive(
    leaves,
    lambda part: st.one_of(
        st.lists(part, max_size=3),
        st.lists(part, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), part, max_size=3),
        st.dictionaries(st.text(max_size=2), part, max_size=3).map(collections.OrderedDict),
        st.tuples(part, part).map(lambda pair: Point(*pair)),
        part.map(Box),
        st.lists(st.tuples(st.sampled_from(["second", "first", "note"]), part), max_size=4).map(output),
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(values)
def test_assembling_the_parts_gives_the_value_again(value: Any) -> None:
    skeleton, parts = dismantle(value)
    again, same = dismantle(assemble(skeleton, parts))
    assert same_structure(skeleton, again)
    assert all(x is y for x, y in zip(parts, same, strict=True))
    assert all(x is y for x, y in zip(tensors_of(value), parts, strict=True))


@settings(deadline=None)
@given(values)
def test_other_parts_take_the_same_places(value: Any) -> None:
    skeleton, parts = dismantle(value)
    numbered = [torch.tensor(float(index)) for index in range(len(parts))]
    assert tensors_of(assemble(skeleton, numbered)) == numbered


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], (1,)),
        ({"a": 1}, {"b": 1}),
        ([Slot(0)], [Slot(0), Slot(1)]),
        (Box(1), Box(2)),
        (None, 0),
        (1, True),
        (Point(1, 2), (1, 2)),
        (output([("first", 1), ("second", 2)]), output([("second", 2), ("first", 1)])),
        (output([("first", 1)]), output([("first", 1), ("note", 2)])),
        (output([("first", 1)]), output([("first", 1), ("first", None)])),
    ],
)
def test_other_structures_are_told_apart(one: Any, other: Any) -> None:
    assert not same_structure(one, other)
    assert same_structure(one, one)


def test_an_object_within_itself_is_copied_once() -> None:
    box = Box(None)
    box.content = [box, torch.ones(1)]
    skeleton, parts = dismantle(box)
    copied = assemble(skeleton, parts)
    assert copied.content[0] is copied
    assert copied.content[1] is parts[0]
    assert copied is not box


class Longer(torch.nn.Module):
    def forward(self, x: torch.Tensor, cache: Box) -> Any:
        return torch.cat([cache.content, x]).sin(), Box([torch.cat([cache.content, x]), 3])


def test_a_graph_that_takes_an_object_and_gives_one_is_pickled_and_traced_within_another() -> None:
    x, cache = torch.ones(1, 2), Box(torch.zeros(2, 2))
    gm = capture(Longer(), (x, cache))
    expected, given = gm(x, cache)
    around = torch.fx.Graph()
    around.output(around.call_module("inner", (around.placeholder("x"), around.placeholder("cache"))))
    inside = torch.fx.symbolic_trace(torch.fx.GraphModule({"inner": gm}, around))
    for other in (pickle.loads(pickle.dumps(gm)), inside):
        found, longer = other(x, cache)
        assert torch.equal(found, expected)
        assert type(longer) is Box
        assert torch.equal(longer.content[0], given.content[0])
        assert longer.content[1] == 3


def test_an_array_is_left_whole_and_an_empty_tuple_is_a_container() -> None:
    array = np.ones(3)
    (found,) = whole_parts_of({"a": array, "b": ((), torch.ones(2))})
    assert found is array
