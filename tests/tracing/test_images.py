"""Heights and widths of images are free where the model takes any."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from fxopt.tracing import InputSizeError, capture, rungs, trace
from tests.tracing.asserts import assert_equal_up_to_rounding
from tests.tracing.matrix.models import Row, row_of
from tests.tracing.zoo import build

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


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ViTModel", "embeddings.position_embeddings is about positions"),
        pytest.param("SwinModel", "relative_position_bias_table is about positions", marks=pytest.mark.slow),
        pytest.param("Swinv2Model", "continuous_position_bias_mlp.0.weight is about positions", marks=pytest.mark.slow),
        pytest.param("MobileViTModel", "is attention over what patch_size of the config cut", marks=pytest.mark.slow),
    ],
)
def test_a_model_that_knows_positions_is_recorded_at_one_height_and_says_why(name: str, reason: str) -> None:
    report = trace(row_of(name).build()).meta["fxopt"]
    assert not report.tried
    assert list(report.free) == ["batch"]
    (told,) = (note for note in report.notes if note.startswith("heights and widths are those of the example: "))
    assert reason in told


class LooksAtHeight(nn.Module):
    """Takes heights of one range of 8 only, as a model whose positions are interpolated may."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if x.shape[2] // 8 == 4 else x


class TakesSquares(LooksAtHeight):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if x.shape[2] == x.shape[3] else x


def test_a_model_that_takes_a_narrow_range_has_fixed_heights_and_says_why() -> None:
    gm = capture(build(LooksAtHeight), (torch.zeros(2, 3, 32, 32),))
    report = gm.meta["fxopt"]
    assert list(report.free) == ["batch"]
    assert any("takes few heights and widths" in tried.reason for tried in report.tried)


def test_heights_that_have_to_be_widths_are_free_together() -> None:
    model = build(TakesSquares)
    gm = capture(model, (torch.zeros(2, 3, 32, 32),))
    assert list(gm.meta["fxopt"].free) == ["batch", "height"]
    x = torch.randn(3, 3, 50, 50, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gm(x), model(x))
    with pytest.raises(InputSizeError, match="width == height"):
        gm(x[..., :40])


class TakesEven(LooksAtHeight):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if 2 * math.ceil(x.shape[2] / 2) == x.shape[2] else x


class TakesLongDiagonals(LooksAtHeight):
    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if (x.shape[2] ** 2 + x.shape[3] ** 2) ** 0.5 > 20 else x


@pytest.mark.parametrize(
    ("kind", "refused", "condition"), [(TakesEven, (51, 40), "math.ceil"), (TakesLongDiagonals, (9, 9), "height")]
)
def test_a_condition_may_hold_roundings_and_roots(
    kind: type[nn.Module], refused: tuple[int, int], condition: str
) -> None:
    model = build(kind)
    gm = capture(model, (torch.zeros(2, 3, 32, 32),))
    assert list(gm.meta["fxopt"].free) == ["batch", "height", "width"]
    x = torch.randn(3, 3, 50, 40, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(gm(x), model(x))
    with pytest.raises(InputSizeError, match=condition):
        gm(torch.zeros(2, 3, *refused))


def test_a_recording_that_would_take_long_has_fixed_heights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rungs, "_SECONDS_FOR_IMAGES", 0.0)
    report = trace(row_of("ResNetModel").build()).meta["fxopt"]
    assert list(report.free) == ["batch"]
    assert "budget" in report.tried[0].reason
