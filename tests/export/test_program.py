"""Exports as programs of torch.export and as ONNX."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fxopt
from fxopt.export import ExportError, export_onnx, export_program, export_python, program, program_bytes
from tests.cli.models import make

X = torch.rand(2, 4)
ROOT = Path(__file__).parents[2]
RUN = """
import sys, torch, numpy, onnxruntime, fxopt
from fxopt.export import export_onnx
from tests.cli.models import make
model, x = make()
wb = fxopt.Workbench(model.eval(), (x,))
wb.turn_on("MergeLinears")
file = export_onnx(wb.current, sys.argv[1], (x,))
session = onnxruntime.InferenceSession(str(file))
for batch in (2, 5):
    x = torch.rand(batch, 1, 6, 6)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), wb.current(x).detach())
print("runs")
"""


def test_a_program_keeps_the_free_sizes_and_the_bits_and_the_graph_module_is_as_it_was() -> None:
    model, x = make()
    gm = fxopt.MergeLinears()(fxopt.capture(model.eval(), (x,)))
    before = fxopt.fingerprint(gm)
    loaded = torch.export.load(io.BytesIO(program_bytes(gm, (x,)))).module()
    for batch in (2, 3, 7):
        inputs = torch.rand(batch, 1, 6, 6)
        assert torch.equal(loaded(inputs), gm(inputs))
    assert fxopt.fingerprint(gm) == before
    assert gm._forward_pre_hooks, "its checks of inputs are still there"
    fxopt.MergeLinears()(gm, reverse=True)


def test_keyword_inputs_and_containers() -> None:
    class Pair(nn.Module):
        def forward(self, pair: dict[str, torch.Tensor], *, factor: torch.Tensor) -> torch.Tensor:
            return (pair["a"] + pair["b"]) * factor

    pair, factor = {"a": torch.rand(3, 4), "b": torch.rand(3, 4)}, torch.rand(4)
    gm = fxopt.capture(Pair(), (pair,), {"factor": factor})
    exported = export_program(gm, (pair,), {"factor": factor}).module()
    assert torch.equal(exported(pair, factor=factor), gm(pair, factor=factor))


def test_a_size_that_torch_fixes_is_told_and_a_refusal_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    gm = fxopt.capture(nn.Linear(4, 3), (torch.rand(2, 4),))
    with pytest.warns(fxopt.FxoptWarning, match="batch, size 0 of input, is fixed at 1"):
        export_program(gm, (torch.rand(1, 4),))
    with pytest.raises(ExportError, match=r"as a program of torch.export.*\n.*torch.export refuses the graph"):
        export_program(gm, (torch.rand(2, 5),))
    monkeypatch.setattr(program, "_ONNX", ("no_such_onnx",))
    with pytest.raises(ExportError, match="ONNX needs no_such_onnx: pip install"):
        export_onnx(gm, "model.onnx", (torch.rand(2, 4),))


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((X, X), {}), ((), {"y": X}), ((X,), {"input": X})])
def test_an_example_that_does_not_fit_is_told_with_the_names_of_the_inputs(
    args: tuple[torch.Tensor, ...], kwargs: dict[str, torch.Tensor]
) -> None:
    gm = fxopt.capture(nn.Linear(4, 3), (X,))
    with pytest.raises(ExportError, match=r"the example does not fit the graph: .*; its inputs are \(input\); give"):
        export_program(gm, args, kwargs)


class Counting(nn.Module):
    """Changes its buffer and its input, and both reach the output."""

    n: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n.add_(1)
        return x.add_(1) * self.n + torch.rand_like(x)


def test_an_export_leaves_buffers_inputs_and_random_numbers_alone() -> None:
    x = torch.zeros(2, 3)
    gm = fxopt.capture(Counting(), (x,))
    state = torch.random.get_rng_state()
    export_program(gm, (x,))
    assert gm.n.tolist() == [0]
    assert x.count_nonzero() == 0
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(
    ("one", "other"),
    [([math.nan, 1.0], [0.0, 1.0]), ([math.inf], [torch.finfo().max]), ([0.0], [-0.0]), ([1.0], [1.0, 2.0])],
)
def test_numbers_that_are_not_the_same_are_told_apart(one: list[float], other: list[float]) -> None:
    a, b = torch.tensor(one), torch.tensor(other)
    assert program._same_tensors({"out": a}, {"out": a.clone()})
    assert not program._same_tensors({"out": a}, {"out": b})
    assert not program._same_tensors([a], [a, a])


PACKING = (fxopt.PackLinears, fxopt.PackConvolutions, fxopt.CastLinearsToBFloat16, fxopt.QuantizeLinears)


@pytest.mark.parametrize("kind", PACKING)
def test_a_packed_layer_is_refused_with_the_remedy(kind: type[fxopt.Pass[Any]], tmp_path: Path) -> None:
    x = torch.rand(2, 3, 8, 8)
    gm = fxopt.capture(nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(2), nn.Linear(36, 8)).eval(), (x,))
    if not kind().scan(gm).matches:
        pytest.skip(str(kind().scan(gm).misses[0]))
    kind()(gm)
    told = f"its code is fxopt's; turn {kind.__name__} off, and export again"
    with pytest.raises(ExportError, match=told):
        export_program(gm, (x,))
    with pytest.raises(ExportError, match=told):
        export_python(gm, tmp_path / "folder")


@pytest.mark.slow
def test_onnx_runtime_runs_the_graph_at_other_sizes(tmp_path: Path) -> None:
    """The wheels are in a folder of their own, which `make .cache/onnx/ready` makes."""
    wheels = ROOT / ".cache/onnx"
    if not (wheels / "ready").exists():
        pytest.skip("made by: make .cache/onnx/ready")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{wheels}"}
    command = [sys.executable, "-c", RUN, str(tmp_path / "model.onnx")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.endswith("runs\n")
