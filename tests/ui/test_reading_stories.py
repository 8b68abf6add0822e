"""A visitor reads the inspector, the table of nodes, code, numbers and latency."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.edits import ReplaceModule
from fxopt.engines.whole import Engine
from fxopt.evidence import NumericsReport, Round, RunStoppedError, compare_outputs, engines, measure, report_of
from fxopt.ui import charts, engine_search, latency_tab, numerics_tab, site_search, waiting
from fxopt.ui.job import GraphJob, Job
from fxopt.ui.memo import Memo
from fxopt.ui.viewing import fold, select
from tests.ui.visitor import (
    FOLD,
    act,
    assert_usable,
    session,
    shown_marks,
    switch,
    texts,
)


def test_a_site_leads_to_its_node_and_the_inspector_tells_its_story(app: AppTest) -> None:
    act(app, "go", "stem_norm").run()
    assert "`stem.norm`" in texts(app)
    assert "matches here" in texts(app)
    switch(app, FOLD, True)
    assert "removed by Fold BatchNorm2d" in texts(app)
    app.button(key="show where it is").click().run()
    assert session(app).view.shown == "Original"
    assert "removed" in shown_marks(app)


def test_every_node_and_module_can_be_inspected(app: AppTest) -> None:
    switch(app, FOLD, True)
    for name in [node.name for node in session(app).view_of("Original").nodes] + ["@stem", "@residual.first"]:
        select(session(app), name)
        assert_usable(app.run())


def test_outputs_are_compared_where_asked(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    app.run()
    assert "both graphs are the same" in texts(app)
    switch(app, FOLD, True)
    assert_usable(app)
    assert "float64" in app.success[0].value
    first = app.button(key="first difference")
    assert first.label == "`stem_conv`"
    first.click().run()
    assert session(app).view.selected == "stem_conv"


def test_parameters_are_told_by_site_with_sums_that_agree_with_the_totals(app: AppTest) -> None:
    switch(app, FOLD, True)
    [table] = app.dataframe
    assert [*table.value["pass"]] == ["Fold BatchNorm2d"] * 4
    assert table.value["what became what"][0] == "norm + conv → conv"
    gone = sum(table.value["parameters before"]) - sum(table.value["now"])
    before, after = (session(app).graph_of(shown) for shown in ("Original", "Now"))
    counts = [sum(p.numel() for p in graph.parameters()) for graph in (before, after)]
    assert gone == counts[0] - counts[1] > 0


def test_a_comparison_ends_where_its_visitor_cancels_it_or_goes_on(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(before: Any, after: Any, inputs: Any) -> NumericsReport:
        while True:
            compare_outputs(before, after, inputs)

    monkeypatch.setattr(Memo, "sharing", lambda self, question: lambda make: make())  # an earlier test had the answer
    monkeypatch.setattr(numerics_tab, "compare_outputs", endless)
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 0.05)
    app.session_state["evidence"] = "Numerics"
    switch(app, FOLD, True)
    cancelled = session(app).comparison.job
    next(button for button in app.button if button.label == "Cancel").click().run()
    assert cancelled.wait(60)
    assert type(cancelled.failure) is RunStoppedError
    app.button(key="compare").click().run()
    outdated = session(app).comparison.job
    switch(app, FOLD, False)
    assert outdated.wait(60)
    assert type(outdated.failure) is RunStoppedError
    monkeypatch.setattr(numerics_tab, "compare_outputs", compare_outputs)
    monkeypatch.setattr(waiting, "QUIET_SECONDS", 60.0)
    switch(app, FOLD, True)
    assert "float64" in app.success[0].value


def test_code_is_shown_as_a_difference(app: AppTest) -> None:
    app.session_state["evidence"] = "Code"
    switch(app, FOLD, True)
    difference = [block.value for block in app.code if block.language == "diff"]
    assert "-    stem_norm = self.stem.norm(stem_conv);  stem_conv = None" in difference[0]


def test_latency_is_measured_beside_the_page_and_is_marked_when_stale(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(*args: object, **kwargs: object) -> object:
        return measure(*args, rounds=5, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(latency_tab, "measure", quick)
    app.session_state["evidence"] = "Latency"
    app.run()
    assert app.button(key="measure").disabled
    switch(app, FOLD, True)
    app.button(key="measure").click().run()
    assert not app.exception
    session(app).measurement.job.wait()
    app.run()
    assert "95 % interval" in texts(app)
    assert not app.warning
    switch(app, "FuseBiasInLinear", True)
    assert "other passes" in app.warning[0].value


def test_the_original_is_measured_in_engines_beside_the_passes_that_are_on(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    itself = Engine("torch.compile", (), "", lambda flat, tensors: flat)
    absent = Engine("OpenVINO", ("no_such_package",), "openvino", lambda flat, tensors: flat)
    monkeypatch.setattr(engines, "ENGINES", (itself, absent))
    app.session_state["evidence"] = "Latency"
    app.run()
    app.button(key=f"search {engine_search.KEY}").click().run()
    session(app).searches[engine_search.KEY].job.wait()
    app.run()
    assert not app.exception
    assert list(app.dataframe[0].value["model in"]) == ["torch.compile", "OpenVINO"]
    assert app.dataframe[0].value["verdict"].iloc[1] == "it needs no_such_package: pip install 'fxopt[openvino]'"
    switch(app, FOLD, True)
    report = report_of([Round(0.002, 0.001, 0.002)] * 6)
    session(app).measurement = GraphJob(session(app).workbench.choices, Job(lambda progress: report))
    session(app).measurement.job.wait()
    app.run()
    assert app.dataframe[0].value["model in"].iloc[0] == engine_search.WITH_PASSES
    assert len(app.dataframe[0].value) == 3, "the answer is about the original, and holds still"


def test_visitors_of_a_workshop_do_not_wait_for_the_set_up_of_engines(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency_tab, "is_served_here", lambda: False)
    app.session_state["evidence"] = "Latency"
    app.run()
    assert not app.exception
    assert f"search {engine_search.KEY}" not in [button.key for button in app.button]


def test_a_click_on_the_graph_selects_and_folds(app: AppTest) -> None:
    before = session(app).view.unfolded
    fold(session(app), "stem")
    app.run()
    assert session(app).view.unfolded == before - {"stem"}
    app.button(key="fold: Fold").click().run()
    assert session(app).view.unfolded == frozenset()
    app.button(key="fold: Unfold").click().run()
    assert "stem" in session(app).view.unfolded
    assert_usable(app)


def test_every_module_is_listed_where_asked_and_else_those_that_changed(app: AppTest) -> None:
    assert not app.dataframe
    switch(app, FOLD, True)
    changed = len(app.dataframe[0].value)
    app.toggle(key="every module").set_value(True).run()
    assert len(app.dataframe[0].value) > changed > 0


def test_the_inspector_says_for_every_pass_why_nothing_happens_at_a_node(app: AppTest) -> None:
    select(session(app), "stem_relu")
    app.run()
    for state in session(app).workbench.states:
        app.text_input(key="asked pass").set_value(state.name).run()
        told = texts(app)
        assert "looks only at calls of" in told or "it looks at such calls, but" in told, state.name
    app.text_input(key="asked pass").set_value("no such pass").run()
    assert "No pass is called" in texts(app)


def test_a_site_shows_its_lines_of_code_before_and_after(app: AppTest) -> None:
    select(session(app), "stem_norm")
    app.session_state[f"code of {FOLD} at stem_norm"] = True
    app.run()
    blocks = [block.value for block in app.code]
    assert any("stem_norm = self.stem.norm(stem_conv)" in block for block in blocks)
    assert session(app).workbench.is_restored


def test_a_node_without_counterpart_says_so(app: AppTest) -> None:
    select(session(app), "stem_norm")
    switch(app, FOLD, True)
    assert "It has no counterpart in the graph as it is now" in texts(app)
    select(session(app), "made_by_nothing")
    app.run()
    assert "No node of this name is in either graph" in app.info[0].value


def test_the_table_of_nodes_finds_and_has_the_same_selection(app: AppTest) -> None:
    app.session_state["evidence"] = "Nodes"
    select(session(app), "stem_norm")
    app.run()
    assert len(app.dataframe[-1].value) == len(session(app).view_of("Now").nodes)
    app.text_input(key="asked nodes").set_value("^stem.*norm$").run()
    assert list(app.dataframe[-1].value["name"]) == ["stem_norm"]
    app.text_input(key="asked nodes").set_value("BatchNorm2d").run()
    assert len(app.dataframe[-1].value) == 6
    app.text_input(key="asked nodes").set_value("(").run()
    assert "no regular expression" in texts(app)
    app.text_input(key="asked nodes").set_value("nowhere at all").run()
    assert "No node fits" in app.info[0].value


def test_the_sites_that_break_it_are_found_named_and_switched_off(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    switch(app, FOLD, True)
    bench = session(app).workbench
    bench.edit(ReplaceModule("residual_relu", "ReLU6"))
    broken = bench.edit(ReplaceModule("head_relu", "Tanh"))
    app.run()
    with site_search.MEASUREMENTS.turn("someone who measures", lambda: True):  # times nothing, so it waits for nobody
        app.button(key="search outputs").click().run()
        job = session(app).searches["outputs"].job
        assert job.wait(180)
    app.run()
    assert not app.exception
    assert (job.error, broken.name in job.result.verdict) == ("", True)
    assert "breaks the outputs; without" in texts(app)
    app.button(key="without outputs").click().run()
    assert not app.exception
    assert bench.state_of(broken).sites_on == 0
    assert bench.state_of(FOLD).sites_on > 0


def test_the_sites_that_pay_are_found_beside_the_page_and_kept(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_search, "BUDGET", 2.0)
    app.session_state["evidence"] = "Latency"
    app.run()
    assert app.button(key="search tuning").disabled
    switch(app, "PackLinears", True)
    app.button(key="search tuning").click().run()
    job = session(app).searches["tuning"].job
    assert job.wait(180)
    app.run()
    assert_usable(app)
    assert job.result.verdict.split(";")[0] in texts(app)
    if job.result.choices != session(app).workbench.choices:
        app.button(key="keep what pays").click().run()
        assert session(app).workbench.choices == job.result.choices
    assert_usable(app)


def test_a_click_in_the_error_by_depth_goes_to_the_node_once(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    app.session_state["evidence"] = "Numerics"
    switch(app, FOLD, True)
    clicked = {"pick": [{"node": "stem_relu"}]}

    def sent(key: str, entry: str) -> object:
        return clicked if (key, entry) == ("depth chart", "selection") else None

    monkeypatch.setattr(charts, "sent_by", sent)
    app.run()
    assert_usable(app)
    assert session(app).view.selected == "stem_relu"
    select(session(app), "stem_conv")
    app.run()
    assert session(app).view.selected == "stem_conv", "the chart sends its selection with every run"
    clicked["pick"] = [{"node": "no such node"}]
    assert_usable(app.run())
    assert session(app).view.selected == "stem_conv"


def test_other_inputs_are_tried_where_asked(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    switch(app, FOLD, True)
    app.button(key="search inputs").click().run()
    assert session(app).searches["inputs"].job.wait(180)
    app.run()
    assert_usable(app)
    assert "variants of the inputs" in texts(app)
    table = next(one.value for one in app.dataframe if "inputs" in one.value)
    assert {"the example", "batch 1", "zeros", "denormal", "a NaN"} <= set(table["inputs"])
