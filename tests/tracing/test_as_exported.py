"""Models that ask whether they are compiled or exported, and then go another way than in an ordinary run."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fxopt.tracing import CaptureError, capture, rungs
from tests.tracing.zoo import Perceptron, build, vector


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the models recorded, though torch.fx could trace them: they meet the same answer there as in a run."""
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)


class RaisesWhenCompiled(Perceptron):
    def forward(self, x: Any) -> Any:
        mask = None if torch.compiler.is_compiling() else torch.ones(4)
        return self.second(self.first(x)) * mask.to(x.dtype)[0]  # type: ignore[union-attr]


class ComputesOtherwise(Perceptron):
    def forward(self, x: Any) -> Any:
        y = self.first(x)
        return y + 1 if torch.compiler.is_exporting() else y * 2


class NeedsToBeTold(Perceptron):
    def forward(self, x: Any) -> Any:
        if not torch.compiler.is_exporting() and bool((x > 1e9).all()):
            return x
        return self.first(x)


@pytest.mark.parametrize("kind", [RaisesWhenCompiled, ComputesOtherwise])
def test_a_model_that_goes_another_way_when_it_is_exported_is_captured_as_it_usually_runs(kind: type) -> None:
    model = build(kind)
    gm = capture(model, (vector(),))
    torch.testing.assert_close(gm(vector(5)), model(vector(5)))
    report = gm.meta["fxopt"]
    assert (report.rung, report.verified) == ("symbolic", True)
    (failed,) = report.tried
    assert f"in {kind.__name__}" in failed.reason or "test_as_exported.py" in failed.reason
    assert "was told that the model is exported" in failed.reason


def test_a_model_that_decides_by_data_unless_it_is_exported_is_captured_at_once() -> None:
    gm = capture(build(NeedsToBeTold), (vector(),))
    assert gm.meta["fxopt"].tried == ()


def test_a_failure_that_has_another_cause_is_not_tried_a_second_time() -> None:
    class Decides(Perceptron):
        def forward(self, x: Any) -> Any:
            torch.compiler.is_compiling() and None
            return self.first(x) if x.sum() > 0 else x

    with pytest.raises(CaptureError) as caught:
        capture(build(Decides), (vector(),))
    assert not any("ordinary run" in rung.rung for rung in caught.value.rungs)


@pytest.mark.slow
def test_longt5_is_captured_without_a_mask() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LongT5Config(
        vocab_size=40, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, local_radius=3
    )
    model: nn.Module = transformers.LongT5EncoderModel(config).eval()
    x = torch.arange(16).reshape(2, 8)
    gm = capture(model, (x,))
    assert gm.meta["fxopt"].verified
    torch.testing.assert_close(gm(x)[0], model(x)[0])
