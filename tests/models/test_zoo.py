from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.errors import ModelError
from fxopt.models import ARCHITECTURES, ZOO, Architecture, ModelSource, model_source
from tests.quick import quick

ALIKE = ("vit-base", "mpnet-base", "distilbert-base")
"""Large models beside which another is quicker and of the same kind."""

every_source = pytest.mark.parametrize("source", ZOO, ids=lambda source: source.key)


def state(model: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def outputs(model: nn.Module, source: ModelSource, batch: int | None = None) -> list[torch.Tensor]:
    args, kwargs = source.inputs(model, batch)
    with torch.no_grad():
        result: Any = model(*args, **kwargs)
    values = result.values() if isinstance(result, dict) else result if isinstance(result, tuple) else [result]
    return [value for value in values if isinstance(value, torch.Tensor)]


def test_keys_are_unique_and_trained_models_come_first() -> None:
    keys = [source.key for source in ZOO]
    assert len(set(keys)) == len(keys)
    assert keys[:2] == ["digits_conv_net", "digits_transformer"]


@every_source
def test_each_model_is_found_by_its_key_and_says_what_it_is(source: ModelSource) -> None:
    assert model_source(source.key) is source
    assert "Trained on" in source.description or "random weights" in source.description


def test_an_unknown_key_is_answered_with_those_there_are() -> None:
    with pytest.raises(ModelError, match=r"no model is called 'bert'; there are digits_conv_net, .*bert-base"):
        model_source("bert")


@pytest.mark.parametrize(
    "source",
    [pytest.param(each, marks=[pytest.mark.slow] if each.key in ALIKE else []) for each in ZOO],
    ids=lambda source: source.key,
)
def test_each_model_runs_on_its_inputs_and_leaves_the_generator_alone(source: ModelSource) -> None:
    before = torch.get_rng_state()
    model = source.build()
    training = [name for name, module in model.named_modules() if module.training]
    assert training == (["trained_norm"] if source.key == "lesson_near_misses" else [])
    for batch in (None, 2):
        results = outputs(model, source, batch)
        assert results
        assert all(result.isfinite().all() for result in results)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("key", quick(["llama-small", "resnet-50", "groupvit"], "groupvit"))
def test_weights_and_inputs_are_the_same_on_each_build(key: str) -> None:
    source = model_source(key)
    one = source.build()
    with torch.random.fork_rng():
        torch.manual_seed(1234)
        other = source.build()
    assert state(one).keys() == state(other).keys()
    assert all(torch.equal(tensor, state(other)[name]) for name, tensor in state(one).items())
    _, first = source.inputs(one, 3)
    _, second = source.inputs(other, 3)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())


def test_rows_of_a_batch_of_text_are_padded() -> None:
    source = model_source("distilbert-base")
    model = source.build()
    _, inputs = source.inputs(model, batch=2, sequence=16)
    assert inputs["attention_mask"].sum(1).tolist() == [16, 14]
    assert inputs["input_ids"][1, -2:].tolist() == [model.config.pad_token_id] * 2


@pytest.mark.slow
def test_the_longest_sequence_that_is_offered_fits_the_positions() -> None:
    for key in ("mpnet-base", "distilbert-base"):
        source = model_source(key)
        model = source.build()
        assert source.sizes.sequence is not None
        longest = source.sizes.sequence.most
        args, kwargs = source.inputs(model, 1, longest)
        with torch.no_grad():
            assert model(*args, **kwargs)[0].shape[1] == longest
        with pytest.raises(ModelError, match=f"sequence is {longest + 1}"):
            source.inputs(model, 1, longest + 1)


def test_batch_norms_of_random_models_do_something() -> None:
    norms = [m for m in model_source("resnet-50").build().modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 53
    for norm in norms:
        for tensor, fresh in ((norm.running_mean, 0), (norm.running_var, 1), (norm.weight, 1), (norm.bias, 0)):
            assert tensor is not None
            assert (tensor - fresh).abs().max() > 0.05


@pytest.mark.slow
def test_importing_the_models_imports_no_transformers() -> None:
    code = "import sys, fxopt.models; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("source", ARCHITECTURES[:1], ids=lambda source: source.key)
def test_without_transformers_the_error_says_what_to_install(
    source: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModelError, match="not installed; run: pip install 'transformers"):
        source.build()
