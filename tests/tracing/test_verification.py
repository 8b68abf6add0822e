"""A capture is proven on inputs of the other kinds: masks padded and full, sizes of 1 one at a time."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fxopt.tracing import CaptureError, InputError, InputSizeError, capture, trace
from tests.tracing.asserts import assert_equal_up_to_rounding
from tests.tracing.zoo import build

X = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(0))
FULL = torch.ones(2, 6, dtype=torch.int64)
PADDED = FULL - torch.tensor([[0] * 6, [0, 0, 0, 0, 1, 1]])


class SkipsFullMasks(nn.Module):
    """Does as the masks of transformers: left out where they are all ones, but never in an export."""

    otherwise = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def is_skipped(self, mask: Tensor) -> bool:
        return bool(mask.all())

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        if not torch.compiler.is_exporting() and self.is_skipped(attention_mask):
            return self.linear(x) * self.otherwise
        return self.linear(x) * attention_mask[..., None]


class SavesWork(SkipsFullMasks):
    otherwise = 1.0


class SkipsMasksThatBeginWithOne(SkipsFullMasks):
    def is_skipped(self, mask: Tensor) -> bool:
        return not bool(mask.all()) and bool(mask[:, 0].all())


class CountsByTheMask(nn.Module):
    """Numbers the tokens that are there, row by row, as Qwen-VL does."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        positions = torch.zeros_like(x)
        for row, there in enumerate(attention_mask.tolist()):
            places = [place for place, one in enumerate(there) if one]
            positions[row, places] = torch.arange(float(len(places)))[:, None]
        return self.linear(x) + positions


def test_a_model_that_computes_otherwise_at_a_full_mask_is_guarded() -> None:
    model = build(SkipsFullMasks)
    gm = capture(model, (X, PADDED))
    report = gm.meta["fxopt"]
    assert report.verified
    (note,) = report.notes
    assert note.startswith("holds where attention_mask has a zero: where it is all ones, the model goes another way")
    for each in (gm, copy.deepcopy(gm)):
        torch.testing.assert_close(each(X, PADDED), model(X, PADDED))
        torch.testing.assert_close(each(X[:1], PADDED[1:]), model(X[:1], PADDED[1:]))
        with pytest.raises(InputError, match="captured for inputs where attention_mask has a zero, here it is all one"):
            each(X, FULL)
        with pytest.raises(InputError, match="the model goes another way"):
            each(X[:1], PADDED[:1])
    assert pickle.loads(pickle.dumps(report)).checks == report.checks


def test_a_full_mask_that_only_saves_work_is_not_guarded() -> None:
    model = build(SavesWork)
    gm = capture(model, (X, PADDED))
    assert gm.meta["fxopt"].notes == ()
    torch.testing.assert_close(gm(X[:1], FULL[:1]), model(X[:1], FULL[:1]))


def test_an_example_on_the_way_that_no_recording_takes_is_refused_with_the_way_named() -> None:
    with pytest.raises(CaptureError, match="it agrees where attention_mask has a zero"):
        capture(build(SkipsFullMasks), (X, FULL))


def test_a_graph_with_baked_values_tells_of_the_other_way() -> None:
    gm = capture(build(SkipsFullMasks), (X, FULL), allow_baked=True)
    report = gm.meta["fxopt"]
    assert report.rung == "real"
    assert report.notes[-1].startswith("holds where attention_mask is all ones: where it has a zero, the model goes")
    with pytest.raises(InputError, match="captured for inputs where attention_mask is all ones, here it has a zero"):
        gm(X, PADDED)


def test_a_decision_by_other_data_in_a_mask_is_refused() -> None:
    with pytest.raises(CaptureError, match="decides by the values in attention_mask"):
        capture(build(SkipsMasksThatBeginWithOne), (X, PADDED.flip(1)))


def test_a_graph_with_baked_values_is_for_the_mask_that_it_was_decided_by() -> None:
    model, mask = build(CountsByTheMask), PADDED.flip(1)
    with pytest.raises(CaptureError, match="allow_baked=True"):
        capture(model, (X, mask))
    gm = capture(model, (X, mask), allow_baked=True)
    report = gm.meta["fxopt"]
    assert report.notes[-1].startswith("holds for the zeros and ones of the example's attention_mask")
    assert pickle.loads(pickle.dumps(report)).checks == report.checks
    for each in (gm, copy.deepcopy(gm)):
        torch.testing.assert_close(each(X + 1, mask.bool()), model(X + 1, mask))
        for other in (FULL, PADDED):
            with pytest.raises(InputError, match="which here has zeros elsewhere or another shape: capture again"):
                each(X, other)


class AsksForABatchOfOne(nn.Module):
    def forward(self, input_ids: Tensor) -> Tensor:
        if input_ids.size(0) == 1 and input_ids.numel() > 1:
            return input_ids * 3.0
        return input_ids * 2.0


class AsksForOneToken(nn.Module):
    def forward(self, input_ids: Tensor) -> Tensor:
        if input_ids.size(1) == 1 and input_ids.size(0) > 1:
            return input_ids * 3.0
        return input_ids * 2.0


@pytest.mark.parametrize(
    ("kind", "condition", "wrong"),
    [(AsksForABatchOfOne, "batch != 1", (1, 6)), (AsksForOneToken, "sequence != 1", (2, 1))],
)
def test_sizes_of_one_are_tried_one_at_a_time(kind: Any, condition: str, wrong: tuple[int, int]) -> None:
    model = build(kind)
    gm = capture(model, (torch.arange(12).reshape(2, 6),))
    with pytest.raises(InputSizeError, match=condition):
        gm(torch.ones(wrong, dtype=torch.int64))
    other = torch.arange(12).reshape(3, 4)
    torch.testing.assert_close(gm(other), model(other))


class KnowsFewPairs(nn.Module):
    """Takes a batch of 2, or a sequence of 6, or both."""

    def forward(self, input_ids: Tensor) -> Tensor:
        if not torch.compiler.is_exporting() and input_ids.size(0) != 2 and input_ids.size(1) != 6:
            raise ValueError("no such pair")
        if not torch.compiler.is_exporting() and input_ids.size(1) == 8:
            return input_ids * 3.0
        return input_ids * 2.0


def test_sizes_that_do_not_change_together_are_compared_each_alone() -> None:
    model = build(KnowsFewPairs)
    gm = capture(model, (torch.arange(12).reshape(2, 6),))
    assert any("at sequence 8, output 0 differs" in tried.reason for tried in gm.meta["fxopt"].tried)
    eight = torch.arange(16).reshape(2, 8)
    try:
        assert torch.equal(gm(eight), model(eight))
    except InputSizeError as error:
        assert "sequence" in str(error)  # noqa: PT017
    assert torch.equal(gm(eight[:, :6]), model(eight[:, :6]))


def test_aimv2_answers_as_the_model_or_refuses() -> None:
    """Its attention is causal through the mask alone, and transformers leaves out a mask of ones."""
    transformers = pytest.importorskip("transformers")
    text = {
        "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 60,
        "max_position_embeddings": 96, "eos_token_id": 2,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.Aimv2TextModel(transformers.Aimv2TextConfig(**text)).eval()
    gm = trace(model, ["input_ids", "attention_mask"])
    ids = torch.randint(3, 60, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 7, dtype=torch.int64)
    mask[1, 5:] = 0
    for batch, padded in ((3, mask), (1, mask[1:2])):
        with torch.no_grad():
            expected = model(input_ids=ids[:batch], attention_mask=padded)
        assert_equal_up_to_rounding(expected, gm(input_ids=ids[:batch], attention_mask=padded))
    for batch in (3, 1):
        with pytest.raises(InputError, match=r'attention_mask has a zero.*attn_implementation="eager"'):
            gm(input_ids=ids[:batch], attention_mask=torch.ones(batch, 7, dtype=torch.int64))
