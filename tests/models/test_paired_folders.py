"""Folders with a config in a config (encoder and decoder), and those whose main input may be of any kind."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fxopt
from fxopt.errors import ModelError
from fxopt.models import LocalFolder

_TEXT = {
    "vocab_size": 40, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
    "max_position_embeddings": 24,
}  # fmt: skip
_DECODER = {
    "vocab_size": 30, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "decoder_attention_heads": 2,
    "decoder_ffn_dim": 16, "max_position_embeddings": 20, "is_decoder": True, "add_cross_attention": True,
}  # fmt: skip
_GPT2 = {
    "vocab_size": 30, "n_positions": 18, "n_embd": 8, "n_layer": 1, "n_head": 2, "add_cross_attention": True,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_WAVES = {
    "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 40,
    "conv_dim": (8, 8), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
_PERCEIVER = {
    "num_latents": 4, "d_latents": 16, "d_model": 16, "num_blocks": 1, "num_self_attends_per_block": 1,
    "num_self_attention_heads": 2, "num_cross_attention_heads": 2, "qk_channels": 16, "v_channels": 16,
    "vocab_size": 40, "max_position_embeddings": 24, "image_size": 16, "train_size": [8, 8],
    "samples_per_patch": 16, "audio_samples_per_frame": 16,
}  # fmt: skip
_PAGES = {
    "input_size": 32, "patch_size": 8, "coordinate_size": 1, "shape_size": 2, "max_2d_position_embeddings": 128,
    "rel_pos_bins": 8, "rel_2d_pos_bins": 8, "max_rel_pos": 16, "max_rel_2d_pos": 16,
}  # fmt: skip


def _pair(kind: str, encoder: str, of_encoder: Any, decoder: str, of_decoder: Any) -> Callable[[Any], Any]:
    def make(transformers: Any) -> Any:
        configs = [getattr(transformers, f"{encoder}Config")(**of_encoder)]
        configs += [getattr(transformers, f"{decoder}Config")(**of_decoder)]
        both = getattr(transformers, f"{kind}Config").from_encoder_decoder_configs(*configs)
        return getattr(transformers, f"{kind}Model")(both)

    return make


def _vit(decoder: str, settings: Any) -> Callable[[Any], Any]:
    return _pair("VisionEncoderDecoder", "ViT", {**_SEES, "image_size": 8, "patch_size": 4}, decoder, settings)


def _one(config: str, kind: str, settings: Any) -> Callable[[Any], Any]:
    return lambda transformers: getattr(transformers, kind)(getattr(transformers, f"{config}Config")(**settings))


_SEES = {name: _TEXT[name] for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")}
_BERT = {**_TEXT, "is_decoder": True, "add_cross_attention": True}
_SWIN = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}

PAIRS: dict[str, tuple[Callable[[Any], Any], dict[str, tuple[int, ...]]]] = {
    "trocr": (_vit("TrOCR", _DECODER), {"pixel_values": (2, 3, 8, 8), "decoder_input_ids": (2, 12)}),
    "donut": (
        _pair("VisionEncoderDecoder", "DonutSwin", _SWIN, "MBart", _DECODER),
        {"pixel_values": (2, 3, 32, 32), "decoder_input_ids": (2, 12)},
    ),
    "captions": (_vit("GPT2", _GPT2), {"pixel_values": (2, 3, 8, 8), "decoder_input_ids": (2, 12)}),
    "speech": (
        _pair("SpeechEncoderDecoder", "Wav2Vec2", _WAVES, "MBart", _DECODER),
        {"input_values": (2, 3920), "decoder_input_ids": (2, 12)},
    ),
    "text": (
        _pair("EncoderDecoder", "Bert", {**_TEXT, "vocab_size": 90}, "Bert", _BERT),
        {"input_ids": (2, 12), "attention_mask": (2, 12), "decoder_input_ids": (2, 12)},
    ),
}
OTHERS: dict[str, tuple[Callable[[Any], Any], dict[str, tuple[int, ...]]]] = {
    "PerceiverModel": (_one("Perceiver", "PerceiverModel", _PERCEIVER), {"inputs": (2, 12, 16)}),
    "PerceiverForOpticalFlow": (
        _one("Perceiver", "PerceiverForOpticalFlow", _PERCEIVER),
        {"inputs": (2, 2, 27, 8, 8)},
    ),
    **{
        kind: (_one("Perceiver", kind, _PERCEIVER), {"input_ids": (2, 12), "attention_mask": (2, 12)})
        for kind in ("PerceiverForMaskedLM", "PerceiverForSequenceClassification")
    },
    **{
        f"PerceiverForImageClassification{kind}": (
            _one("Perceiver", f"PerceiverForImageClassification{kind}", _PERCEIVER),
            {"pixel_values": (2, 3, size, size)},
        )
        for kind, size in (("Learned", 16), ("Fourier", 16), ("ConvProcessing", 224))
    },
    **{
        kind: (
            _one("LayoutLMv3", kind, {**_TEXT, **_PAGES}),
            {"input_ids": (2, 12), "attention_mask": (2, 12), "bbox": (2, 12, 4), "pixel_values": (2, 3, 32, 32)},
        )
        for kind in ("LayoutLMv3Model", "LayoutLMv3ForTokenClassification", "LayoutLMv3ForQuestionAnswering")
    },
}
KINDS = {**PAIRS, **OTHERS}
AFTER_PADDING: dict[str, dict[str, int]] = {
    "Lilt": {"hidden_size": 24, "pad_token_id": 1},
    "Luke": {"entity_vocab_size": 10, "entity_emb_size": 8},
    "MarkupLM": {"xpath_unit_hidden_size": 4, "pad_token_id": 1},
    "Esm": {"pad_token_id": 1},
    "Roberta": {},
}
"""Text models whose positions begin after that of the padding token, and settings of their own."""


def saved(kind: Callable[[Any], Any], folder: Path) -> Any:
    """A small model with drawn weights, which it saved in `folder`."""
    transformers = pytest.importorskip("transformers")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(transformers).eval()
    model.save_pretrained(folder)
    return model


def change_part(folder: Path, part: str, **changes: Any) -> None:
    file = folder / "config.json"
    config = json.loads(file.read_text())
    config[part].update(changes)
    file.write_text(json.dumps(config))


@pytest.mark.parametrize("name", [*PAIRS, "PerceiverModel", "PerceiverForMaskedLM", "LayoutLMv3Model"])
def test_a_folder_opens_and_its_model_answers_at_its_longest(name: str, tmp_path: Path) -> None:
    make, shapes = KINDS[name]
    made = saved(make, tmp_path)
    source = LocalFolder(tmp_path)
    model = source.build()
    assert all(torch.equal(tensor, model.state_dict()[each]) for each, tensor in made.state_dict().items())
    inputs = source.inputs(model, 2, 12)[1]
    assert {each: tuple(tensor.shape) for each, tensor in inputs.items()} == shapes
    assert source.sizes.sequence is not None
    with torch.no_grad():
        answer = model(**source.inputs(model, 1, source.sizes.sequence.most)[1])
    assert all(isinstance(value, Tensor) for value in answer.values())  # no cache of a part among them


@pytest.mark.parametrize(
    "name", ["trocr", *(pytest.param(each, marks=pytest.mark.slow) for each in KINDS if each != "trocr")]
)
def test_a_captured_folder_answers_as_its_model_does(name: str, tmp_path: Path) -> None:
    make, shapes = KINDS[name]
    saved(make, tmp_path)
    source = LocalFolder(tmp_path)
    model = source.build()
    length = 12 if source.sizes.sequence is not None else None
    inputs = source.inputs(model, 2, length)[1]
    assert {each: tuple(tensor.shape) for each, tensor in inputs.items()} == shapes
    graph = fxopt.capture(model, (), inputs)
    for example in (inputs, source.inputs(model, 3, length)[1]):
        with torch.no_grad():
            expected, found = model(**example), graph(**example)
        assert all(torch.equal(value, found[each]) for each, value in expected.items())


@pytest.mark.parametrize(
    ("name", "longest"), [("trocr", 20), ("captions", 18), ("text", 24), ("LayoutLMv3Model", 22)]
)  # the least of both sides; positions of LayoutLMv3 begin after its padding token
def test_the_longest_sequence_is_one_that_every_side_has(name: str, longest: int, tmp_path: Path) -> None:
    saved(KINDS[name][0], tmp_path)
    sizes = LocalFolder(tmp_path).sizes
    assert sizes.sequence is not None
    assert sizes.sequence.most == longest


@pytest.mark.parametrize("name", AFTER_PADDING)
def test_positions_that_begin_after_the_padding_token_are_all_usable(name: str, tmp_path: Path) -> None:
    saved(_one(name, f"{name}Model", {**_TEXT, **AFTER_PADDING[name]}), tmp_path)
    source = LocalFolder(tmp_path)
    assert source.sizes.sequence is not None
    assert source.sizes.sequence.most == 22
    model = source.build()
    with torch.no_grad():
        assert model(**source.inputs(model, 1, 22)[1]).last_hidden_state.shape[:2] == (1, 22)


@pytest.mark.parametrize("name", ["trocr", "speech", "text"])
def test_a_pair_without_architectures_is_the_one_class_of_its_config(name: str, tmp_path: Path) -> None:
    made = saved(KINDS[name][0], tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({each: value for each, value in config.items() if each != "architectures"}))
    assert type(LocalFolder(tmp_path).build()) is type(made)


def test_a_head_that_looks_has_no_sequence(tmp_path: Path) -> None:
    saved(KINDS["PerceiverForImageClassificationLearned"][0], tmp_path)
    assert LocalFolder(tmp_path).sizes.sequence is None


def test_tokens_are_of_the_vocabulary_of_the_side_that_reads_them(tmp_path: Path) -> None:
    source = LocalFolder(tmp_path)
    saved(KINDS["text"][0], tmp_path)
    inputs = source.inputs(source.build(), 8, 24)[1]
    assert 40 <= inputs["input_ids"].max() < 90
    assert inputs["decoder_input_ids"].max() < 40


def test_inputs_of_several_kinds_at_once_are_made(tmp_path: Path) -> None:
    saved(_one("Perceiver", "PerceiverForMultimodalAutoencoding", _PERCEIVER), tmp_path)
    source = LocalFolder(tmp_path)
    inputs = source.inputs(source.build())[1]
    assert inputs["inputs"].keys() == {"image", "audio", "label"}
    assert inputs["subsampled_output_points"].keys() == {"image", "audio", "label"}


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_settings_of_a_part_that_name_code_are_not_followed(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*args: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)
    saved(KINDS["trocr"][0], tmp_path)
    mark = tmp_path / "ran"
    (tmp_path / "modeling_mine.py").write_text(f"import os; os.mkdir({str(mark)!r})")
    change_part(
        tmp_path,
        part,
        auto_map={"AutoModel": f"{tmp_path}--modeling_mine.Model", "AutoConfig": "modeling_mine.Config"},
        attn_implementation="stranger/kernel",
        _attn_implementation="stranger/kernel",
        transformers_weights="adapter_model.bin",
    )
    model: Any = LocalFolder(tmp_path).build()
    assert not mark.exists()
    assert not hasattr(getattr(model.config, part), "auto_map")
    assert not getattr(model, part).config._attn_implementation.startswith("stranger")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mine", "auto_map": {"AutoConfig": "modeling_mine.Config"}}, "mine"),
        ({"quantization_config": {"quant_method": "gptq"}}, "its weights are quantized"),
        ({"hidden_size": 16}, "are of other shapes"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers = 1,000,000"),
    ],
)
def test_a_part_that_cannot_be_used_is_said(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    saved(KINDS["trocr"][0], tmp_path)
    change_part(tmp_path, "encoder", **changes)
    with pytest.raises(ModelError, match=message):
        LocalFolder(tmp_path).build()
