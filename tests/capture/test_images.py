"""Heights and widths of images are free where the model takes any."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fxopt.capture import InputSizeError, rungs, trace
from tests.capture.asserts import assert_equal_up_to_rounding
from tests.capture.matrix.models import Row, row_of

pytest.importorskip("transformers")


def assert_runs_at(row: Row, *sizes: tuple[int, int]) -> None:
    model = row.build()
    gm = trace(model)
    assert {"batch", "height", "width"} <= gm.meta["fxopt"].free.keys()
    channels = row.inputs(model)["pixel_values"].shape[1]
    for height, width in sizes:
        images = torch.randn(1, channels, height, width, generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            assert_equal_up_to_rounding(model(pixel_values=images), gm(pixel_values=images))


@pytest.mark.parametrize("name", ["ResNetModel", "RegNetModel"])
def test_convolutions_take_any_height_and_width(name: str) -> None:
    assert_runs_at(row_of(name), (48, 48), (64, 40), (33, 95))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ConvNextModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
        ("PoolFormerModel", {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}),
        ("SegformerModel", None),
    ],
)
def test_backbones_take_any_height_and_width(name: str, settings: dict[str, list[int]] | None) -> None:
    row = row_of(name) if settings is None else Row(name, name, settings)
    assert_runs_at(row, (96, 96), (160, 128), (97, 131))


def test_a_model_whose_own_line_fixes_them_is_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    taped = rungs.Rungs._taped

    def note(self: rungs.Rungs, name: str, *args: Any, **options: Any) -> rungs.Captured:
        begun.append(name)
        return taped(self, name, *args, **options)

    monkeypatch.setattr(rungs.Rungs, "_taped", note)

    model = row_of("ViTModel").build()
    gm = trace(model)
    assert begun == ["symbolic heights and widths"]
    assert list(gm.meta["fxopt"].free) == ["batch"]
    with pytest.raises(InputSizeError, match=r"height == 32.* the model asked at modeling_vit\.py"):
        gm(pixel_values=torch.zeros(2, 3, 64, 64))


def test_a_model_that_takes_a_narrow_range_has_fixed_heights_and_says_why() -> None:
    report = trace(row_of("Dinov2Model").build()).meta["fxopt"]
    assert list(report.free) == ["batch"]
    assert "takes few heights and widths" in report.tried[0].reason


def test_a_recording_that_would_take_long_has_fixed_heights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "_SECONDS_FOR_IMAGES", 0.0)
    report = trace(row_of("ResNetModel").build()).meta["fxopt"]
    assert list(report.free) == ["batch"]
    assert "budget" in report.tried[0].reason
