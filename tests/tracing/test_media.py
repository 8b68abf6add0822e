"""Models of text with images, videos and sound: inputs made, captured, verified, a pass switched on and off."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fxopt import MergeLinears
from fxopt.graph.fingerprint import fingerprint
from fxopt.tracing import CaptureError, InputError, capture, example_inputs, example_memory
from tests.tracing.asserts import assert_equal_up_to_rounding
from tests.tracing.small_configs import shrunk

transformers = pytest.importorskip("transformers")


def small(model_type: str) -> nn.Module:
    """The base model of this type, with few small layers."""
    config = shrunk(transformers.CONFIG_MAPPING[model_type]())
    torch.manual_seed(0)
    model: nn.Module = transformers.AutoModel.from_config(config).eval()
    return model


def assert_captured_and_restored(model: nn.Module, inputs: dict[str, Any], **options: Any) -> None:
    gm = capture(model, kwargs=inputs, **options)
    assert gm.meta["fxopt"].verified
    before = fingerprint(gm)
    MergeLinears()(gm)
    assert fingerprint(gm) != before
    with torch.no_grad():
        assert_equal_up_to_rounding(model(**inputs), gm(**inputs))
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == before


@pytest.mark.parametrize(
    ("model_type", "inputs"),
    [
        ("qwen2_vl", ["input_ids", "attention_mask", "pixel_values", "image_grid_thw", "mm_token_type_ids"]),
        ("idefics", ["input_ids", "attention_mask", "pixel_values", "image_attention_mask"]),
        ("blip-2", ["pixel_values", "input_ids", "attention_mask"]),
        ("kosmos-2", ["pixel_values", "input_ids", "image_embeds_position_mask", "attention_mask"]),
        pytest.param("clap", ["input_ids", "input_features", "attention_mask"], marks=pytest.mark.slow),
        ("kimi_k25_vision", ["pixel_values", "grid_thw"]),
        ("canine", ["input_ids", "attention_mask"]),
    ],
)
def test_a_model_runs_on_what_is_made_for_it(model_type: str, inputs: list[str]) -> None:
    model = small(model_type)
    made = example_inputs(model)
    assert list(made) == inputs
    with torch.no_grad():
        model(**made)


SEEING = ("llava", "internvl", "idefics", "mllama", "aya_vision", "gemma3", "cohere2_vision", "lfm2_vl", "siglip2",
          "kosmos-2", "idefics3")  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("model_type", SEEING)
def test_text_with_images(model_type: str) -> None:
    model = small(model_type)
    inputs = example_inputs(model)
    assert {"input_ids", "pixel_values"} <= inputs.keys()
    assert_captured_and_restored(model, inputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "line"),
    [
        ("qwen2_vl", "grid_thw.tolist()"),
        ("qwen2_5_vl", "grid_thw.tolist()"),
        ("mistral3", "size[0] // self.patch_size"),
    ],
)
def test_grids_and_sizes_in_tensors_are_data_that_the_model_decides_by(model_type: str, line: str) -> None:
    """Qwen-VL and Pixtral, inside Mistral 3, cut images by numbers that they read from a tensor."""
    model = small(model_type)
    inputs = example_inputs(model)
    with pytest.raises(CaptureError) as caught:
        capture(model, kwargs=inputs)
    assert caught.value.line is not None
    assert any(each.line is not None and line in each.line.text for each in caught.value.rungs)
    assert "allow_baked=True" in str(caught.value)
    assert_captured_and_restored(model, inputs, allow_baked=True)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["video_llava", "llava_onevision"])
def test_text_with_videos(model_type: str) -> None:
    model = small(model_type)
    inputs = example_inputs(model, ["input_ids", "attention_mask", "pixel_values_videos"])
    assert (inputs["input_ids"] == model.config.video_token_id).any()
    assert_captured_and_restored(model, inputs)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", ["videomae", "clap"])
def test_videos_alone_and_text_with_sound(model_type: str) -> None:
    model = small(model_type)
    assert_captured_and_restored(model, example_inputs(model))


@pytest.mark.slow
def test_a_perceiver_of_images_sound_and_labels() -> None:
    sizes = {"num_latents": 8, "d_latents": 32, "num_blocks": 1, "num_self_attends_per_block": 1, "num_labels": 5}
    heads = {"num_self_attention_heads": 2, "num_cross_attention_heads": 1, "_label_trainable_num_channels": 32}
    frames = {"image_size": 16, "num_frames": 2, "audio_samples_per_frame": 64, "samples_per_patch": 16}
    config = transformers.PerceiverConfig(
        **sizes, **heads, **frames, output_shape=[1, 2, 16, 16], output_num_channels=16
    )
    model = transformers.PerceiverForMultimodalAutoencoding(config).eval()
    inputs = example_inputs(model)
    assert inputs["inputs"].keys() == {"image", "audio", "label"}
    assert_captured_and_restored(model, inputs)


def test_text_agrees_with_images_of_ones_own() -> None:
    model = small("llava")
    inputs = example_inputs(model, batch=3, inputs={"pixel_values": torch.zeros(3, 3, 56, 56)})
    assert inputs["pixel_values"].eq(0).all()
    with torch.no_grad():
        model(**inputs)


def test_features_of_large_images_are_counted_without_their_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small("llava")
    expected = example_inputs(model)["input_ids"]
    monkeypatch.setattr(example_memory, "_MOST_NUMBERS", 0)
    assert torch.equal(example_inputs(model)["input_ids"], expected)


def test_a_model_without_a_forward_is_refused_with_its_parts() -> None:
    class Composed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coarse, self.fine = nn.Linear(2, 2), nn.Linear(2, 2)

    with pytest.raises(InputError, match="Composed has no forward of its own: capture one of its parts, coarse, fine"):
        example_inputs(Composed())
