"""Tensors without memory, without a count of writes, and layers that only the dispatcher sees."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fxopt
from fxopt.tracing import CaptureError, capture, rungs
from tests.quick import third


class Calls(nn.Module):
    """A layer, and a function of one's own."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.linear(x).detach()) * 2


READERS: dict[str, Callable[[Tensor], Any]] = {
    "from_dlpack": torch.from_dlpack,
    "to_dlpack": lambda x: torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    "numpy.from_dlpack": lambda x: torch.from_numpy(np.from_dlpack(x)),
    "data_ptr": lambda x: x if x.data_ptr() else x + 1,
    "storage": lambda x: x if x.untyped_storage().data_ptr() else x + 1,
}
X = torch.randn(2, 4)


@pytest.mark.parametrize("name", third(READERS))
def test_who_reads_the_memory_of_a_tensor_is_told_so_and_the_process_goes_on(name: str) -> None:
    model = Calls(READERS[name]).eval()
    with pytest.raises(CaptureError, match=r"asks for the memory of a tensor .*test_odd_tensors.py") as caught:
        capture(model, (X,))
    assert "torch.library.custom_op" in str(caught.value)
    torch.testing.assert_close(model(X), READERS[name](model.linear(X).detach()) * 2)


def test_such_a_function_as_an_operator_is_captured() -> None:
    @torch.library.custom_op("odd::through_dlpack", mutates_args=())
    def through_dlpack(x: Tensor) -> Tensor:
        return torch.from_dlpack(x).clone()

    through_dlpack.register_fake(torch.empty_like)
    model = Calls(through_dlpack).eval()
    torch.testing.assert_close(capture(model, (X,))(X), model(X))


class KeptWhole(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.from_dlpack(x) * 2


def test_shapes_and_costs_of_a_graph_with_such_a_leaf_end_in_words() -> None:
    model = nn.Sequential(nn.Linear(4, 4), KeptWhole()).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    gm = capture(model, (X,), leaf=KeptWhole)
    assert "shapes stop at" in " ".join(gm.meta["fxopt"].notes)
    torch.testing.assert_close(gm(X), model(X))


class MadeInInference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with torch.inference_mode():
            self.register_buffer("shift", torch.randn(4))
            self.register_buffer("calls", torch.zeros(1))
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_inference_mode_enabled():
            self.calls.add_(1)
        x = x + self.shift
        return self.first(x) / 3 + self.second(x)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "recorded"])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_tensors_made_under_inference_mode_are_captured_and_rewritten(
    plain: bool, mode: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not plain:
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    model = MadeInInference().eval()
    with mode():
        gm = capture(model, (X,))
        assert model.calls.item() == 0
        expected = model(X)
        for pass_ in (fxopt.MergeLinears(), fxopt.ChangeTrueDivToMulByInverse()):
            pass_(gm)
            assert pass_.sites_on(gm)
        torch.testing.assert_close(gm(X), expected)
        fxopt.MergeLinears()(gm, reverse=True)
        torch.testing.assert_close(gm(X), expected)


def test_where_a_gradient_would_pass_by_such_a_tensor_the_message_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)

    class Scales(MadeInInference):
        def __init__(self) -> None:
            super().__init__()
            self.trained = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.trained(x) * self.shift

    with pytest.raises(CaptureError, match=r"shift.* made under inference_mode.*capture under torch.no_grad"):
        capture(Scales(), (X,))
    with torch.no_grad():
        assert capture(Scales(), (X,)).meta["fxopt"].verified


def test_layers_inside_vmap_are_not_blamed_on_export() -> None:
    class Mapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return torch.vmap(lambda row: self.first(row) + self.second(row))(x)

    gm = capture(Mapped().eval(), (X,))
    for pass_ in (fxopt.MergeLinears(), fxopt.FuseBiasInLinear()):
        scan = pass_.scan(gm)
        assert not scan.matches
        assert len(scan.misses) == 2
        for miss in scan.misses:
            assert "such as vmap, made of a linear layer" in miss.reason
            assert "run_decompositions" not in str(miss)
            assert "outside of vmap" in miss.remedy


def test_a_nested_tensor_is_refused_by_its_name() -> None:
    model = nn.Linear(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that they are a prototype
        model.register_buffer("parts", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    with pytest.raises(CaptureError, match=r"(?s)parts of Linear is a nested tensor.*padded in one tensor"):
        capture(model, (torch.ones(2, 4),))
