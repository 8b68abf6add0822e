"""Architectures that were slow to capture, or fixed more than they need: their sizes, and the lines that decide."""

from __future__ import annotations

import builtins
import os
import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.tracing import CaptureError, CaptureReport, budget, capture
from tests.tracing.small_configs import shrunk
from tests.tracing.zoo import Perceptron, build, vector


def rows_of(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(len(x))


class AsksForLength(Perceptron):
    def forward(self, x):
        return self.first(x) + self.second.bias.sum() * torch.zeros(len(x), 16) + rows_of(x)[:, None]


class LoopsOverLength(Perceptron):
    def forward(self, x):
        return torch.stack([self.first(x[i]) for i in range(len(x))])


def test_the_length_of_a_tensor_leaves_its_first_size_free() -> None:
    model = build(AsksForLength)
    gm = capture(model, (vector(4),))
    assert gm.meta["fxopt"].rung == "symbolic"
    assert "batch" in gm.meta["fxopt"].free
    for size in (1, 2, 7):
        torch.testing.assert_close(gm(vector(size)), model(vector(size)))
    names = vars(sys.modules[__name__])
    assert "len" not in names
    assert len is builtins.len


def test_a_loop_over_the_length_of_a_tensor_fixes_it_at_its_line() -> None:
    report = capture(build(LoopsOverLength), (vector(4),)).meta["fxopt"]
    (fixed,) = (each for each in report.fixed if each.condition == "batch == 4")
    assert fixed.line is not None
    assert fixed.line.function in ("forward", "<listcomp>")
    assert "range(len(x))" in fixed.line.text


# ---------------------------------------------------------------- a budget that is spent
class Clock:
    """CPU time, and the time that `TakesLongForSequences` adds to it."""

    added = 0.0

    @classmethod
    def thread_time(cls) -> float:
        return time.thread_time() + cls.added

    perf_counter = staticmethod(time.perf_counter)


class TakesLongForSequences(Perceptron):
    """Takes much time where the second size is symbolic. The question of its size is not for torch.fx itself."""

    def forward(self, x):
        if isinstance(x.shape[1], torch.SymInt):
            Clock.added += 1000
        return self.first(x) if x.shape[1] > 4 else x


@pytest.mark.parametrize("batch", [1, 4])
def test_after_a_spent_budget_the_batch_is_still_free(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "time", Clock)
    model = build(TakesLongForSequences)
    gm = capture(model, (vector(batch),))
    report = gm.meta["fxopt"]
    spent = [each for each in report.tried if "more than the budget of 60.0 s" in each.reason]
    assert spent == [report.tried[-1]], "one way spends it, and no other of as many sizes is tried"
    assert (report.rung, list(report.free)) == ("symbolic", ["batch"])
    torch.testing.assert_close(gm(vector(3)), model(vector(3)))


class Busy:
    """A machine on which other work takes almost all of the time: an hour goes by between two looks at the clock."""

    def __init__(self) -> None:
        self.hours = 0

    def perf_counter(self) -> float:
        self.hours += 1
        return self.hours * 3600.0

    thread_time = staticmethod(time.thread_time)


def test_time_that_other_work_takes_is_not_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Busy()
    monkeypatch.setattr(budget, "time", clock)
    report = capture(build(AsksForLength), (vector(4),)).meta["fxopt"]
    assert clock.hours > 10
    assert (report.rung, "batch" in report.free) == ("symbolic", True)
    assert not any("budget" in each.reason for each in report.tried)


@pytest.mark.slow
def test_qwen3_next_keeps_its_free_sizes_on_a_busy_machine() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.Qwen3NextModel(shrunk(transformers.Qwen3NextConfig())).eval()
    work = [sys.executable, "-c", "import os; here = os.getppid()\nwhile os.getppid() == here: pass"]
    others = [subprocess.Popen(work) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        report: CaptureReport = capture(model, kwargs={"input_ids": text_of(16)}, verify=False).meta["fxopt"]
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert report.rung == "symbolic", report
    assert "batch" in report.free
    assert not any("budget" in each.reason for each in report.tried)


# ---------------------------------------------------------------- models that decide by data
def led() -> nn.Module:
    from transformers import LEDConfig, LEDModel

    layers = {f"{part}_{what}": 1 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
    widths = {"d_model": 8, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "vocab_size": 50}
    lengths = {"max_encoder_position_embeddings": 32, "max_decoder_position_embeddings": 32, "attention_window": 4}
    torch.manual_seed(0)
    return LEDModel(LEDConfig(**layers, **widths, **lengths)).eval()


def text_of(sequence: int, batch: int = 2) -> torch.Tensor:
    return torch.arange(batch * sequence).view(batch, sequence) % 40 + 3


def led_example() -> dict[str, torch.Tensor]:
    mask = torch.ones(2, 8, dtype=torch.long)
    return {"input_ids": text_of(8), "attention_mask": mask, "decoder_input_ids": text_of(5)}


def refusal(model: nn.Module, example: dict[str, torch.Tensor]) -> CaptureError:
    with pytest.raises(CaptureError) as caught:
        capture(model, kwargs=example)
    return caught.value


def test_led_is_refused_at_the_line_that_asks_for_global_attention() -> None:
    error = refusal(led(), led_example())
    last = error.rungs[-1]
    assert last.rung == "fixed sizes"
    assert error.line == last.line != error.rungs[0].line
    assert error.line is not None
    assert "is_index_global_attn.flatten().any().item()" in error.line.text
    assert "leaf='encoder' and allow_baked=True: it then decides anew at each call" in str(error)


def test_led_follows_its_data_with_the_encoder_kept_whole() -> None:
    model, example = led(), led_example()
    example["global_attention_mask"] = torch.zeros_like(example["attention_mask"])
    gm = capture(model, kwargs=example, leaf="encoder", allow_baked=True)
    report = gm.meta["fxopt"]
    assert report.rung == "real"
    assert not any(each.function == "item" for each in report.baked)
    example["global_attention_mask"][:, 0] = 1
    assert_alike(model, gm, example)


@torch.no_grad()
def assert_alike(model: nn.Module, gm: nn.Module, example: dict[str, Any]) -> None:
    expected, given = model(**example), gm(**example)
    torch.testing.assert_close(given[0], expected[0], rtol=1e-4, atol=1e-5)


def fast_speech() -> nn.Module:
    from transformers import FastSpeech2ConformerConfig, FastSpeech2ConformerModel

    stacks = {f"{part}_layers": 1 for part in ("encoder", "decoder", "duration_predictor", "energy_predictor")}
    stacks |= {"pitch_predictor_layers": 1, "speech_decoder_postnet_layers": 2, "speech_decoder_postnet_units": 8}
    stacks |= {f"{part}_predictor_channels": 8 for part in ("duration", "energy", "pitch")}
    for part in ("encoder", "decoder"):
        stacks |= {f"{part}_num_attention_heads": 1, f"{part}_linear_units": 8, f"{part}_kernel_size": 3}
    torch.manual_seed(0)
    config = FastSpeech2ConformerConfig(hidden_size=8, vocab_size=50, num_mel_bins=4, **stacks)
    return FastSpeech2ConformerModel(config).eval()


@pytest.mark.slow
def test_fast_speech_is_refused_at_the_line_that_sums_durations() -> None:
    error = refusal(fast_speech(), {"input_ids": text_of(6)})
    assert all("if duration_labels.sum() == 0:" in each.line.text for each in error.rungs if each.line is not None)
    assert error.line is not None
    assert error.line.function == "length_regulator"
    assert "capture its parts by themselves, encoder, " in str(error)
    report = capture(fast_speech(), kwargs={"input_ids": text_of(6)}, allow_baked=True).meta["fxopt"]
    assert [each.function for each in report.baked] == ["__bool__", "repeat_interleave", "repeat_interleave"]


# ---------------------------------------------------------------- models whose batch is free
def falcon(layers: int) -> nn.Module:
    from transformers import FalconH1Config, FalconH1ForCausalLM

    sizes = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 64}
    mamba = {"mamba_d_ssm": 16, "mamba_n_heads": 2, "mamba_d_head": 8, "mamba_d_state": 4, "mamba_chunk_size": 8}
    torch.manual_seed(0)
    return FalconH1ForCausalLM(FalconH1Config(**sizes, **heads, **mamba, mamba_n_groups=1)).eval()


@pytest.mark.slow
def test_falcon_h1_has_a_free_batch_where_its_sequence_is_fixed() -> None:
    """The sizes of its chunks are floors of the padded sequence: a free sequence takes several times as long."""
    model, example = falcon(1), {"input_ids": text_of(16)}
    report: CaptureReport = (gm := capture(model, kwargs=example, dynamic={"input_ids": [0]})).meta["fxopt"]
    assert (report.rung, list(report.free)) == ("symbolic", ["batch"])
    assert_alike(model, gm, {"input_ids": text_of(16, batch=3)})


def detector(name: str) -> nn.Module:
    import transformers

    stages = {
        "stage_in_channels": [8, 16, 24, 32],
        "stage_mid_channels": [8] * 4,
        "stage_out_channels": [16, 24, 32, 64],
    }
    ones = {"depths": [1] * 4, "stage_num_blocks": [1] * 4, "stage_numb_of_layers": [1] * 4}
    backbone = transformers.HGNetV2Config(
        embedding_size=8, hidden_sizes=[16, 24, 32, 64], stem_channels=[3, 4, 8], **stages, **ones,
        out_features=["stage2", "stage3", "stage4"],
    )  # fmt: skip
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 2}
    widths = {"encoder_hidden_dim": 16, "d_model": 16, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    channels = {"encoder_in_channels": [24, 32, 64], "decoder_in_channels": [16] * 3, "feat_strides": [8, 16, 32]}
    rest = {"num_queries": 5, "decoder_n_points": [1] * 3, "num_labels": 3}
    config = getattr(transformers, f"{name}Config")(backbone_config=backbone, **heads, **widths, **channels, **rest)
    torch.manual_seed(0)
    return getattr(transformers, f"{name}ForObjectDetection")(config).eval()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["DFine", "Deimv2"])
def test_the_batch_of_a_detector_that_asks_for_the_length_of_its_features_is_free(name: str) -> None:
    model = detector(name)
    gm = capture(model, kwargs={"pixel_values": torch.randn(2, 3, 64, 64)})
    assert list(gm.meta["fxopt"].free) == ["batch"]
    assert_alike(model, gm, {"pixel_values": torch.randn(3, 3, 64, 64)})
