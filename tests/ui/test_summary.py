"""The line above the graph, and the inspector while nothing is selected."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.edits import ReplaceModule
from fxopt.ui import waiting
from tests.ui.visitor import FOLD, session, switch, texts


def figures(app: AppTest) -> list[str]:
    """The figures of the line, as text."""
    (line,) = [one.value for one in app.get("html") if 'class="summary"' in one.value]
    return [re.sub("<.*?>", "", text) for text in re.findall(r'data-evidence=".*?>(.*?)</button>', line)]


def test_the_line_tells_before_and_now_and_says_what_is_unknown(app: AppTest) -> None:
    before = "; ".join(figures(app))
    assert "→" not in before
    assert "error none" in before
    assert {"FLOPs ?", "latency ?"} <= set(figures(app))
    switch(app, FOLD, True)
    nodes = len(session(app).view_of("Original").nodes)
    now = "; ".join(figures(app))
    assert f"nodes {nodes} → {nodes - 4}" in now
    assert "error ?" in now
    app.session_state["evidence"] = "Numerics"
    app.run()
    assert session(app).comparison.job.wait(180)
    app.session_state["cost"] = "Cost: FLOPs"
    app.run()
    values = figures(app)
    assert not {"error ?", "FLOPs ?"} & set(values)
    assert any(re.fullmatch(r"error \d\.\de-\d+", value) for value in values)
    app.session_state["cost"] = "Cost: none"
    app.run()
    assert figures(app) == values, "a figure that is known stays known"


def test_with_nothing_selected_the_inspector_tells_of_the_whole_graph(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = session(app)
    told = texts(app)
    assert f"`{type(of.opened.model).__name__}`" in told
    assert "Where its parameters are" in told
    assert "4 sites" in told
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    app.button(key="ask for prospects").click().run()
    assert re.search(r"4 removed.*; its sites take \d+ % of the time, so at most \d+\\\.\d\dx faster", texts(app))
    assert of.workbench.is_restored
    assert "on the original graph" not in texts(app)


def test_prospects_are_those_on_the_original_graph_and_say_so_where_it_was_changed(app: AppTest) -> None:
    app.selectbox(key="model").set_value("digits_transformer").run()
    of = session(app)
    state = of.workbench.state_of("RemoveIdentities")
    assert not state.sites
    of.workbench.edit(ReplaceModule("block1_gelu", "Identity"))
    assert of.workbench.state_of("RemoveIdentities").sites
    app.button(key="ask for prospects").click().run()
    assert "each pass alone, on the original graph" in texts(app)
    assert "1 site: none of them is in the original graph" in texts(app)
    assert "nothing would change" not in texts(app)
