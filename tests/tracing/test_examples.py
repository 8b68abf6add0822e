"""Example inputs made from a config, of one's own, and the familiar call of `trace`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.tracing import InputError, capture, example_inputs, trace
from fxopt.tracing.example import Example
from fxopt.tracing.example_rules import RULES
from fxopt.tracing.report import ExampleRefusedError
from fxopt.tracing.structure import tensors_of
from tests.tracing.asserts import assert_equal_up_to_rounding
from tests.tracing.matrix.models import row_of
from tests.tracing.zoo import TRANSFORMERS, Perceptron, build


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("bert", ["input_ids", "attention_mask"]),
        ("distilbert", ["input_ids", "attention_mask"]),
        ("gpt2", ["input_ids", "attention_mask"]),
        ("llama", ["input_ids", "attention_mask"]),
        ("t5", ["input_ids", "attention_mask", "decoder_input_ids"]),
        ("vit", ["pixel_values"]),
        ("resnet", ["pixel_values"]),
        ("groupvit", ["input_ids", "pixel_values", "attention_mask"]),
    ],
)
def test_the_inputs_that_a_model_needs_are_made_in_the_order_of_its_signature(name: str, inputs: list[str]) -> None:
    model = TRANSFORMERS[name]()
    made = example_inputs(model, batch=3, sequence=7)
    assert list(made) == inputs
    for key, tensor in made.items():
        assert tensor.shape[0] == 3
        assert key == "pixel_values" or tensor.shape == (3, 7)


def test_examples_are_the_same_each_time_and_leave_the_generator_alone() -> None:
    model = TRANSFORMERS["bert"]()
    state = torch.random.get_rng_state()
    one, other = example_inputs(model), example_inputs(model, ["attention_mask", "input_ids", "token_type_ids"])
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(one["input_ids"], other["input_ids"])
    assert list(other) == ["input_ids", "attention_mask", "token_type_ids"]


def test_text_is_ordinary_tokens_then_the_end_token_then_padding() -> None:
    model = TRANSFORMERS["gpt2"]()
    made = example_inputs(model, batch=5, sequence=50)
    lengths = made["attention_mask"].sum(1).tolist()
    assert lengths == [50, 44, 38, 32, 50]
    for ids, length in zip(made["input_ids"], lengths):
        assert ids[: length - 1].min() > 2
        assert ids[length - 1] == model.config.eos_token_id
        assert ids[length:].eq(model.config.pad_token_id).all()
    assert made["input_ids"].max() < model.config.vocab_size


def test_floating_point_examples_have_the_dtype_of_the_model() -> None:
    model = TRANSFORMERS["vit"]().to(torch.bfloat16)
    assert example_inputs(model)["pixel_values"].dtype is torch.bfloat16


def test_a_main_input_may_be_several() -> None:
    model = TRANSFORMERS["vit"]()
    model.main_input_name = ["pixel_values", "task_inputs"]  # as OneFormer has it
    assert list(example_inputs(model)) == ["pixel_values"]


def test_inputs_without_a_rule_or_a_place_are_refused() -> None:
    model = TRANSFORMERS["bert"]()
    with pytest.raises(InputError, match=r"BertModel\.forward takes no pixel_values; it takes input_ids,"):
        example_inputs(model, ["pixel_values"])
    with pytest.raises(InputError, match=r"no rule makes an example of use_cache; .*: give it yourself, as trace"):
        example_inputs(model, ["use_cache"])
    with pytest.raises(InputError, match="the config of ResNetForImageClassification says none of vocab_size"):
        Example(TRANSFORMERS["resnet"](), 2, 16, RULES).value("input_ids")
    with pytest.raises(InputError, match="BertModel returns no cache"):
        example_inputs(model, ["input_ids", "past_key_values"])
    with pytest.raises(InputError, match="Perceptron has no config"):
        example_inputs(build(Perceptron))


@pytest.mark.parametrize(
    ("row", "inputs", "shapes"),
    [
        ("LxmertModel", ["input_ids", "visual_feats", "visual_pos"], [(3, 9), (3, 10, 24), (3, 10, 4)]),
        ("ViltModel", ["input_ids", "pixel_values", "pixel_mask"], [(3, 9), (3, 3, 32, 32), (3, 32, 32)]),
        ("Wav2Vec2Model", ["input_values", "attention_mask"], [(3, 2960), (3, 2960)]),
        ("WhisperForConditionalGeneration", ["input_features", "decoder_input_ids"], [(3, 8, 48), (3, 9)]),
        ("BertForMultipleChoice", ["input_ids", "attention_mask", "labels"], [(3, 2, 9), (3, 2, 9), (3,)]),
        ("BertForTokenClassification", ["inputs_embeds", "labels"], [(3, 9, 32), (3, 9)]),
        ("BertForQuestionAnswering", ["input_ids", "start_positions", "end_positions"], [(3, 9), (3,), (3,)]),
        ("LongformerModel", ["input_ids", "global_attention_mask"], [(3, 9), (3, 9)]),
    ],
)
def test_text_images_and_sound_get_the_shapes_that_the_model_takes(
    row: str, inputs: list[str], shapes: list[tuple[int, ...]]
) -> None:
    model = row_of(row).build()
    made = example_inputs(model, inputs, batch=3, sequence=9)
    assert {name: tuple(tensor.shape) for name, tensor in made.items()} == dict(zip(inputs, shapes))
    with torch.no_grad():
        model(**made)


def test_the_encoders_outputs_are_those_of_the_encoder() -> None:
    model = TRANSFORMERS["t5"]()
    names = ["attention_mask", "decoder_input_ids", "encoder_outputs"]
    example = example_inputs(model, names, batch=3, sequence=9)
    gm = capture(model, kwargs=example)
    with torch.no_grad():
        whole = model(**example_inputs(model, batch=3, sequence=9))
        torch.testing.assert_close(gm(**example).logits, whole.logits)
        other = example_inputs(model, names, batch=2, sequence=12)
        assert_equal_up_to_rounding(model(**other), gm(**other))


def test_a_cache_is_what_the_model_returns_and_the_rest_is_the_next_token() -> None:
    model = TRANSFORMERS["llama"]()
    state = torch.random.get_rng_state()
    example = example_inputs(model, ["input_ids", "attention_mask", "past_key_values"], batch=3, sequence=9)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert example["input_ids"].shape == (3, 1)
    assert example["attention_mask"].shape == (3, 10)
    (cache,) = example.keys() - {"input_ids", "attention_mask"}  # transformers has had two names for it
    assert {tuple(tensor.shape) for tensor in tensors_of(example[cache])} == {(3, 1, 9, 16)}


def test_one_capture_decodes_token_after_token_as_the_model_does() -> None:
    model = TRANSFORMERS["llama"]()
    names = ["input_ids", "cache"]
    gm = capture(model, kwargs=example_inputs(model, names))
    step, own = (example_inputs(model, names, batch=1, sequence=5) for _ in range(2))
    for length in range(6, 10):
        with torch.no_grad():
            expected, replayed = model(**own), gm(**step)
        assert_equal_up_to_rounding(expected, replayed)
        cache = replayed.cache
        assert cache.get_seq_length() == length
        token = replayed.logits.argmax(-1)
        step, own = {"input_ids": token, "cache": cache}, {"input_ids": token, "cache": expected.cache}


def test_a_cache_that_counts_its_tokens_in_python_is_refused_at_another_count() -> None:
    model = row_of("Gemma2Model").build()
    names = ["input_ids", "cache"]
    gm = capture(model, kwargs=example_inputs(model, names, sequence=16))
    with pytest.raises(InputError, match=r"captured with cache\.layers\[0\]\.cumulative_length == 16, here it is 7"):
        gm(**example_inputs(model, names, sequence=7))


def test_values_of_ones_own_join_or_replace_the_made_ones() -> None:
    model = TRANSFORMERS["llama"]()
    ids = torch.full((2, 4), 7)
    gm = trace(model, ["input_ids"], inputs={"input_ids": ids, "use_cache": False, "position_ids": None})
    assert [str(node.target) for node in gm.graph.find_nodes(op="placeholder")] == [
        "input_ids", "position_ids", "use_cache",
    ]  # fmt: skip
    with torch.no_grad():
        expected = model(ids[:1], use_cache=False).logits
        torch.testing.assert_close(gm(ids[:1]).logits, expected)
        torch.testing.assert_close(gm(ids[:1], use_cache=False).logits, expected)
        with pytest.raises(InputError, match="captured with use_cache == False, here it is True"):
            gm(ids, use_cache=True)
        with pytest.raises(InputError, match=r"captured with position_ids == None, here it is a tensor of shape"):
            gm(ids, position_ids=torch.arange(4)[None])


_TEXT = {
    "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "intermediate_size": 48, "vocab_size": 60, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_VISION = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 16,
    "patch_size": 8,
}  # fmt: skip


def test_text_has_a_token_for_each_feature_of_its_image() -> None:
    import transformers

    config = transformers.LlavaConfig(
        text_config=transformers.LlamaConfig(**_TEXT),
        vision_config=transformers.CLIPVisionConfig(**_VISION),
        image_token_index=59,
        image_token_id=59,
    )
    model = transformers.LlavaModel(config).eval()
    made = example_inputs(model, batch=3)
    assert (made["input_ids"] == 59).sum(1).tolist() == [4, 4, 4]
    with torch.no_grad():
        model(**made)


_EPISODE = {"states": (2, 16, 5), "actions": (2, 16, 3), "rewards": (2, 16, 1), "returns_to_go": (2, 16, 1)}


@pytest.mark.parametrize(
    ("kind", "settings", "shapes"),
    [
        (
            "DecisionTransformerModel",
            {"state_dim": 5, "act_dim": 3, "hidden_size": 32, "n_layer": 1, "n_head": 2},
            {**_EPISODE, "timesteps": (2, 16)},
        ),
        (
            "PatchTSTModel",
            {"num_input_channels": 3, "context_length": 32, "d_model": 32, "num_hidden_layers": 1, "ffn_dim": 48},
            {"past_values": (2, 32, 3)},
        ),
        (
            "BrosModel",
            {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 60},
            {"input_ids": (2, 16), "bbox": (2, 16, 4), "attention_mask": (2, 16)},
        ),
    ],
)
def test_other_kinds_of_models_get_what_their_documentation_and_config_say(
    kind: str, settings: dict[str, Any], shapes: dict[str, tuple[int, ...]]
) -> None:
    import transformers

    model = getattr(transformers, kind)(getattr(transformers, kind).config_class(**settings)).eval()
    made = example_inputs(model)
    assert {name: tuple(tensor.shape) for name, tensor in made.items()} == shapes
    with torch.no_grad():
        model(**made)


class RefusesItsImage(nn.Module):
    """A model whose config says less of its images than forward asks for."""

    config = SimpleNamespace(image_size=56, num_channels=3)

    def forward(self, pixel_values: torch.Tensor, scale: torch.Tensor | None = None) -> torch.Tensor:
        if pixel_values.shape[-1] < 300:
            raise ValueError("the image is too small")
        return pixel_values


def test_a_made_input_that_the_model_refuses_is_named_with_its_shape_and_the_call_that_replaces_it() -> None:
    with pytest.raises(ExampleRefusedError) as refused:
        trace(RefusesItsImage())
    assert refused.value.remedies == (
        "give your own in place of one that was made from the config, pixel_values (2, 3, 56, 56): "
        "trace(model, inputs={...})",
    )
    assert "ValueError: the image is too small" in str(refused.value)
    with pytest.raises(ExampleRefusedError, match="What to try: another example"):
        trace(RefusesItsImage(), inputs={"pixel_values": torch.zeros(2, 3, 8, 8)})
