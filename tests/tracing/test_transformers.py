"""One model of each family in detail: facts, sharing and refusals of its graph. `matrix` has all models."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from fxopt.graph.nodes import SourceLine, TensorInfo, info_of, module_stack_of, source_of
from fxopt.tracing import CaptureReport, InputSizeError, example_inputs, trace
from tests.quick import quick
from tests.tracing.asserts import assert_equal_up_to_rounding, called_layers
from tests.tracing.zoo import TRANSFORMERS, leaf_calls


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    model: nn.Module
    before: dict[str, bytes]
    attributes: dict[str, list[str]]
    gm: GraphModule

    @property
    def report(self) -> CaptureReport:
        return self.gm.meta["fxopt"]

    @property
    def has_text(self) -> bool:
        return "sequence" in self.report.free


def state_bytes(model: nn.Module) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def attributes_of(model: nn.Module) -> dict[str, list[str]]:
    return {path: list(module.__dict__) for path, module in model.named_modules()}


@pytest.fixture(scope="module", params=quick(TRANSFORMERS, "bert", "gpt2", "llama", "t5", "vit", "resnet"))
def case(request: pytest.FixtureRequest) -> Case:
    model = TRANSFORMERS[request.param]()
    before, attributes = state_bytes(model), attributes_of(model)
    return Case(request.param, model, before, attributes, trace(model))


@torch.no_grad()
@pytest.mark.parametrize(
    ("batch", "sequence"),
    [
        pytest.param(2, 16, marks=pytest.mark.slow),
        pytest.param(5, 16, marks=pytest.mark.slow),
        (1, 16),
        (3, 23),
        pytest.param(1, 1, marks=pytest.mark.slow),
    ],
)
def test_the_graph_replays_the_model_at_this_and_other_sizes(case: Case, batch: int, sequence: int) -> None:
    inputs = example_inputs(case.model, batch=batch, sequence=sequence)
    assert_equal_up_to_rounding(case.model(**inputs), case.gm(**inputs))


@torch.no_grad()
def test_a_mask_with_padding_is_replayed(case: Case) -> None:
    if not case.has_text:
        pytest.skip("no attention mask")
    inputs = example_inputs(case.model)
    inputs["attention_mask"][-1, -3:] = 0
    padded = case.gm(**inputs)
    assert_equal_up_to_rounding(case.model(**inputs), padded)


def test_the_sizes_are_symbolic_and_the_result_is_verified(case: Case) -> None:
    assert case.report.rung == "symbolic"
    assert case.report.verified
    assert "batch" in case.report.free
    assert not case.report.baked
    assert not case.report.tried


def test_every_call_of_a_layer_is_a_node_under_its_path(case: Case) -> None:
    assert called_layers(case.gm) == leaf_calls(case.model, **example_inputs(case.model))


def test_layers_are_shared_with_the_model(case: Case) -> None:
    modules = dict(case.model.named_modules())
    for node in case.gm.graph.nodes:
        if node.op == "call_module":
            assert case.gm.get_submodule(str(node.target)) is modules[str(node.target)]
    shared = {id(parameter) for parameter in case.model.parameters()}
    assert all(id(parameter) in shared for parameter in case.gm.parameters())


@torch.no_grad()
def test_a_deep_copy_is_right_and_checks_sizes_still(case: Case) -> None:
    copied = copy.deepcopy(case.gm)
    inputs = example_inputs(case.model, batch=3)
    assert_equal_up_to_rounding(case.model(**inputs), copied(**inputs))
    assert copied.config.to_dict() == case.model.config.to_dict()
    assert copied.training == case.model.training
    if "pixel_values" in inputs:
        inputs["pixel_values"] = inputs["pixel_values"][:, :-1]  # heights and widths may be free, channels are not
    else:
        inputs["attention_mask"] = inputs["attention_mask"][:, :-1]
    with pytest.raises(InputSizeError, match="captured for inputs with"):
        copied(**inputs)


def test_the_metadata_is_plain_data(case: Case) -> None:
    plain = (int, str, TensorInfo, SourceLine, type(None), torch.dtype, torch.device)

    def assert_plain(value: Any) -> None:
        if isinstance(value, dict):
            value = [*value, *value.values()]
        if isinstance(value, (list, tuple)):
            for part in value:
                assert_plain(part)
        else:
            assert type(value) in plain or isinstance(value, torch.device)
            if isinstance(value, TensorInfo):
                assert all(type(size) in (int, str) for size in value.shape)

    for node in case.gm.graph.nodes:
        assert node.meta.keys() <= {"tensor_info", "nn_module_stack", "source"}
        assert_plain(node.meta)
    assert not any(isinstance(tensor, FakeTensor) for tensor in case.gm.state_dict().values())
    assert case.gm.shape_env is None


def test_nodes_know_shape_module_and_line(case: Case) -> None:
    for node in case.gm.graph.nodes:
        if node.op == "call_module":
            info, line = info_of(node), source_of(node)
            assert info is not None
            assert line is not None
            assert "transformers" in line.file
            assert line.text
            stack = module_stack_of(node)
            assert all(str(node.target).startswith(path) for path, _ in stack[-1:])
            assert all(name for _, name in stack) or "." not in str(node.target)
    shapes = [info.shape for node in case.gm.graph.nodes if (info := info_of(node)) is not None]
    assert any("batch" in map(str, shape) for shape in shapes)


def test_the_model_is_untouched(case: Case) -> None:
    assert state_bytes(case.model) == case.before
    assert attributes_of(case.model) == case.attributes
    assert not any(module._forward_pre_hooks for module in case.model.modules())


@torch.no_grad()
def test_inputs_can_be_passed_by_position(case: Case) -> None:
    inputs = example_inputs(case.model)
    assert_equal_up_to_rounding(case.gm(**inputs), case.gm(*inputs.values()))
