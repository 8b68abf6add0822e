"""Whole stories on the page, by Streamlit's AppTest: what a visitor does, and what then stands there."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Checkbox, Toggle
from torch import nn
from torch.fx import Node

from fxopt.capture import CaptureCancelledError
from fxopt.core import GraphIndex, Match, Pass, Rewriter
from fxopt.evidence import measure
from fxopt.models import Inputs, SizeRange, Sizes
from fxopt.ui import keys, latency_tab, opening
from fxopt.ui.opening import Opening, Request
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
    names = [state.name for state in session(app).workbench.states]
    assert [toggle.label for toggle in app.toggle][: len(names)] == names


def session(app: AppTest) -> Session:
    found: Session = app.session_state["session"]
    return found


def switch(app: AppTest, name: str, on: bool) -> AppTest:
    return toggle(app, name).set_value(on).run()


def toggle(app: AppTest, label: str) -> Toggle:
    return next(one for one in app.toggle if one.label == label)


def checkbox(app: AppTest, label: str) -> Checkbox:
    return next(one for one in app.checkbox if one.label == label)


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
    return dict(re.findall(r"<dt>(.+?)</dt><dd><strong>(.+?)</strong>", "".join(one.value for one in app.get("html"))))


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
    assert [toggle(app, name).value for name in (FOLD, "FuseBiasInLinear")] == [True, False]
    app.button(key="icon redo").click().run()
    assert toggle(app, "FuseBiasInLinear").value
    app.button(key="reverse all").click().run()
    assert not any(toggle.value for toggle in app.toggle)
    assert "restored, bit for bit" in badge(app)
    assert_usable(app)


def test_one_site_can_be_switched_alone(app: AppTest) -> None:
    checkbox(app, f"{FOLD} at stem_norm").check().run()
    assert "1 site on" in badge(app)
    assert toggle(app, FOLD).value
    assert not checkbox(app, f"{FOLD} at residual_norm").value
    checkbox(app, f"{FOLD} at stem_norm").uncheck().run()
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
    toggle(app, "Stumbles").set_value(True).run()
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
    assert "1 of 1 site on" in texts(app)
    assert metrics(app)["Parameters"] == f"{sum(p.numel() for p in session(app).opened.model.parameters()):,}"


def test_every_module_is_listed_where_asked_and_else_those_that_changed(app: AppTest) -> None:
    assert not app.dataframe
    switch(app, FOLD, True)
    changed = len(app.dataframe[0].value)
    app.toggle(key="every module").set_value(True).run()
    assert len(app.dataframe[0].value) > changed > 0


MERGE, BIAS = "MergeLinears", "FuseBiasInLinear"


def order(app: AppTest) -> list[str]:
    return [state.name for state in session(app).workbench.states]


@pytest.fixture
def merged(app: AppTest) -> AppTest:
    """The transformer with its linears merged, and the biases of what came of it fused."""
    app.selectbox(key="model").set_value("digits_transformer").run()
    switch(app, MERGE, True)
    switch(app, BIAS, True)
    assert session(app).workbench.resting_on(MERGE)
    return app


def test_what_rests_on_a_pass_is_named_before_it_goes_off(merged: AppTest) -> None:
    choices = session(merged).workbench.choices
    switch(merged, MERGE, False)
    assert toggle(merged, MERGE).value, "not before the question is answered"
    assert f"{BIAS} at" in merged.warning[0].value
    merged.button(key="answer no").click().run()
    assert not merged.warning
    assert session(merged).workbench.choices == choices
    switch(merged, MERGE, False)
    merged.button(key="answer yes").click().run()
    assert not merged.warning
    assert not toggle(merged, MERGE).value
    assert session(merged).workbench.state_of(BIAS).sites_on > 0
    merged.button(key="icon undo").click().run()
    assert session(merged).workbench.choices == choices


def test_one_site_that_others_rest_on_is_asked_about_too(merged: AppTest) -> None:
    session(merged).look_at(MERGE)
    merged.run()
    family = next(one for one in merged.checkbox if one.key.startswith(f"on {MERGE} at all "))
    assert family.value
    family.uncheck().run()
    assert "rest" in merged.warning[0].value
    merged.button(key="answer yes").click().run()
    assert session(merged).workbench.state_of(MERGE).sites_on == 0


def test_copies_of_a_block_are_one_switch_and_each_can_be_switched_alone(app: AppTest) -> None:
    app.selectbox(key="model").set_value("digits_transformer").run()
    app.button(key=f"icon sites of {MERGE}").click().run()
    sites = [site.site for site in session(app).workbench.state_of(MERGE).sites]
    family = next(one for one in app.checkbox if one.key.startswith(f"on {MERGE} at all "))
    family.check().run()
    assert f"{len(sites)} sites on" in badge(app)
    key = family.key.replace(f"on {MERGE} at all ", f"copies of {MERGE} at ")
    app.session_state[key] = True
    app.run()
    checkbox(app, f"{MERGE} at {sites[0]}").uncheck().run()
    assert f"{len(sites) - 1} of {len(sites)} on" in texts(app)
    app.button(key="icon undo").click().run()
    app.button(key="icon undo").click().run()
    assert "restored, bit for bit" in badge(app)


def test_a_pass_can_run_earlier_or_later_and_keeps_its_letter(app: AppTest) -> None:
    before, letters = order(app), {name: style.letter for name, style in session(app).styles.items()}
    app.button(key=f"icon run later {FOLD}").click().run()
    assert order(app) == [before[1], before[0], *before[2:]]
    assert {name: style.letter for name, style in session(app).styles.items()} == letters
    assert shown_marks(app) == {"matched", "miss"}
    assert {mark[1] for box in marks(app).values() for mark in box} == {0}
    app.button(key="icon undo").click().run()
    assert order(app) == before
    assert app.button(key=f"icon run earlier {FOLD}").disabled


def test_passes_without_a_site_can_be_left_out_of_the_list(app: AppTest) -> None:
    app.checkbox(key="only acting").check().run()
    acting = [state.name for state in session(app).workbench.states if state.sites]
    assert [toggle.label for toggle in app.toggle][: len(acting)] == acting
    assert len(acting) < len(session(app).workbench.states)
    app.checkbox(key="only acting").uncheck().run()
    assert_usable(app)


def test_another_batch_keeps_the_passes_that_are_on(app: AppTest) -> None:
    checkbox(app, f"{FOLD} at stem_norm").check().run()
    app.button(key=f"icon run later {FOLD}").click().run()
    app.button(key=f"site {FOLD} at stem_norm").click().run()
    kept = session(app).workbench.choices
    app.number_input(key="batch of digits_conv_net").set_value(3).run()
    assert session(app).opened.batch == 3
    assert (session(app).workbench.choices, session(app).selected) == (kept, "stem_norm")
    assert "1 site on" in badge(app)


def test_the_inspector_says_for_every_pass_why_nothing_happens_at_a_node(app: AppTest) -> None:
    session(app).select("stem_relu")
    app.run()
    for state in session(app).workbench.states:
        app.text_input(key="asked pass").set_value(state.name).run()
        assert "looks only at calls of" in texts(app), state.name
    app.text_input(key="asked pass").set_value("no such pass").run()
    assert "No pass is called" in texts(app)


def test_a_site_shows_its_lines_of_code_before_and_after(app: AppTest) -> None:
    session(app).select("stem_norm")
    app.session_state[f"code of {FOLD} at stem_norm"] = True
    app.run()
    blocks = [block.value for block in app.code]
    assert any("stem_norm = self.stem.norm(stem_conv)" in block for block in blocks)
    assert session(app).workbench.is_restored


def test_a_node_without_counterpart_says_so(app: AppTest) -> None:
    session(app).select("stem_norm")
    switch(app, FOLD, True)
    assert "It has no counterpart in the graph as it is now" in texts(app)
    session(app).select("made_by_nothing")
    app.run()
    assert "No node of this name is in either graph" in app.info[0].value


def test_the_table_of_nodes_finds_and_has_the_same_selection(app: AppTest) -> None:
    app.session_state["evidence"] = "Nodes"
    session(app).select("stem_norm")
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


def press(app: AppTest, *names: str) -> None:
    heard = keys.Heard()
    keys.act(session(app), heard, list(enumerate(names, 1)))
    assert heard.number == len(names)
    app.run()


def test_keys_step_through_passes_and_sites_and_switch_them(app: AppTest) -> None:
    press(app, "ArrowRight")
    assert session(app).selected == "stem_norm"
    press(app, "Enter")
    assert "1 site on" in badge(app)
    press(app, "undo")
    assert "restored, bit for bit" in badge(app)
    press(app, "redo", "ArrowLeft")
    assert session(app).selected == session(app).workbench.state_of(FOLD).misses[-1].site
    press(app, "f")
    assert session(app).looked_at == "FuseBatchNorm1dInLinear"
    press(app, "r", "r")
    assert session(app).looked_at == BIAS, "in a circle, past the passes without a site"
    press(app, "ArrowUp")
    assert session(app).looked_at == MERGE
    press(app, "undo", "ArrowDown", "ArrowDown", "Enter")
    assert session(app).looked_at == FOLD
    assert session(app).workbench.state_of(FOLD).sites_on == 0, "a near miss is selected, which nothing can switch"
    session(app).select("")
    press(app, "Enter")
    assert "4 sites on" in badge(app)
    assert_usable(app)


def test_a_press_that_was_heard_acts_once(app: AppTest) -> None:
    heard = keys.Heard()
    for _ in range(2):
        keys.act(session(app), heard, [(1, "f")])
    assert session(app).looked_at == "FuseBatchNorm1dInLinear"


def test_a_failed_pass_shows_its_node_and_a_report_to_copy(app: AppTest) -> None:
    opened = session(app)
    opened.workbench = Workbench(opened.opened.pristine, passes=[Stumbles(), *opened.workbench.passes])
    app.run()
    toggle(app, "Stumbles").set_value(True).run()
    assert shown_marks(app) >= {"failed"}
    app.button(key="failed at of Stumbles").click().run()
    assert session(app).selected == "stem_conv"
    app.session_state["report of Stumbles"] = True
    app.run()
    assert "ZeroDivisionError" in next(block.value for block in app.code if "Traceback" in block.value)


class Wavers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        if x.sum() > 0:
            x = self.second(x)
        return x


@dataclass(frozen=True)
class WaversSource:
    key: str = "wavers"
    title: str = "A model that decides by its data"
    description: str = "It cannot be captured."
    sizes: Sizes = field(default_factory=lambda: Sizes(SizeRange(2, most=8)))

    def build(self) -> nn.Module:
        return Wavers().eval()

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        return (torch.zeros(batch or 2, 4),), {}


def test_a_failed_capture_shows_the_line_what_to_try_and_the_graph_up_to_there(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "model_source", lambda key: WaversSource())
    switch(app, FOLD, True)
    app.session_state["request"] = Request("wavers")
    app.run()
    assert not app.exception
    assert "depends on the data" in app.error[0].value
    assert any("if x.sum() > 0:" in block.value for block in app.code)
    assert "What to try" in texts(app)
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    assert [one["key"] for one in sent] == ["partial graph", "graph"]
    assert "4 sites on" in badge(app), "what was open stays as it was"
    app.button(key="icon dismiss").click().run()
    assert not app.error


def test_a_cancelled_opening_leaves_the_page_as_it_was(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Slow(WaversSource):
        def build(self) -> nn.Module:
            release.wait(30)
            return super().build()

    monkeypatch.setattr(opening, "model_source", lambda key: Slow())
    started = Opening(Request("slow"), session(app))
    state = {"request": started.request, "opening": started}
    opening.cancel(state)
    release.set()
    started.job.wait()
    assert state == {}
    assert isinstance(started.job.failure, CaptureCancelledError)
    assert_usable(app.run())


def test_nothing_open_says_what_to_do(app: AppTest) -> None:
    del app.session_state["session"]
    app.run()
    assert "No model is open" in app.info[0].value


def test_pointing_at_a_pass_or_site_tells_what_it_would_do_and_changes_nothing(app: AppTest) -> None:
    bench = session(app).workbench
    for row, told in (
        ("pass A", "would do: 4 removed, 4 changed; −144 parameters, −4 operations"),
        ("site A stem_norm", "would do: 1 removed, 1 changed; −32 parameters, −1 operation"),
        ("site A nowhere", "Point at a pass"),
        ("pass D", "Point at a pass"),
    ):
        session(app).pointed_at = (row, bench.choices)
        app.run()
        assert told in texts(app).replace("\\", ""), row
        assert bench.is_restored
    session(app).pointed_at = ("pass A", bench.choices)
    switch(app, FOLD, True)
    assert "Point at a pass" in texts(app)
    session(app).pointed_at = ("pass A", session(app).workbench.choices)
    app.run()
    told = "is on; turned off, it would do: 4 created, 4 changed; +144 parameters, +4 operations"
    assert told in texts(app).replace("\\", "")
