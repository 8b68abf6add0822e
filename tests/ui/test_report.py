"""The comparison as one HTML file: its text."""

from __future__ import annotations

import pytest

import fxopt
from fxopt.models import model_source
from fxopt.ui.report import comparison_html
from tests.cli.models import make


@pytest.mark.slow
def test_that_of_bert_base_has_less_than_a_megabyte() -> None:
    source = model_source("bert-base")
    model = source.build()
    args, kwargs = source.inputs(model)
    wb = fxopt.Workbench(fxopt.capture(model, args, kwargs))
    for name in ("MergeLinears", "FuseBiasInLinear"):
        wb.turn_on(name)
    text = comparison_html(wb, "BERT-base")
    assert len(text.encode()) < 10**6
    assert "MergeLinears: 12 of 12 sites on" in text
    assert "http" not in text.partition("<body>")[2].partition('<script type="module">')[0]


def test_an_untouched_graph_is_compared_with_itself() -> None:
    model, x = make()
    text = comparison_html(fxopt.Workbench(model.eval(), (x,)))
    assert "MergeLinears: 0 of 1 sites on" in text
    assert "q, k all read mean" in text
