"""A script written for `transformers.utils.fx.symbolic_trace` runs with one import changed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import fx, nn

from fxopt.tracing import example_inputs, trace
from tests.tracing.zoo import TRANSFORMERS

ROOT = Path(__file__).parents[2]
OLD = ROOT / ".cache/optimum"
"""transformers 4.57, in the virtual environment that `make .cache/optimum/ready` makes."""


def placeholders(gm: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]


def test_the_old_call_by_keyword_and_by_position() -> None:
    model = TRANSFORMERS["distilbert"]()
    inputs = example_inputs(model, ["input_ids"], batch=3, sequence=5)
    for gm in (trace(model, input_names=["input_ids"], disable_check=True), trace(model, ["input_ids"], True)):
        assert placeholders(gm) == ["input_ids"]
        assert not gm.meta["fxopt"].verified
        with torch.no_grad():
            torch.testing.assert_close(gm(**inputs).last_hidden_state, model(**inputs).last_hidden_state)


def test_the_names_may_be_the_keys_of_the_models_dummy_inputs() -> None:
    model = TRANSFORMERS["bert"]()
    assert placeholders(trace(model, model.dummy_inputs.keys())) == list(model.dummy_inputs)


def test_the_graph_module_knows_config_and_device_as_the_old_one_did() -> None:
    model = TRANSFORMERS["bert"]()
    gm = trace(model, ["input_ids"])
    assert gm.config is model.config
    assert gm.device == model.device


def test_the_cache_may_go_by_its_old_name() -> None:
    model = TRANSFORMERS["llama"]()
    gm = trace(model, ["input_ids", "attention_mask", "past_key_values"])
    inputs = example_inputs(model, ["input_ids", "attention_mask", "past_key_values"], batch=3, sequence=7)
    own = example_inputs(model, ["input_ids", "attention_mask", "past_key_values"], batch=3, sequence=7)
    with torch.no_grad():
        torch.testing.assert_close(gm(**inputs).logits, model(**own).logits)


def test_a_tracer_of_ones_own_says_which_modules_stay_whole() -> None:
    class KeepsAttention(fx.Tracer):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return module_qualified_name.endswith("attention")

    model = TRANSFORMERS["bert"]()
    gm = trace(model, ["input_ids"], tracer_cls=KeepsAttention)
    assert [name for name in map(str, (node.target for node in gm.graph.nodes)) if name.endswith("attention")] == [
        "encoder.layer.0.attention", "encoder.layer.1.attention",
    ]  # fmt: skip


def test_a_graph_module_is_taken_as_it_is() -> None:
    gm = fx.symbolic_trace(nn.Linear(2, 2))
    assert trace(gm) is gm


SCRIPT = """
import copy
import torch
import transformers
from transformers import {names}
from fxopt import MergeLinears, trace as symbolic_trace  # was: transformers.utils.fx

assert transformers.__version__.startswith("4.57")
torch.set_num_threads(1)
text = dict(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=48, vocab_size=60)
model = {model}.eval()
names = {inputs}
traced = symbolic_trace(model, input_names=names)
torch.manual_seed(0)
inputs = {{
    name: torch.randn(3, 3, 32, 32) if name == "pixel_values" else torch.ones(3, 11, dtype=torch.long)
    for name in names
}}
report = traced.meta["fxopt"]
assert report.rung == "symbolic" and report.verified and "batch" in report.free, report
assert traced.config is model.config and traced.device == model.device
with torch.no_grad():
    expected, found = model(**inputs)[0], traced(**inputs)[0]
    torch.testing.assert_close(found, expected)
    MergeLinears()(traced)
    torch.testing.assert_close(traced(**inputs)[0], expected, rtol=1e-4, atol=1e-5)
    MergeLinears()(traced, reverse=True)
    assert torch.equal(traced(**inputs)[0], found)
    # the graph that transformers itself traced is taken, too
    from transformers.utils.fx import symbolic_trace as theirs
    if {theirs}:
        old = theirs(copy.deepcopy(model), input_names=names)
        MergeLinears()(old)
        torch.testing.assert_close(old(**inputs)[next(iter(model(**inputs)))], expected, rtol=1e-4, atol=1e-5)
print("agrees")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    # its own tracer fails on all but the first of these with torch 2.13
    ("names", "model", "inputs", "theirs"),
    [
        ("BertModel, BertConfig", "BertModel(BertConfig(**text))", ["input_ids", "attention_mask"], True),
        (
            "GPT2LMHeadModel, GPT2Config",
            "GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=2, vocab_size=60))",
            ["input_ids", "attention_mask"],
            False,
        ),
        (
            "T5ForConditionalGeneration, T5Config",
            "T5ForConditionalGeneration(T5Config(d_model=32, d_kv=16, d_ff=48, num_layers=2, num_heads=2, "
            "vocab_size=60))",
            ["input_ids", "attention_mask", "decoder_input_ids"],
            False,
        ),
        (
            "ViTForImageClassification, ViTConfig",
            "ViTForImageClassification(ViTConfig(**text, image_size=32, patch_size=8))",
            ["pixel_values"],
            False,
        ),
        (
            "LlamaForCausalLM, LlamaConfig",
            "LlamaForCausalLM(LlamaConfig(**text, num_key_value_heads=1))",
            ["input_ids", "attention_mask"],
            False,
        ),
    ],
    ids=["bert", "gpt2", "t5", "vit", "llama"],
)
def test_on_transformers_4(names: str, model: str, inputs: list[str], theirs: bool) -> None:
    if not (OLD / "ready").exists():
        pytest.skip("made by: make .cache/optimum/ready")
    script = SCRIPT.format(names=names, model=model, inputs=inputs, theirs=theirs)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [OLD / "bin/python", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("agrees\n")
