"""A row of speed names an engine only where that engine computed the graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fxopt
from fxopt.evidence.engines import EngineRow
from fxopt.evidence.latency_report import Round, report_of
from tests.benchmarks.bench_speed import compiled_row, row, told

X = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()


def test_a_graph_that_no_engine_computed_is_that_of_the_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    faster = report_of([Round(1.0, 0.4, 1.0)] * 9)
    for module in ("optimize", "engine_trials"):
        monkeypatch.setattr(f"fxopt.workbench.{module}.measure", lambda *args, **kwargs: faster)
    monkeypatch.setattr("torch.compile", lambda model, backend: model)
    found = fxopt.optimize(net(), X)
    handed = fxopt.optimize(net(), X, engine="inductor")
    cells = row(found, handed, compiled_row(net(), {"input": X}, 1.0)).split(" | ")
    assert cells[-2:] == ["2.50 [2.50, 2.50], passes", ""]


def test_a_compiler_has_a_cell_only_with_figures_of_its_own() -> None:
    assert told(EngineRow("torch.compile", problem="it failed")) == ""
    assert told(EngineRow("torch.compile", 3.0)) == ""
