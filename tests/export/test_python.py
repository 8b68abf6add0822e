"""An exported file rebuilds the transformed model with torch alone: same outputs, state, ties, dtypes and mode."""

from __future__ import annotations

import dataclasses
import importlib
import operator
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule
from transformers import BertConfig, BertForMaskedLM

import fxopt
from fxopt import Workbench
from fxopt.edits import Insert
from fxopt.export import ExportError, export_python
from fxopt.models import model_source
from tests.edits.model import images, small
from tests.passes.declared import EXAMPLES

ALONE = """
import sys
for name in ("fxopt", "transformers", "safetensors", "pandas", "graphviz", "tests"):
    sys.modules[name] = None  # so that importing it raises ModuleNotFoundError
import importlib, torch
torch.set_num_threads(1)
for folder in sys.argv[1:]:
    sys.path.insert(0, folder)
    sys.modules.pop("model", None)
    model = importlib.import_module("model").load()
    sys.path.pop(0)
    expected = torch.load(folder + "/expected.pt", weights_only=True)
    args, kwargs = expected["inputs"]
    with torch.no_grad():
        result = model(*args, **kwargs)
    leaves = torch.utils._pytree.tree_leaves(result if not hasattr(result, "to_tuple") else result.to_tuple())
    for mine, other in zip(leaves, expected["outputs"], strict=True):
        assert torch.equal(mine, other), folder
    state = model.state_dict(keep_vars=True)
    assert list(state) == list(expected["state"]), folder
    for name, other in expected["state"].items():
        mine = state[name]
        assert torch.equal(mine, other) and mine.dtype == other.dtype and mine.stride() == other.stride(), name
        assert mine.requires_grad == expected["grad"][name], name
    for one, other in expected["ties"]:
        assert state[one] is state[other], (one, other)
    assert {name: module.training for name, module in model.named_modules()} == expected["training"], folder
    print(folder)
"""


def exported(gm: GraphModule, folder: Path, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> Path:
    """The folder of an export, with the outputs that it has to give."""
    export_python(gm, folder)
    with torch.no_grad():
        result = gm(*args, **(kwargs or {}))
    leaves = result.to_tuple() if hasattr(result, "to_tuple") else result
    state = gm.state_dict(keep_vars=True)
    names = list(state)
    ties = [(a, b) for i, a in enumerate(names) for b in names[:i] if state[a] is state[b]]
    expected = {
        "inputs": (args, kwargs or {}),
        "outputs": torch.utils._pytree.tree_leaves(leaves),
        "state": {name: tensor.detach() for name, tensor in state.items()},
        "grad": {name: tensor.requires_grad for name, tensor in state.items()},
        "ties": ties,
        "training": {n: m.training for n, m in gm.named_modules() if not n.startswith("_fxopt")},
    }
    torch.save(expected, folder / "expected.pt")
    return folder


def run_alone(*folders: Path) -> None:
    call = [sys.executable, "-W", "error", "-c", ALONE, *map(str, folders)]
    done = subprocess.run(call, capture_output=True, text=True, cwd=folders[0], env={"PATH": ""})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*map(str, folders)]


class Odd(nn.Module):
    """Digit names, constants, a buffer outside the state, ties, frozen weights, other dtypes, strides and modes."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.Conv1d(4, 4, 3, padding="same"), nn.Softsign())
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.layers[0].weight
        self.layers[1].weight.requires_grad_(False)
        self.twice = self.layers[0]
        self.low = nn.Parameter(torch.rand(4).to(torch.bfloat16))
        self.register_buffer("scale", torch.rand(4, 1), persistent=False)
        self.register_buffer("table", torch.rand(4, 4).T)
        self.register_buffer("count", torch.tensor(3))
        self.norm = nn.BatchNorm1d(4, affine=False, momentum=None)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> dict[str, Any]:
        y = self.layers[0](x) + self.tied(x) + self.twice(x) / 3
        y = self.layers[2](self.layers[1](y.unsqueeze(-1)).squeeze(-1)) * self.scale.T
        y = self.norm(y @ self.table + self.low.float())
        return {
            "y": y.masked_fill(y > self.count, -float("inf")),
            "parts": [y.to(torch.float64), torch.tensor([1.0, 2.0])],
        }


def odd() -> GraphModule:
    torch.manual_seed(0)
    model = Odd().eval()
    model.norm.running_mean.normal_()
    model.layers[2].train()
    return fxopt.capture(model, (torch.rand(3, 4),), verify=False)


def recurrent() -> GraphModule:
    """Modules whose constructors and attributes are special."""
    root = nn.Module()
    root.lstm, root.attention = nn.LSTM(4, 6, 2, batch_first=True), nn.MultiheadAttention(6, 2, batch_first=True)
    root.norm = nn.GroupNorm(2, 6, affine=False)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.getitem, (graph.call_module("lstm", (x,)), 0))
    z = graph.call_function(operator.getitem, (graph.call_module("attention", (y, y, y)), 0))
    graph.output(graph.call_module("norm", (graph.call_method("flatten", (z, 0, 1)),)))
    return GraphModule(root.eval(), graph)


@pytest.mark.slow
def test_a_transformed_model_is_rebuilt_in_a_process_without_fxopt(tmp_path: Path) -> None:
    gm, wb = odd(), Workbench(small())
    torch.manual_seed(0)
    for name in ("FuseBatchNorm2dInConv2d", "MergeLinears", "ChangeTrueDivToMulByInverse"):
        wb.turn_on(name)
    wb.edit(Insert("softmax", "Probe"))
    run_alone(
        exported(fxopt.ChangeTrueDivToMulByInverse()(gm), tmp_path / "odd", (torch.rand(3, 4),)),
        exported(wb.current, tmp_path / "small", (images(),)),
        exported(recurrent(), tmp_path / "recurrent", (torch.rand(2, 3, 4),)),
    )


def turn_on_all(wb: Workbench) -> None:
    """Turn on all passes that leave modules of torch alone in the graph."""
    for pass_ in wb.passes:
        if not isinstance(pass_, fxopt.PackLinears | fxopt.PackConvolutions):
            wb.turn_on(pass_)


@pytest.mark.slow
def test_every_example_is_rebuilt_before_and_after_all_passes(tmp_path: Path) -> None:
    folders = []
    for i, example in enumerate(one for one in EXAMPLES if not one.exported):
        wb = Workbench(example.graph())
        for j in range(2):
            folders.append(exported(wb.current, tmp_path / f"{i}_{j}", example.inputs()))
            turn_on_all(wb)
    run_alone(*folders)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["digits_conv_net", "digits_transformer"])
def test_a_built_in_model_is_rebuilt(key: str, tmp_path: Path) -> None:
    source = model_source(key)
    model = source.build()
    assert_rebuilt(model, *source.inputs(model), tmp_path)


@pytest.mark.slow
def test_a_model_of_transformers_is_rebuilt_with_its_named_results(tmp_path: Path) -> None:
    config = BertConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=50)
    torch.manual_seed(0)
    model = BertForMaskedLM(config).eval()  # the output weights are tied to the embedding
    assert_rebuilt(model, (), fxopt.example_inputs(model), tmp_path)
    spaces = (tmp_path / "model" / "model.py").read_text()
    assert "class transformers_modeling_outputs_MaskedLMOutput(Output):" in spaces


def assert_rebuilt(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], tmp_path: Path) -> None:
    wb = Workbench(model, args, kwargs)
    turn_on_all(wb)
    run_alone(exported(wb.current, tmp_path / "model", args, kwargs))


Pair = namedtuple("Pair", ["first", "second"])


@dataclasses.dataclass
class Result:
    first: torch.Tensor
    second: Any = None


@dataclasses.dataclass
class Clever(Result):
    def __post_init__(self) -> None:
        self.second = 1


def returning(kind: Any) -> GraphModule:
    class Returns(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return kind(x + 1, x * 2)

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(kind, (x, x)))
    return GraphModule(nn.Module(), graph)


def test_results_that_are_named_tuples_and_dataclasses_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for kind in (Pair, Result):
        export_python(returning(kind), tmp_path, f"exported_{kind.__name__}")
        found = importlib.import_module(f"exported_{kind.__name__}").load()(torch.ones(1))
        assert (found.first, found.second) == (torch.ones(1), torch.ones(1))
        assert type(found).__name__.endswith(kind.__name__)


class Custom(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.custom = Custom()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.custom(x)


class Wide(nn.Linear):
    pass


def with_(change: Any) -> GraphModule:
    layer = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()
    change(layer)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for path, _ in layer.named_children():
        x = graph.call_module(path, (x,))
    graph.output(x)
    return GraphModule(layer, graph)


@pytest.mark.parametrize(
    ("gm", "told"),
    [
        (lambda: with_(lambda m: m[0].register_forward_hook(print)), "0 (Linear): it has a forward hook"),
        (lambda: with_(lambda m: nn.utils.parametrizations.weight_norm(m[0])), "0 (ParametrizedLinear)"),
        (lambda: with_(lambda m: setattr(m[0], "in_features", 3)), "0 (Linear): nn.Linear(3, 2) builds another module"),
        (lambda: with_(lambda m: setattr(m[0], "forward", m[1].forward)), "its forward was replaced"),
        (lambda: with_(lambda m: m[0].to("meta")), "0.weight: it is on the meta device"),
        (lambda: with_(lambda m: m[0].weight.register_hook(print)), "0.weight: it has a gradient hook (register_hook)"),
        (lambda: fxopt.capture(Outer(), (torch.rand(1),), leaf=Custom), "Custom is a class outside of torch.nn"),
        (
            lambda: fxopt.PackLinears()(fxopt.capture(nn.Sequential(nn.Linear(2, 2)).eval(), (torch.rand(1, 2),))),
            "0 (PackedLinear): its code is fxopt's; turn PackLinears off, and export again",
        ),
        (lambda: with_(lambda m: m.register_module("0", Wide(2, 2))), "Wide is a class outside of torch.nn"),
        (lambda: returning(Clever), "Clever has code of its own; return a tuple or dict"),
        (lambda: returning(images), "is code outside of torch, which the file cannot import"),
    ],
)  # fmt: skip
def test_a_part_that_cannot_be_written_is_refused_with_its_reason(gm: Any, told: str, tmp_path: Path) -> None:
    made = gm()
    with pytest.raises(ExportError) as refused:
        export_python(made, tmp_path / "folder")
    assert told in str(refused.value)
    assert "nothing was written" in str(refused.value)
    assert not (tmp_path / "folder").exists()


def test_a_wrong_name_or_folder_is_refused(tmp_path: Path) -> None:
    for name in ("a-b", "class", ""):
        with pytest.raises(ExportError, match="cannot be imported"):
            export_python(small(), tmp_path, name)
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot be written"):
        export_python(small(), tmp_path / "file" / "inner")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
