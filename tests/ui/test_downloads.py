"""The buttons that save what is shown."""

from __future__ import annotations

import html
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from streamlit.testing.v1 import AppTest

from fxopt.export import to_csv, to_markdown
from fxopt.ui.downloads import _comparison, _nodes, _parameters, _picture
from fxopt.ui.latency_tab import WALL
from tests.ui.test_report import LATENCY
from tests.ui.visitor import FOLD, session, switch


def test_tables_and_pictures_are_of_the_graph_as_it_is(app: AppTest) -> None:
    switch(app, FOLD, True)
    mine = session(app)
    lines = to_csv(_nodes(mine)).splitlines()
    assert lines[0] == "name,op,target,module,shape,dtype"
    assert len(lines) == 1 + len(mine.workbench.current.graph.nodes)
    assert not any(line.startswith("stem_norm,") for line in lines)
    assert to_markdown(_parameters(mine), "Parameters").startswith("### Parameters\n\n| path |")
    assert _picture(mine, "png").startswith(b"\x89PNG")


def test_the_comparison_has_what_was_compared_and_measured_of_these_graphs(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    switch(app, FOLD, True)
    mine = session(app)
    assert mine.comparison is not None
    assert mine.comparison.job.wait(60)
    assert mine.comparison.job.result is not None
    told = f"Outputs: {mine.comparison.job.result.verdict}"

    def measured(choices: object, **values: Any) -> Any:
        return SimpleNamespace(choices=choices, job=SimpleNamespace(result=replace(LATENCY, **values)))

    mine.measurement = measured(mine.workbench.choices)
    mine.searches = {WALL: measured(mine.workbench.choices, is_wall=True, ratio=1.5)}
    text = _comparison(mine)
    assert html.escape(told) in text
    assert "CPU time: 2.00x faster" in text
    assert "Wall time: 1.50x faster" in text
    mine.measurement = measured("other choices")
    assert "CPU time: " not in _comparison(mine)
