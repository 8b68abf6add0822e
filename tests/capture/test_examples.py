"""Example inputs made from a config, and the familiar call of `trace`."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from fxopt.capture import InputError, example_inputs, trace
from tests.capture.zoo import TRANSFORMERS, Perceptron, build


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


def test_token_ids_are_ordinary_and_end_with_the_end_token() -> None:
    model = TRANSFORMERS["gpt2"]()
    ids = example_inputs(model, batch=4, sequence=50)["input_ids"]
    assert (ids[:, -1] == 1).all()
    assert not (ids[:, :-1] <= 1).any()
    assert ids.max() < 60


def test_floating_point_examples_have_the_dtype_of_the_model() -> None:
    model = TRANSFORMERS["vit"]().to(torch.bfloat16)
    assert example_inputs(model)["pixel_values"].dtype is torch.bfloat16


def test_inputs_without_a_rule_or_a_place_are_refused() -> None:
    model = TRANSFORMERS["bert"]()
    with pytest.raises(InputError, match=r"BertModel\.forward takes no pixel_values; it takes input_ids,"):
        example_inputs(model, ["pixel_values"])
    with pytest.raises(InputError, match="no rule makes an example of encoder_hidden_states"):
        example_inputs(model, ["encoder_hidden_states"])
    with pytest.raises(InputError, match="Perceptron has no config"):
        example_inputs(build(Perceptron))


def test_trace_takes_the_old_call() -> None:
    model = TRANSFORMERS["distilbert"]()
    gm = trace(model, input_names=["input_ids"], disable_check=True)
    assert [str(node.target) for node in gm.graph.find_nodes(op="placeholder")] == ["input_ids"]
    assert not gm.meta["fxopt"].verified
    inputs = example_inputs(model, ["input_ids"], batch=3, sequence=5)
    with torch.no_grad():
        torch.testing.assert_close(gm(**inputs).last_hidden_state, model(**inputs).last_hidden_state)


def test_a_tracer_of_ones_own_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"tracer_cls=.* has no part in it"):
        trace(TRANSFORMERS["distilbert"](), tracer_cls=fx.Tracer)
