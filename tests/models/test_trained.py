from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch import nn
from torch.fx import symbolic_trace

from fxopt.errors import ModelError
from fxopt.models import TRAINED, TrainedModel, model_source, stored_digits
from fxopt.models.trained import ASSETS

every_model = pytest.mark.parametrize("source", TRAINED, ids=lambda source: source.key)


@every_model
def test_it_reads_digits_that_it_was_not_trained_on(source: TrainedModel) -> None:
    images, labels = stored_digits()
    with torch.no_grad():
        right = source.build()(images).argmax(-1) == labels
    assert right.float().mean() > 0.95


@every_model
def test_its_description_says_how_often_it_is_right(source: TrainedModel) -> None:
    assert source.accuracy > 0.95
    assert f"{source.accuracy:.1%} right" in source.description


@every_model
def test_its_weights_begin_where_those_of_a_copy_do(source: TrainedModel) -> None:
    # elsewhere the CPU's matrix product may round otherwise than the copy's
    assert {parameter.data_ptr() % 64 for parameter in source.build().parameters()} == {0}


@every_model
def test_it_is_ready_to_use_and_each_build_is_a_model_of_its_own(source: TrainedModel) -> None:
    one, other = source.build(), source.build()
    assert not any(module.training for module in one.modules())
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.zero_()
    assert all(parameter.abs().sum() > 0 for parameter in other.parameters())


@every_model
def test_its_inputs_are_digits_that_repeat_beyond_those_stored(source: TrainedModel) -> None:
    images, _ = stored_digits()
    (inputs,), kwargs = source.inputs(source.build(), batch=len(images) + 3)
    assert kwargs == {}
    assert torch.equal(inputs, torch.cat([images, images[:3]]))


@every_model
def test_a_batch_that_is_too_large_is_refused(source: TrainedModel) -> None:
    with pytest.raises(ModelError, match=rf"{source.key}: batch is 257; .* 1 to 256"):
        source.inputs(source.build(), batch=257)


def test_digits_are_images_from_0_to_1_of_all_ten_kinds() -> None:
    images, labels = stored_digits()
    assert images.shape == (64, 1, 8, 8)
    assert (images.min(), images.max()) == (0, 1)
    assert set(labels.tolist()) == set(range(10))


def test_the_convolutional_one_has_batch_norms_to_fold_and_near_misses() -> None:
    gm = symbolic_trace(model_source("digits_conv_net").build())
    modules = dict(gm.named_modules())
    before_norm: dict[str, list[tuple[str, int, bool]]] = {"BatchNorm2d": [], "BatchNorm1d": []}
    for node in gm.graph.nodes:
        kind = type(modules.get(str(node.target))).__name__
        if node.op == "call_module" and kind in before_norm:
            (source,) = node.all_input_nodes
            producer = modules[str(source.target)]
            has_bias = getattr(producer, "bias", None) is not None
            before_norm[kind].append((type(producer).__name__, len(source.users), has_bias))
    assert before_norm["BatchNorm1d"] == [("Linear", 1, True)]
    assert sorted(before_norm["BatchNorm2d"]) == [
        ("Conv2d", 1, False),
        ("Conv2d", 1, True),
        ("Conv2d", 1, True),
        ("Conv2d", 1, True),
        ("Conv2d", 2, True),  # the output is also read before batch norm
        ("MaxPool2d", 1, False),  # nothing to fold into
    ]
    assert 25 <= len(gm.graph.nodes) <= 40


def test_the_transformer_divides_by_a_number_whose_inverse_is_not_exact() -> None:
    gm = symbolic_trace(model_source("digits_transformer").build())
    divisors = [node.args[1] for node in gm.graph.nodes if "truediv" in str(node.target)]
    assert divisors == [12**0.5] * 2
    x = torch.arange(100.0)
    assert not torch.equal(x / divisors[0], x * (1 / divisors[0]))
    linears = [node for node in gm.graph.nodes if str(node.target).endswith((".query", ".key", ".value"))]
    assert len({node.args[0] for node in linears}) == 2
    assert all(isinstance(gm.get_submodule(str(node.target)), nn.Linear) for node in linears)


def test_the_stored_files_are_small() -> None:
    files = list(ASSETS.glob("*.safetensors"))
    assert len(files) == 3
    assert all(file.stat().st_size < 1_000_000 for file in files)


@pytest.mark.slow
def test_training_again_gives_models_as_good(tmp_path: Path) -> None:
    script = Path(__file__).parents[2] / "scripts" / "train_models.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True)
    stored, made = (folder / "digits.safetensors" for folder in (ASSETS, tmp_path))
    assert made.read_bytes() == stored.read_bytes()
    for source in TRAINED:  # their bytes are the same on one machine; another CPU may round otherwise
        with safe_open(tmp_path / f"{source.key}.safetensors", framework="pt") as file:
            accuracy = json.loads(file.metadata()["training"])["accuracy"]
        assert accuracy == pytest.approx(source.accuracy, abs=0.02)
