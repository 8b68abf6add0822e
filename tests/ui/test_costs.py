"""Costs and the evidence of one site on the page, by Streamlit's AppTest."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.evidence import critical_path, work_costs
from fxopt.evidence.work import work_by_unit
from fxopt.ui import costs, limits, waiting
from fxopt.ui.viewing import select
from tests.ui.visitor import FOLD, message, session, switch, texts


def sent(app: AppTest) -> dict[str, Any]:
    """The data that the graph component was sent."""
    [data] = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    found: dict[str, Any] = data
    return found


def choose(app: AppTest, cost: str) -> AppTest:
    app.selectbox(key="cost").set_value(f"Cost: {cost}").run()
    assert not app.exception
    return app


def test_bars_tell_the_cost_that_was_chosen(app: AppTest) -> None:
    assert sent(app)["bars"] == {}
    for cost, word in (("parameters", "parameter"), ("FLOPs", "FLOP"), ("bytes moved", "B")):
        bars = sent(choose(app, cost))["bars"]
        assert max(share for share, _ in bars.values()) == 1
        assert all(word in told for _, told in bars.values())
    assert sent(choose(app, "none"))["bars"] == {}


def test_bars_tell_the_time_that_was_measured(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    bars = sent(choose(app, "time"))["bars"]
    assert max(share for share, _ in bars.values()) == 1
    assert all(told.endswith(("ns", "us", "ms")) for _, told in bars.values())


def test_the_table_of_times_tells_kernels_from_python_and_dispatch(app: AppTest) -> None:
    app.session_state["evidence"] = "Cost"
    app.session_state["numbers of blocks"] = True
    choose(app, "time")
    told = texts(app).replace("\\", "")
    assert "of the time is in kernels; the rest is Python, dispatch, views and memory." in told
    [table] = [one.value for one in app.dataframe if "in kernels" in one.value.columns]
    assert [*table.columns] == ["part", "calls", "time", "percent", "in kernels", "Python, dispatch"]
    assert table["part"].iloc[0] == "the whole model"
    assert all(told.endswith(("ns", "us", "ms")) for told in (*table["in kernels"], *table["Python, dispatch"]))
    choose(app, "FLOPs")
    assert not [one for one in app.dataframe if "in kernels" in one.value.columns]


def test_a_run_that_is_too_large_for_the_server_is_not_timed(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(limits, "MOST_FLOPS", 1)
    choose(app, "time")
    assert sent(app)["bars"] == {}
    assert "one run takes" in texts(app)
    assert not app.exception


def test_a_picture_whose_cost_is_still_being_counted_is_not_foreseen(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_count = threading.Event()
    monkeypatch.setattr(costs, "work_by_unit", lambda *of: may_count.wait(60) and work_by_unit(*of))
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 0.05)
    choose(app, "FLOPs")
    switch(app, FOLD, True)
    assert sent(app)["bars"] == {}
    assert sent(app)["foreseen"] == {}, "without its bars the original would be painted, and painted again with them"
    may_count.set()
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    app.run()
    whole = sent(app)
    assert whole["bars"]
    app.button(key="icon undo").click().run()
    assert sent(app)["foreseen"]["icon-redo"] == whole["picture"]
    app.button(key="icon redo").click().run()
    assert sent(app)["picture"] == whole["picture"]
    assert {"icon-undo", "reverse-all"} <= sent(app)["foreseen"].keys()


def test_what_has_no_formula_is_named_below_the_graph(app: AppTest) -> None:
    assert "Without a formula" in texts(choose(app, "FLOPs"))
    assert "native\\_batch\\_norm" in texts(app)


def test_the_critical_path_is_that_of_the_graph_that_is_shown(app: AppTest) -> None:
    assert app.checkbox(key="critical path").disabled
    choose(app, "FLOPs")
    app.checkbox(key="critical path").check().run()
    before = sent(app)["path"]
    assert "% of the FLOPs" in before["told"]
    switch(app, FOLD, True)
    args, kwargs = session(app).opened.inputs
    path = critical_path(session(app).workbench.current, work_costs(session(app).workbench.current, args, kwargs)[0])
    assert len(sent(app)["path"]["boxes"]) == len(path.nodes) < len(before["boxes"])
    choose(app, "none")
    assert sent(app)["path"] is None


def test_the_table_of_nodes_tells_costs_and_the_critical_path(app: AppTest) -> None:
    app.session_state["evidence"] = "Nodes"
    choose(app, "FLOPs")
    app.checkbox(key="critical path").check().run()
    frame = app.dataframe[0].value
    assert {"FLOPs", "critical path"} <= set(frame.columns)
    row = frame[frame["name"] == "stem_conv"].iloc[0]
    assert (row["FLOPs"], row["critical path"]) == (147_456, "on it")


def test_acts_in_the_graph_are_done_once_each_in_their_order(app: AppTest) -> None:
    unfolded = session(app).view.unfolded
    acts = [1, "select", "stem_relu"], [2, "fold", "stem"], [3, "select", "@stem"]
    app.session_state["graph"] = {"events": message(session(app), *acts)}
    app.run()
    assert session(app).view.unfolded == unfolded - {"stem"}
    assert session(app).view.selected == "@stem"
    assert sent(app)["heard"] == 3
    app.session_state["graph"] = {"events": message(session(app), [3, "select", "@stem"], [4, "select", None])}
    app.run()
    assert (session(app).view.selected, session(app).view.unfolded) == ("", unfolded - {"stem"})


def evidence_of(app: AppTest, pass_name: str, site: str) -> AppTest:
    """Open the evidence of a site."""
    select(session(app), site)
    app.session_state[f"evidence of {pass_name} at {site}"] = True
    return app.run()


def test_the_error_of_one_site_is_measured_on_demand(app: AppTest) -> None:
    evidence_of(app, FOLD, "stem_norm")
    assert not app.exception
    assert "What comes out of it" not in texts(app)
    app.button(key=f"error of {FOLD} at stem_norm").click().run()
    assert not app.exception
    assert "`stem_norm → stem_conv`: at most" in texts(app)
    assert "The output of the model" in texts(app)
    assert not session(app).workbench.is_changed


def test_the_latency_of_one_site_is_measured_beside_the_page_and_can_be_cancelled(app: AppTest) -> None:
    evidence_of(app, FOLD, "stem_norm")
    app.button(key=f"latency of {FOLD} at stem_norm").click().run()
    assert not app.exception
    [evidence] = session(app).memo.remember("site evidence", None, dict).values()
    evidence.latency.wait()
    evidence_of(app, FOLD, "stem_norm")
    assert "with the site against without it" in texts(app)
    assert "without it against itself" in texts(app)
    switch(app, FOLD, True)
    evidence_of(app, FOLD, "stem_norm")
    assert "with the site against without it" not in texts(app), "it was found at other choices"
