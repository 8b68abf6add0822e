"""Linear layers that multiply integers of 8 bits: their steps and spans, and the numbers that are left to torch."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import Exactness, QuantizeLinears
from fxopt.errors import ArgumentError
from fxopt.evidence import spans_of
from fxopt.packed import Int8Linear, multiplies_int8
from fxopt.packed.int8 import MOST_COLUMNS
from fxopt.testing import check_pass
from tests.examples import outputs
from tests.passes.asserts import assert_left_alone, captured

needs_vnni = pytest.mark.skipif(not multiplies_int8(), reason="needs VNNI")

X = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
SPANS = {"a": (-4.0, 4.0)}


def linear(bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Linear(32, 8, bias=bias)


def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
    return F.relu(m.a(x))


def by_steps(x: torch.Tensor, layer: nn.Linear, low: float, high: float) -> torch.Tensor:
    """The result by the formula, in float64."""
    step = (high - low) / 255
    zero = round(-low / step)
    integers = torch.clamp(torch.round(x / step) + zero, 0, 255).double() - zero
    scales = layer.weight.abs().amax(1, keepdim=True).double() / 127
    weight = torch.round(layer.weight.double() / scales)
    bias = 0 if layer.bias is None else layer.bias.double()
    return integers @ weight.T * step * scales.T + bias


@needs_vnni
@pytest.mark.parametrize("spans", [None, {"_0": (-4.0, 4.0)}])
def test_the_laws_hold_and_every_site_is_declared_approximate(spans: Any) -> None:
    model = nn.Sequential(linear(), nn.ReLU()).eval()
    pass_ = QuantizeLinears(spans)
    assert check_pass(pass_, [(model, (X,))]).sites == 1
    assert [pass_.exactness(match) for match in pass_.scan(fxopt.capture(model, (X,))).matches] == [
        Exactness.APPROXIMATE
    ]


@needs_vnni
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("static", [True, False])
def test_a_result_is_that_of_the_formula(bias: bool, static: bool) -> None:
    layer = linear(bias)
    gm = captured(forward, X, a=layer)
    QuantizeLinears(SPANS if static else None)(gm)
    low, high = SPANS["a"] if static else (float(X.min()), float(X.max()))
    (result,) = outputs(gm, (X,))
    expected = by_steps(X, layer, low, high).relu()
    close = (result - expected).abs() < 1e-5
    assert close.double().mean() > 0.9, "but for inputs that lie at the edge between two integers"
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=0.05)
    assert 0 < float((result - F.relu(layer(X)).detach()).abs().max()) < 0.1


@needs_vnni
def test_numbers_outside_of_a_given_span_count_as_its_ends() -> None:
    layer = linear(bias=False)
    static = Int8Linear(layer.weight, None, span=(0.5, 2.0))
    assert static.span == (0.0, 2.0)
    with torch.no_grad():
        assert torch.equal(static(torch.full((2, 32), 100.0)), static(torch.full((2, 32), 2.0)))


@needs_vnni
@pytest.mark.parametrize("value", [2e15, math.nan, math.inf, -math.inf, 3e38, 0.0, 1e-44])
def test_numbers_that_have_no_step_are_left_to_torch(value: float) -> None:
    layer, x = linear(), torch.full((2, 32), value)
    with torch.no_grad():
        assert torch.equal(Int8Linear(layer.weight, layer.bias)(x).nan_to_num(7), layer(x).nan_to_num(7))


@needs_vnni
def test_a_row_of_zeros_and_a_weight_with_nan_are_as_before() -> None:
    layer = linear()
    with torch.no_grad():
        layer.weight[0] = 0
        assert torch.equal(Int8Linear(layer.weight, layer.bias)(X)[:, 0], layer(X)[:, 0])
        layer.weight[1, 1] = math.nan
        assert torch.equal(Int8Linear(layer.weight, layer.bias)(X).isnan(), layer(X).isnan())


@needs_vnni
@pytest.mark.parametrize("shape", [(32,), (1, 32), (2, 3, 32), (0, 32), (2, 0, 32)])
def test_inputs_of_other_shapes(shape: tuple[int, ...]) -> None:
    layer, x = linear(), torch.randn(shape)
    with torch.no_grad():
        result, expected = Int8Linear(layer.weight, layer.bias)(x), layer(x)
    assert (result.shape, result.stride(), result.dtype) == (expected.shape, expected.stride(), expected.dtype)
    torch.testing.assert_close(result, expected, rtol=0, atol=0.1)


@needs_vnni
def test_strides_of_an_input_play_no_role() -> None:
    layer = linear()
    module = Int8Linear(layer.weight, layer.bias)
    with torch.no_grad():
        assert torch.equal(module(X.T.contiguous().T), module(X))
        assert torch.equal(module(X[::2]), module(X[::2].contiguous()))


@needs_vnni
def test_it_comes_back_to_the_bit_and_its_state_dict_is_that_of_before() -> None:
    gm = captured(forward, X, a=linear())
    before, keys = outputs(gm, (X,)), list(gm.state_dict())
    pass_ = QuantizeLinears(SPANS)
    pass_(gm)
    assert list(gm.state_dict()) == keys
    for again in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        assert all(torch.equal(old, new) for old, new in zip(outputs(gm, (X,)), outputs(again, (X,)), strict=True))
    pass_(gm, reverse=True)
    assert all(torch.equal(old, new) for old, new in zip(before, outputs(gm, (X,)), strict=True))


@needs_vnni
def test_spans_are_measured_over_all_inputs_and_left_out_where_a_number_is_not_finite() -> None:
    def ask(m: Any, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = m.a(x)
        return y + 1 / (x.sum() * 0)

    gm = captured(ask, X, a=linear())
    spans = spans_of(gm, [X, X * 2])
    assert spans == {"a": (float(X.min()) * 2, float(X.max()) * 2)}
    assert spans_of(gm, [X, X * math.inf]) == {}
    with pytest.raises(ArgumentError, match=r"write \[inputs\]"):
        spans_of(gm, X)


@needs_vnni
def test_an_input_without_a_span_is_left_alone() -> None:
    assert_left_alone(QuantizeLinears({"y": (0.0, 1.0)}), captured(forward, X, a=linear()), "no span of the input of a")


@needs_vnni
def test_the_span_is_that_of_what_the_linear_reads_whatever_is_rewritten_before_it() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.Sigmoid(), nn.Linear(32, 8)).eval()
    with torch.no_grad():
        model[0].weight.mul_(40)
    gm = fxopt.capture(model, (X,))
    pass_ = QuantizeLinears(spans_of(gm, [X]))
    wb = fxopt.Workbench(gm, passes=[fxopt.PackLinears(), pass_])
    wb.turn_on(pass_)
    for _ in range(2):
        low, high = wb.current.get_submodule("2").span
        assert (low, high <= 1) == (0, True)
        wb.turn_off(pass_, "_2")
        wb.turn_on(pass_, "_2")


@needs_vnni
def test_a_linear_that_took_a_norm_up_has_no_span_of_before() -> None:
    model = nn.Sequential(nn.Linear(32, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).eval()
    model[1].running_mean.fill_(50.0)
    gm = fxopt.capture(model, (X,))
    fold, pass_ = fxopt.FuseBatchNorm1dInLinear(), QuantizeLinears(spans_of(gm, [X]))
    wb = fxopt.Workbench(gm, passes=[fold, pass_])
    before = {site.site for site in wb.state_of(pass_).sites}
    wb.turn_on(fold)
    after = {site.site for site in wb.state_of(pass_).sites}
    assert before == {"_0", "_2"}
    assert len(after) == 1
    again = QuantizeLinears(spans_of(wb.current, [X]))
    assert {match.site for match in again.scan(wb.current).matches} == before


@needs_vnni
def test_a_transposed_weight_is_quantized_and_another_dtype_is_computed_by_torch() -> None:
    layer = linear()
    layer.weight = nn.Parameter(layer.weight.detach().T.contiguous().T)
    module = Int8Linear(layer.weight, layer.bias)
    with torch.no_grad():
        assert 0 < (module(X) - layer(X)).abs().max() < 0.1
        x = X.bfloat16()
        assert torch.equal(module.bfloat16()(x), F.linear(x, module.weight, module.bias))


@needs_vnni
def test_a_sum_that_may_leave_32_bits_is_left_alone() -> None:
    x = torch.ones(1, MOST_COLUMNS + 1)
    gm = captured(forward, x, a=nn.Linear(MOST_COLUMNS + 1, 2))
    assert_left_alone(QuantizeLinears(), gm, "may leave 32 bits")
    layer = nn.Linear(MOST_COLUMNS, 2, bias=False)
    nn.init.ones_(layer.weight)
    with torch.no_grad():
        result = Int8Linear(layer.weight, None)(torch.ones(1, MOST_COLUMNS))
    torch.testing.assert_close(result, torch.full((1, 2), float(MOST_COLUMNS)), rtol=1e-3, atol=0)


@pytest.mark.parametrize("span", [(1.0, 0.0), (0.0, math.inf), (math.nan, 1.0)])
def test_a_wrong_span_is_refused(span: tuple[float, float]) -> None:
    with pytest.raises(ArgumentError, match="for x: give two finite numbers in order"):
        QuantizeLinears({"x": span})


def test_a_processor_that_cuts_sums_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.passes.quantize_linears.multiplies_int8", lambda: False)
    assert_left_alone(QuantizeLinears(), captured(forward, X, a=linear()), "integers of 8 bits exactly")


def test_other_spans_are_another_pass_and_the_same_in_another_order_are_not() -> None:
    a, b = (0.0, 1.0), (-1.0, 2.0)
    assert QuantizeLinears({"a": a, "b": b}).signature == QuantizeLinears([("b", b), ("a", a)]).signature
    assert (
        len({one.signature for one in (QuantizeLinears(), QuantizeLinears({"a": a}), QuantizeLinears({"a": b}))}) == 3
    )
