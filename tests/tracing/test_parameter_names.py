"""Inputs, parameters and layers called like names that generated code uses."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt.testing import check_pass
from fxopt.tracing import CaptureError, InputError, capture, rungs

_FORWARD = """
def forward(model, {name}, y):
    hidden = {name}.masked_fill(y > 0, float("-inf"))
    chosen = {torch}.where(y > 1, hidden, float("nan"))[:, 1:3]
    fresh = {torch}.zeros(2, device={torch}.device("meta"))
    return model.linear(y) / 3, chosen, model.get_submodule("linear-2")(y), fresh.dtype is None, y[..., None]
"""


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.add_module("linear-2", nn.Linear(4, 4))


def named(name: str) -> nn.Module:
    """A model whose first input is called `name`, beside constants that are infinite, NaN, devices and slices."""
    scope: dict[str, Any] = {"libtorch": torch}
    exec(_FORWARD.format(name=name, torch="libtorch"), scope)
    return type("Named", (Odd,), {"forward": scope["forward"]})().eval()


X, Y = torch.randn(2, 4), torch.randn(2, 4)
NAMES = ("torch", "inf", "nan", "device", "NoneType", "slice", "getattr", "fx_pytree", "pytree", "Ellipsis", "len")


def same(one: Any, other: Any) -> bool:
    return all(
        a == b if not isinstance(a, Tensor) else a.is_meta or torch.equal(a.nan_to_num(9), b.nan_to_num(9))
        for a, b in zip(one, other, strict=True)
    )


CASES = [(name, True) for name in NAMES] + [(name, False) for name in ("torch", "inf", "slice")]


@pytest.mark.parametrize(
    ("name", "plain"),
    [case if i % 3 == 0 else pytest.param(*case, marks=pytest.mark.slow) for i, case in enumerate(CASES)],
)
def test_an_input_may_be_called_like_what_generated_code_uses(
    name: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not plain:
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    model = named(name)
    expected = model(X, Y)
    gm = capture(model, (X, Y), dynamic="auto" if plain else "none")
    twins = [gm, copy.deepcopy(gm), pickle.loads(pickle.dumps(gm)), fxopt.core.shared_copy(gm)]
    twins.append(pickle.loads(pickle.dumps(copy.deepcopy(gm))))
    for twin in twins:
        assert same(twin(X, Y), expected)
        assert same(twin(**{name: X, "y": Y}), expected)
    fxopt.MergeLinears()(gm)  # which writes slices
    assert "slice(" in gm.code
    torch.testing.assert_close(gm(X, Y)[2], expected[2])
    assert same(fxopt.MergeLinears()(gm, reverse=True)(X, Y), expected)


def test_passes_obey_the_laws_beside_such_an_input() -> None:
    check_pass(fxopt.MergeLinears(), [(named("slice"), (X, Y))])
    check_pass(fxopt.ChangeTrueDivToMulByInverse(), [(named("inf"), (X, Y))])


def test_code_without_a_collision_is_as_torch_writes_it() -> None:
    assert "import" not in capture(named("x"), (X, Y)).code
    assert "import" not in capture(named("sorted"), (X, Y)).code


def test_a_graph_from_elsewhere_whose_input_hides_a_constant_is_refused() -> None:
    gm = torch.fx.symbolic_trace(named("inf"))
    with pytest.raises(CaptureError, match=r"(?s)the input inf hides what the generated code calls inf.*rename it"):
        capture(gm, (X, Y))
    assert capture(torch.fx.symbolic_trace(named("sorted")), (X, Y)) is not None


def test_an_input_called_self_is_refused() -> None:
    with pytest.raises(InputError, match=r"called self.*generated code calls the graph module that: rename it"):
        capture(named("self"), (X, Y))


class HasSelf(nn.Module):
    """A layer, a parameter and a part of one are called self."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("self", nn.Linear(4, 4))
        self.part = nn.ParameterDict({"self": nn.Parameter(torch.randn(4))})

    def forward(self, x: Tensor) -> Tensor:
        return self.get_submodule("self")(x) * self.part["self"]


@pytest.mark.parametrize("rung", ["plain", "symbolic"])
def test_a_layer_may_be_called_self(rung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if rung == "symbolic":
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    model = HasSelf().eval()
    gm = capture(model, (X,))
    assert gm.meta["fxopt"].rung == rung
    for twin in (gm, copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        torch.testing.assert_close(twin(X), model(X))


def test_an_input_called_like_a_number_gets_a_name() -> None:
    model = named("_1")
    gm = capture(model, (X, Y))
    assert same(gm(X, Y), model(X, Y))
    assert same(gm(input_1=X, y=Y), model(X, Y))


class OneLetter(nn.Module):
    """Its inputs differ in underscores alone, and one would be called self without its own."""

    def forward(self, x: Tensor, x_: Tensor, _x: Tensor, *rest: Tensor, self_: Tensor) -> Tensor:
        return x + 2 * x_ - 3 * _x + 4 * rest[0] + 5 * self_


@pytest.mark.parametrize("rung", ["plain", "symbolic"])
def test_inputs_whose_names_differ_in_underscores_alone_are_kept_apart(
    rung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rung == "symbolic":
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    model, args = OneLetter().eval(), tuple(torch.randn(2, 4) for _ in range(4))
    kwargs = {"self_": torch.randn(2, 4)}
    gm = capture(model, args, kwargs)
    assert gm.meta["fxopt"].rung == rung
    assert same(gm(*args, **kwargs), model(*args, **kwargs))


class AnyName(nn.Module):
    """Its inputs come by any keyword, or by place beside one that is called like a place."""

    def forward(self, *rest: Tensor, rest_0: Tensor | None = None, _x: Tensor | None = None, **more: Tensor) -> Tensor:
        parts = [*rest, *(part for part in (rest_0, _x) if part is not None), *more.values()]
        return sum(((index + 1) * part for index, part in enumerate(parts)), torch.zeros(4))


@pytest.mark.parametrize("names", [("rest_0",), ("_x",), ("rest_0", "_y", "y"), ("__", "rest_0_2")])
def test_an_input_given_by_keyword_keeps_its_name_beside_any_number_of_others(names: tuple[str, ...]) -> None:
    model, args = AnyName().eval(), (torch.randn(2, 4), torch.randn(2, 4))
    kwargs = {name: torch.randn(2, 4) for name in names}
    gm = capture(model, args, kwargs)
    assert same(gm(*args, **kwargs), model(*args, **kwargs))


@pytest.mark.parametrize("name", ["a.b", "in", "1", ""])
def test_an_input_that_no_function_can_name_is_refused_with_its_name(name: str) -> None:
    with pytest.raises(InputError, match=f"the input '{name}' is no name that a function of Python can give"):
        capture(AnyName().eval(), (), {name: X})


@pytest.mark.parametrize("name", ["torch", "inf", "nan", "device", "NoneType", "slice", "getattr"])
def test_a_parameter_or_layer_may_be_called_so_too(name: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_parameter(name, nn.Parameter(torch.ones(4)))
            self.add_module(f"{name}_1", nn.Linear(4, 4))

        def forward(self, x: Tensor) -> Any:
            y = getattr(self, f"{name}_1")(x * getattr(self, name))
            return y.masked_fill(x > 0, float("-inf")), torch.where(x > 0, y, float("nan"))[:, 1:3]

    model = Model().eval()
    assert same(capture(model, (X,))(X), model(X))
