"""Linear layers that multiply in bfloat16: their error, and the reasons to leave one alone."""

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt import CastLinearsToBFloat16, Exactness
from fxopt.packed import BFloat16Linear, supports
from fxopt.testing import check_pass
from tests.examples import outputs
from tests.passes.asserts import assert_left_alone, captured

pytestmark = pytest.mark.skipif(not supports(torch.bfloat16), reason="needs instructions for bfloat16")

X = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))


def layers(**others: nn.Module) -> dict[str, nn.Module]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return {"a": nn.Linear(8, 16), "b": nn.Linear(16, 4, bias=False), **others}


def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = m.b(F.gelu(m.a(x)))
    return y


def test_the_laws_hold_and_every_site_is_declared_approximate() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4, bias=False)).eval()
    assert check_pass(CastLinearsToBFloat16(), [(model, (X,))]).sites == 2
    scan = CastLinearsToBFloat16().scan(fxopt.capture(model, (X,)))
    assert {CastLinearsToBFloat16().exactness(match) for match in scan.matches} == {Exactness.APPROXIMATE}


def test_a_result_is_that_of_numbers_rounded_to_bfloat16() -> None:
    gm = captured(forward, X, **layers())
    CastLinearsToBFloat16()(gm)
    a, b = gm.a, gm.b
    assert type(a) is type(b) is BFloat16Linear
    (result,) = outputs(gm, (X,))
    inner = F.gelu(F.linear(X.bfloat16().float(), a.weight.bfloat16().float(), a.bias.bfloat16().float()))
    expected = F.linear(inner.bfloat16().float(), b.weight.bfloat16().float())
    torch.testing.assert_close(result, expected, rtol=2**-7, atol=2**-7)
    assert result.dtype == torch.float32
    assert not torch.equal(result, expected.new_tensor(0).expand_as(result))


def test_it_comes_back_to_the_bit_and_its_state_dict_is_that_of_before() -> None:
    gm = captured(forward, X, **layers())
    before, keys = outputs(gm, (X,)), list(gm.state_dict())
    CastLinearsToBFloat16()(gm)
    assert list(gm.state_dict()) == keys
    assert all(tensor.dtype == torch.float32 for tensor in gm.state_dict().values())
    for again in (copy.deepcopy(gm), pickle.loads(pickle.dumps(gm))):
        for old, new in zip(outputs(gm, (X,)), outputs(again, (X,)), strict=True):
            assert torch.equal(old, new)
    CastLinearsToBFloat16()(gm, reverse=True)
    assert all(torch.equal(old, new) for old, new in zip(before, outputs(gm, (X,)), strict=True))


def test_a_call_with_gradients_is_that_of_float32() -> None:
    gm = captured(forward, X, **layers())
    expected = gm(X)
    CastLinearsToBFloat16()(gm)
    assert torch.equal(gm(X), expected)
    gm(X).sum().backward()
    assert gm.a.weight.grad is not None


def test_a_graph_in_bfloat16_is_computed_as_before() -> None:
    gm = captured(forward, X, **layers())
    plain = copy.deepcopy(gm).bfloat16()
    CastLinearsToBFloat16()(gm).bfloat16()
    with torch.no_grad():
        result = gm(X.bfloat16())
        assert result.dtype == torch.bfloat16
        assert torch.equal(result, plain(X.bfloat16()))


def test_a_written_weight_is_rounded_anew() -> None:
    gm = captured(forward, X, **layers())
    CastLinearsToBFloat16()(gm)
    with torch.no_grad():
        gm(X)
        gm.b.weight.zero_()
        assert not gm(X).any()


@pytest.mark.parametrize(
    ("dtype", "says"), [(torch.float64, "oneDNN packs float32 and bfloat16"), (torch.bfloat16, "is torch.bfloat16")]
)
def test_weights_of_another_dtype_are_left_alone(dtype: torch.dtype, says: str) -> None:
    gm = captured(lambda m, x: m.a(x), X.to(dtype), a=nn.Linear(8, 4).to(dtype))
    assert_left_alone(CastLinearsToBFloat16(), gm, says)


def test_a_layer_in_training_is_left_alone() -> None:
    gm = fxopt.capture(nn.Sequential(nn.Linear(8, 4)).train(), (X,))
    assert_left_alone(CastLinearsToBFloat16(), gm, "training mode")


def test_a_processor_without_instructions_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.passes.cast_linears_to_bfloat16.supports", lambda dtype: False)
    assert_left_alone(CastLinearsToBFloat16(), captured(forward, X, **layers()), "no instructions for bfloat16")


def test_what_is_packed_in_bfloat16_is_not_packed_again() -> None:
    gm = captured(forward, X, **layers())
    CastLinearsToBFloat16()(gm)
    assert not fxopt.PackLinears().scan(gm).matches
