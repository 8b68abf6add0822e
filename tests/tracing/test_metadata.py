"""Every node that gives a tensor says its shape and dtype, its module, and the line of the model that made it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, Interpreter, Node

from fxopt.graph.nodes import TensorInfo, info_of, module_stack_of, source_of
from fxopt.tracing import capture, example_inputs, rungs, trace
from tests.quick import quick, third
from tests.tracing.zoo import PLAIN, TRANSFORMERS, build

BATCH, SEQUENCE = 5, 19


class Values(Interpreter):
    """Runs a graph and keeps the value of each node, with the shapes of then."""

    def __init__(self, gm: GraphModule) -> None:
        super().__init__(gm)
        self.tensors: dict[Node, tuple[torch.Tensor, tuple[int, ...]]] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor) and n.op != "output":
            self.tensors[n] = value, tuple(value.shape)
        return value


def assert_told(gm: GraphModule, *args: Any, **kwargs: Any) -> None:
    """Run `gm`, and compare the metadata of each node with the tensor that it gave."""
    placeholders = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    given = dict(zip(placeholders, args)) | kwargs
    run = Values(gm)
    with torch.no_grad():
        run.run(*(given[name] for name in placeholders if name in given))
    names = {name: size_at(places.split(", ")[0], given) for name, places in gm.meta["fxopt"].free.items()}
    functions = {"max": max, "min": min, "math": math}
    for node, (tensor, shape) in run.tensors.items():
        info = info_of(node)
        assert info is not None, f"{node.format_node()} has no shape"
        told = tuple(eval(size, {}, names | functions) if isinstance(size, str) else size for size in info.shape)
        assert (told, info.dtype, info.device) == (shape, tensor.dtype, tensor.device), node.format_node()
        if is_input(node):
            continue  # no module and no line made it
        line = source_of(node)
        assert line is not None, f"{node.format_node()} has no line"
        assert line.text
        assert "nn_module_stack" in node.meta
        if node.op == "call_module" and "." in str(node.target):
            owner = str(node.target).rpartition(".")[0]
            assert owner.startswith(module_stack_of(node)[-1][0]) or not owner


def size_at(place: str, inputs: dict[str, Any]) -> int:
    """The size that a report means by ``size 0 of inputs['x']``."""
    _, dimension, _, path = place.split(" ", 3)
    return eval(path, {}, inputs).shape[int(dimension)]


def is_input(node: Node) -> bool:
    """A placeholder, or a part of one."""
    if node.op == "placeholder":
        return True
    return getattr(node.target, "__name__", "") in ("getitem", "tensors_of") and is_input(node.args[0])


@pytest.fixture(scope="module", params=quick(("bert", "llama", "t5", "groupvit"), "bert", "llama"))
def traced(request: pytest.FixtureRequest) -> tuple[nn.Module, GraphModule]:
    model = TRANSFORMERS[request.param]()
    return model, trace(model)


def test_every_tensor_of_a_transformers_model_is_told_at_other_sizes_too(traced: Any) -> None:
    model, gm = traced
    assert_told(gm, **example_inputs(model, batch=BATCH, sequence=SEQUENCE))


def test_sizes_are_written_in_names_that_a_person_can_read(traced: Any) -> None:
    _, gm = traced
    free = set(gm.meta["fxopt"].free)
    for node in gm.graph.nodes:
        info = info_of(node)
        for size in info.shape if info is not None else ():
            if isinstance(size, str):
                assert set(compile(size, "", "eval").co_names) <= free, f"{node.format_node()}: {size}"


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", third(PLAIN))
def test_every_tensor_of_a_plain_module_is_told(name: str, recorded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if recorded:
        monkeypatch.setattr(rungs, "is_plain", lambda model: False)
    kind, example = PLAIN[name]
    args, kwargs = example(3)
    gm = capture(build(kind), args, kwargs)
    more_args, more_kwargs = example(BATCH)
    assert_told(gm, *more_args, **more_kwargs)


def test_containers_of_tensors_tell_of_each() -> None:
    class Splits(nn.Module):
        def forward(self, x):
            left, right = x.chunk(2, dim=1)
            values, indices = left.max(dim=1)
            return values, indices, right

    gm = capture(Splits(), (torch.randn(3, 8),), dynamic={"x": [0]})
    told = {node.name: node.meta["tensor_info"] for node in gm.graph.nodes if "tensor_info" in node.meta}
    assert told["chunk"] == (TensorInfo(("batch", 4), torch.float32),) * 2
    assert [info.dtype for info in told["max_1"]] == [torch.float32, torch.int64]
