from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.evidence import parameter_table
from fxopt.models import model_source


def numbers(tensors: Iterable[torch.Tensor]) -> tuple[int, int]:
    tensors = list(tensors)
    return sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors)


def assert_sums_agree(before: nn.Module, after: nn.Module) -> None:
    table = parameter_table(before, after)
    for totals, model in ((table.before, before), (table.after, after)):
        assert (totals.parameters, totals.parameter_bytes) == numbers(model.parameters())
        assert (totals.buffers, totals.buffer_bytes) == numbers(model.buffers())
    frame = table.frame
    assert frame["parameters_before"].sum() == table.before.parameters
    assert frame["parameters_after"].sum() == table.after.parameters
    assert frame["bytes_after"].sum() == table.after.parameter_bytes
    assert frame["buffers_after"].sum() == table.after.buffers


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.inner = nn.Linear(4, 4)
        self.same = self.inner
        self.scores = nn.Linear(4, 10, bias=False)
        self.scores.weight = self.embedding.weight
        self.scale = nn.Parameter(torch.ones(3).half())
        self.register_buffer("table", torch.zeros(5, dtype=torch.int64), persistent=False)
        self.register_buffer("unset", None)


@pytest.mark.parametrize("key", ["digits_conv_net", "digits_transformer", "t5-small"])
def test_sums_agree_with_the_modules(key: str) -> None:
    model = model_source(key).build()
    assert_sums_agree(model, model)


def test_sums_agree_with_ties_shared_modules_and_parameters_of_the_root() -> None:
    assert_sums_agree(Tied(), Tied())


def test_a_tie_is_counted_once_and_said() -> None:
    model = Tied()
    table = parameter_table(model, model)
    assert table.ties == (
        "same.bias is inner.bias",
        "same.weight is inner.weight",
        "scores.weight is embedding.weight",
    )
    rows = {row.path: row for row in table.rows}
    assert (rows["embedding"].parameters_after, rows["scores"].parameters_after) == (40, 0)
    assert rows["scores"].what == "weight is embedding.weight"
    assert not rows["scores"].changed
    assert "counted once: " in table.summary


def test_the_root_and_each_module_that_holds_something_have_a_row() -> None:
    table = parameter_table(Tied(), Tied())
    assert [row.path for row in table.rows] == ["(root)", "embedding", "inner", "same", "scores"]
    root = table.rows[0]
    assert (root.parameters_after, root.bytes_after, root.buffers_after) == (3, 6, 5)
    assert root.dtype == "float16, int64"


def test_a_copy_has_not_changed() -> None:
    model = model_source("digits_conv_net").build()
    table = parameter_table(model, copy.deepcopy(model))
    assert table.changed_rows == ()
    assert "as many as before" in table.summary


def test_each_change_is_said_in_words() -> None:
    before: Any = nn.Sequential(*(nn.Linear(2, 3) for _ in range(5)))
    after: Any = copy.deepcopy(before)
    with torch.no_grad():
        after[0].weight[0, 0] += 1
    after[1] = nn.Linear(2, 6)
    after[2].bias = None
    after[3] = nn.Identity()
    after[4].half()
    after.add_module("new", nn.LayerNorm(2))
    assert_sums_agree(before, after)
    assert [(row.path, row.kind, row.what) for row in parameter_table(before, after).changed_rows] == [
        ("0", "Linear", "weight has other values"),
        ("1", "Linear", "weight 3 x 2 → 6 x 2; bias 3 → 6"),
        ("2", "Linear", "bias removed (3)"),
        ("3", "Linear → Identity", "Linear became Identity; weight removed (3 x 2); bias removed (3)"),
        ("4", "Linear", "weight float32 → float16; bias float32 → float16"),
        ("new", "LayerNorm", "added"),
    ]


def test_a_module_that_is_gone_is_a_row_with_nothing_after() -> None:
    before, after = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Sequential(nn.ReLU())
    (row,) = parameter_table(before, after).changed_rows
    assert (row.parameters_before, row.parameters_after) == (6, 0)
    assert "removed" in row.what


def test_values_that_are_not_numbers_are_compared_by_their_bits() -> None:
    before = nn.Linear(2, 2)
    with torch.no_grad():
        before.weight.fill_(torch.nan)
    assert parameter_table(before, copy.deepcopy(before)).changed_rows == ()
    after = copy.deepcopy(before)
    with torch.no_grad():
        after.bias.copy_(-before.bias)
    assert [row.what for row in parameter_table(before, after).changed_rows] == ["bias has other values"]


def test_models_without_parameters_have_an_empty_table() -> None:
    table = parameter_table(nn.ReLU(), nn.ReLU())
    assert table.rows == ()
    assert table.after.parameters == 0
    assert list(table.frame.columns)[:2] == ["path", "kind"]
