"""The comparison as one HTML file: its text."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest

import fxopt
from fxopt.evidence import LatencyReport, compare_outputs
from fxopt.evidence.latency import Round
from fxopt.models import model_source
from fxopt.ui.report import comparison_html
from tests.cli.models import make

LATENCY = LatencyReport((Round(0.002, 0.001, 0.002),) * 15, 2.0, 1.9, 2.1, 0.98, 1.02, 3, 1, "<a machine>")


@pytest.mark.slow
def test_that_of_bert_base_has_less_than_a_megabyte() -> None:
    source = model_source("bert-base")
    model = source.build()
    args, kwargs = source.inputs(model)
    wb = fxopt.Workbench(fxopt.capture(model, args, kwargs))
    for name in ("MergeLinears", "FuseBiasInLinear"):
        wb.turn_on(name)
    outputs = compare_outputs(wb.pristine, wb.current, [(args, kwargs)], reference=False)
    text = comparison_html(wb, "BERT-base", numerics=outputs, latencies=[LATENCY, replace(LATENCY, is_wall=True)])
    assert len(text.encode()) < 10**6
    assert "MergeLinears: 12 of 12 sites on" in text
    assert "http" not in text.partition("<body>")[2].partition('<script type="module">')[0]


def test_outputs_and_latencies_stand_in_it_where_they_were_made() -> None:
    model, x = make()
    wb = fxopt.Workbench(model.eval(), (x,))
    wb.turn_on("MergeLinears")
    report = compare_outputs(wb.pristine, wb.current, [((x,), {})])
    text = comparison_html(wb, numerics=report, latencies=[LATENCY, replace(LATENCY, rounds=(), stopped="cancelled")])
    assert f"<summary>Outputs: {html.escape(report.verdict)}</summary>" in text
    assert "<th>max ulp</th>" in text
    assert "<summary>CPU time: 2.00x faster [1.90, 2.10]</summary>" in text
    assert "<td>original</td><td>2 ms</td>" in text
    assert "<td>machine</td><td>&lt;a machine&gt;</td>" in text
    assert "<td>cancelled</td>" not in text
    assert "<p>cancelled</p>" in text
    alone = comparison_html(wb)
    assert "Outputs: " not in alone
    assert "CPU time: " not in alone


def test_an_untouched_graph_is_compared_with_itself() -> None:
    model, x = make()
    text = comparison_html(fxopt.Workbench(model.eval(), (x,)))
    assert "MergeLinears: 0 of 1 sites on" in text
    assert "q, k all read mean" in text
