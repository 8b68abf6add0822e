"""Every architecture that fxopt promises is captured whole, with free sizes, and replays as the model runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from tests.tracing.asserts import assert_equal_up_to_rounding, called_layers
from tests.tracing.matrix.models import HEADS, ROWS, Row
from tests.tracing.matrix.table import FILE, entry_of, written_entries
from tests.tracing.zoo import leaf_calls

pytest.importorskip("transformers")


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_it_is_captured_and_replays_at_all_sizes(row: Row) -> None:
    model = row.build()
    gm = row.capture(model)
    report = gm.meta["fxopt"]
    assert report.verified
    assert called_layers(gm) == leaf_calls(model, **row.inputs(model))
    assert_replays(gm, model, row, 2, 16)
    if report.rung == "symbolic":
        assert "batch" in report.free
        assert not report.baked
        assert_replays(gm, model, row, 1, 16)
        assert_replays(gm, model, row, 5, 16)
    if report.free.keys() & {"sequence", "samples", "past"} and not is_counted_in_python(row):
        assert_replays(gm, model, row, 3, 11)
        assert_replays(gm, model, row, 2, 23)
    here, there = entry_of(row, gm), written_entries(FILE.read_text())[row.name]
    assert (here.rung, here.free) == (there.rung, there.free), "write it anew: python -m tests.tracing.matrix.table"


def is_counted_in_python(row: Row) -> bool:
    """Whether the cache has a window: then it counts its tokens in an int, which is part of the graph."""
    return row.cache == "filled" and row.architecture in ("gpt-neo", "mistral", "gemma2", "gemma3", "mixtral")


def assert_replays(gm: GraphModule, model: nn.Module, row: Row, batch: int, sequence: int) -> None:
    expected, replayed = (run(each, row.inputs(model, batch, sequence)) for each in (model, gm))
    assert_equal_up_to_rounding(expected, replayed)


@torch.no_grad()
def run(module: nn.Module, inputs: dict[str, Any]) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)  # vilt draws the patches that it looks at
        return module(**inputs)


def test_the_table_names_the_models_of_the_matrix() -> None:
    assert list(written_entries(FILE.read_text())) == [row.name for row in ROWS]


def test_nearly_all_models_keep_their_sizes_free() -> None:
    rungs = [entry.rung for entry in written_entries(FILE.read_text()).values()]
    assert rungs.count("symbolic") >= 0.95 * len(rungs)
    assert len(HEADS) >= 8
