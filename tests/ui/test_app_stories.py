"""Whole stories on the page, by Streamlit's AppTest: what a visitor does, and what then stands there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import nn
from torch.fx import Node

from fxopt.core import GraphIndex, Match, Pass, Rewriter
from fxopt.evidence import measure
from fxopt.ui import latency_tab
from fxopt.ui.session import Session
from fxopt.workbench import Workbench

APP = Path(__file__).parents[2] / "app.py"
FOLD = "FuseBatchNorm2dInConv2d"


@pytest.fixture
def app() -> AppTest:
    opened = AppTest.from_file(str(APP), default_timeout=120).run()
    assert_usable(opened)
    return opened


def assert_usable(app: AppTest) -> None:
    """No exception is shown, and the open model can be worked with."""
    assert not app.exception, [error.value for error in app.exception]
    assert [toggle.label for toggle in app.toggle][:5] == [state.name for state in session(app).workbench.states]


def session(app: AppTest) -> Session:
    found: Session = app.session_state["session"]
    return found


def switch(app: AppTest, name: str, on: bool) -> AppTest:
    return app.toggle(key=f"on {name}").set_value(on).run()


def badge(app: AppTest) -> str:
    badges = [text.value for text in app.markdown if "-badge[" in text.value]
    assert len(badges) == 1
    return str(badges[0])


def marks(app: AppTest) -> dict[str, list[list[object]]]:
    """The marks that the graph component was sent: box index to [kind, pass, count]."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    assert len(sent) == 1
    found: dict[str, list[list[object]]] = sent[0]["marks"]["boxes"]
    return found


def shown_marks(app: AppTest) -> set[object]:
    return {mark[0] for box in marks(app).values() for mark in box}


def metrics(app: AppTest) -> dict[str, str]:
    lines = (text.value.replace("*", "").split("  \n") for text in app.markdown)
    return {label: value for label, value, *_ in (line for line in lines if len(line) > 1)}


def texts(app: AppTest) -> str:
    return "\n".join(str(one.value) for one in (*app.markdown, *app.caption, *app.error, *app.success, *app.warning))


def test_the_page_opens_with_a_model_and_one_pass_previewed_but_not_applied(app: AppTest) -> None:
    assert session(app).looked_at == FOLD
    assert "original" in badge(app)
    assert shown_marks(app) == {"matched", "miss"}
    assert "0 of 4 sites on · 2 near misses" in texts(app)
    assert "has other users" in texts(app)


def test_a_pass_changes_the_parameters_and_switching_it_off_restores_every_bit(app: AppTest) -> None:
    before = metrics(app)["Parameters"]
    switch(app, FOLD, True)
    assert metrics(app)["Parameters"] != before
    assert "4 sites on" in badge(app)
    assert {"applied", "changed"} <= shown_marks(app)
    switch(app, FOLD, False)
    assert metrics(app)["Parameters"] == before
    assert "restored, bit for bit" in badge(app)


def test_undo_redo_and_reverse_all_move_the_switches_too(app: AppTest) -> None:
    switch(app, FOLD, True)
    switch(app, "FuseBiasInLinear", True)
    app.button(key="icon undo").click().run()
    assert [app.toggle(key=f"on {name}").value for name in (FOLD, "FuseBiasInLinear")] == [True, False]
    app.button(key="icon redo").click().run()
    assert app.toggle(key="on FuseBiasInLinear").value
    app.button(key="reverse all").click().run()
    assert not any(toggle.value for toggle in app.toggle)
    assert "restored, bit for bit" in badge(app)
    assert_usable(app)


def test_one_site_can_be_switched_alone(app: AppTest) -> None:
    app.checkbox(key=f"on {FOLD} at stem_norm").check().run()
    assert "1 site on" in badge(app)
    assert app.toggle(key=f"on {FOLD}").value
    assert not app.checkbox(key=f"on {FOLD} at residual_norm").value
    app.checkbox(key=f"on {FOLD} at stem_norm").uncheck().run()
    assert "restored, bit for bit" in badge(app)


def test_a_site_leads_to_its_node_and_the_inspector_tells_its_story(app: AppTest) -> None:
    app.button(key=f"site {FOLD} at stem_norm").click().run()
    assert "`stem.norm`" in texts(app)
    assert "matches here" in texts(app)
    switch(app, FOLD, True)
    assert "removed by FuseBatchNorm2dInConv2d" in texts(app)
    app.button(key="show where it is").click().run()
    assert session(app).shown == "Original"
    assert "removed" in shown_marks(app)


def test_every_node_and_module_can_be_inspected(app: AppTest) -> None:
    switch(app, FOLD, True)
    for name in [node.name for node in session(app).view_of("Original").nodes] + ["@stem", "@residual.first"]:
        session(app).select(name)
        assert_usable(app.run())


def test_a_wrong_folder_is_said_and_the_open_model_stays_as_it_was(app: AppTest, tmp_path: Path) -> None:
    switch(app, FOLD, True)
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path / "nowhere")).run()
    assert "there is no such folder" in app.error[0].value
    assert_usable(app)
    assert "4 sites on" in badge(app)
    app.button(key="icon dismiss").click().run()
    assert not app.error


def test_a_broken_safetensors_file_is_said(app: AppTest, tmp_path: Path) -> None:
    config = {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0 not a header at all")
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path)).run()
    assert "broken" in app.error[0].value
    assert_usable(app)


def test_sizes_out_of_range_are_said_with_the_range(app: AppTest) -> None:
    app.number_input(key="batch of digits_conv_net").set_value(4000).run()
    assert "from 1 to 256" in app.error[0].value
    assert session(app).opened.batch == 8
    app.number_input(key="batch of digits_conv_net").set_value(3).run()
    assert not app.error
    assert session(app).opened.batch == 3
    assert_usable(app)


def test_another_model_opens_with_its_own_sizes_and_passes(app: AppTest) -> None:
    switch(app, FOLD, True)
    app.selectbox(key="model").set_value("digits_transformer").run()
    assert_usable(app)
    assert session(app).looked_at == "ChangeTrueDivToMulByInverse"
    assert "original" in badge(app)
    switch(app, "MergeLinears", True)
    assert {"created", "changed"} <= shown_marks(app)


class Stumbles(Pass[Match]):
    """Matches every convolution, and then fails."""

    targets = (nn.Conv2d,)

    def match(self, node: Node, index: GraphIndex) -> Match:
        return Match(node)

    def explain(self, match: Match) -> str:
        return "it would do something, if it did not fail"

    def rewrite(self, match: Match, rewriter: Rewriter) -> None:
        raise ZeroDivisionError("a bug in somebody's rewrite")


def test_a_pass_that_fails_is_shown_with_its_text_and_the_others_work_on(app: AppTest) -> None:
    opened = session(app)
    failing = [Stumbles(), *opened.workbench.passes]
    opened.workbench = Workbench(opened.opened.pristine, passes=failing)
    app.run()
    app.toggle(key="on Stumbles").set_value(True).run()
    assert "a bug in somebody's rewrite" in app.error[0].value
    assert not app.exception
    switch(app, FOLD, True)
    assert "4 sites on" in badge(app)


def test_outputs_are_compared_where_asked(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    app.run()
    assert "nothing to compare" in texts(app)
    switch(app, FOLD, True)
    assert_usable(app)
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


def test_two_visitors_do_not_see_each_other(app: AppTest) -> None:
    other = AppTest.from_file(str(APP), default_timeout=120).run()
    switch(app, FOLD, True)
    other.run()
    assert session(app).opened is session(other).opened
    assert "original" in badge(other)
    assert not any(toggle.value for toggle in other.toggle)
    assert session(other).workbench.is_restored


def test_a_click_on_the_graph_selects_and_folds(app: AppTest) -> None:
    before = session(app).unfolded
    session(app).fold("stem")
    app.run()
    assert session(app).unfolded == before - {"stem"}
    app.button(key="fold: Fold").click().run()
    assert session(app).unfolded == frozenset()
    app.button(key="fold: Unfold").click().run()
    assert "stem" in session(app).unfolded
    assert_usable(app)


def test_a_folder_with_weights_opens_and_its_layers_are_found(app: AppTest, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng():
        transformers.BertModel(config).save_pretrained(tmp_path)
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path)).run()
    assert not app.error
    assert_usable(app)
    switch(app, "MergeLinears", True)
    assert "1 of 1 sites on" in texts(app)
    assert metrics(app)["Parameters"] == f"{sum(p.numel() for p in session(app).opened.model.parameters()):,}"


def test_every_module_is_listed_where_asked_and_else_those_that_changed(app: AppTest) -> None:
    assert not app.dataframe
    switch(app, FOLD, True)
    changed = len(app.dataframe[0].value)
    app.toggle(key="every module").set_value(True).run()
    assert len(app.dataframe[0].value) > changed > 0
