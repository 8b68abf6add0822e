"""Passes and their sites on the page: a visitor switches, moves and points at them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from torch import nn
from torch.fx import Node

from fxopt import MergeLinears
from fxopt.core import GraphIndex, Match, Pass, Rewriter
from fxopt.edits import Delete
from fxopt.ui import keys
from fxopt.ui.session import Session
from fxopt.ui.viewing import look_at, select
from fxopt.workbench import Workbench
from tests.ui.visitor import (
    FOLD,
    act,
    answer,
    assert_usable,
    badge,
    checkbox,
    marks,
    message,
    metrics,
    pass_lines,
    passes,
    question,
    row,
    session,
    shown_marks,
    switch,
    switches,
    texts,
    toggle,
)


def test_the_page_opens_with_a_model_and_one_pass_previewed_but_not_applied(app: AppTest) -> None:
    assert session(app).view.looked_at == FOLD
    assert "original" in badge(app)
    assert shown_marks(app) == {"matched", "miss"}
    assert "0 of 4 sites on; 2 near misses" in pass_lines(app)
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
    assert not any(switch.value for switch in switches(app))
    assert "restored, bit for bit" in badge(app)
    assert_usable(app)


def test_one_site_can_be_switched_alone(app: AppTest) -> None:
    checkbox(app, f"{FOLD} at stem_norm").set_value(True).run()
    assert "1 site on" in badge(app)
    assert toggle(app, FOLD).value
    assert not checkbox(app, f"{FOLD} at residual_norm").value
    checkbox(app, f"{FOLD} at stem_norm").set_value(False).run()
    assert "restored, bit for bit" in badge(app)


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
    assert "a bug in somebody's rewrite" in row(app, "Stumbles")["error"]
    assert not app.exception
    switch(app, FOLD, True)
    assert "4 sites on" in badge(app)


MERGE, BIAS = "MergeLinears", "FuseBiasInLinear"


def order(app: AppTest) -> list[str]:
    return [state.name for state in session(app).workbench.states]


@pytest.fixture
def merged(app: AppTest) -> AppTest:
    """The transformer with its linears merged, and the biases of the result fused."""
    app.selectbox(key="model").set_value("digits_transformer").run()
    switch(app, MERGE, True)
    switch(app, BIAS, True)
    assert session(app).workbench.resting_on(MERGE)
    return app


def test_what_rests_on_a_pass_is_named_before_it_goes_off(merged: AppTest) -> None:
    choices = session(merged).workbench.choices
    switch(merged, MERGE, False)
    assert toggle(merged, MERGE).value, "not before the question is answered"
    assert "Bias into weights at" in question(merged)
    answer(merged, "no").run()
    assert not question(merged)
    assert session(merged).workbench.choices == choices
    switch(merged, MERGE, False)
    answer(merged, "yes").run()
    assert not question(merged)
    assert not toggle(merged, MERGE).value
    assert session(merged).workbench.state_of(BIAS).sites_on > 0
    merged.button(key="icon undo").click().run()
    assert session(merged).workbench.choices == choices


def test_one_site_that_others_rest_on_is_asked_about_too(merged: AppTest) -> None:
    look_at(session(merged), MERGE)
    merged.run()
    family = next(one for one in switches(merged) if one.label.endswith(" copies"))
    assert family.value
    family.set_value(False).run()
    assert "rest" in question(merged)
    answer(merged, "yes").run()
    assert session(merged).workbench.state_of(MERGE).sites_on == 0


def test_an_act_at_one_model_is_left_where_another_has_opened_meanwhile(app: AppTest) -> None:
    components = {
        "pass list": ("acts", "look", session(app).styles[MERGE].letter),
        "keys": ("pressed", "Enter"),
        "graph": ("events", "select", "patches"),
    }

    def send(number: int, of: Session) -> None:
        for key, (entry, *told) in components.items():
            app.session_state[key] = {entry: message(of, [number, *told])}
        app.run()

    before = session(app)
    app.selectbox(key="model").set_value("digits_transformer").run()
    another = session(app)
    seen = another.view
    send(1, before)
    assert another.view == seen
    assert not another.workbench.acts
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"session"' in one.proto.json]
    assert [one["heard"] for one in sent] == [1, 1, 1], "the browser sends it no longer"
    assert {one["session"] for one in sent} == {another.identity}
    send(2, another)
    assert (another.view.looked_at, another.view.selected) == (MERGE, "patches")
    assert len(another.workbench.acts) == 1


def test_copies_of_a_block_are_one_switch_and_each_can_be_switched_alone(app: AppTest) -> None:
    app.selectbox(key="model").set_value("digits_transformer").run()
    act(app, "look", MERGE).run()
    sites = [site.site for site in session(app).workbench.state_of(MERGE).sites]
    family = next(one for one in switches(app) if one.label.endswith(" copies"))
    family.set_value(True).run()
    assert f"{len(sites)} sites on" in badge(app)
    act(app, "copies", family.about.partition(" all ")[2]).run()
    checkbox(app, f"{MERGE} at {sites[0]}").set_value(False).run()
    assert row(app, MERGE)["focus"]["sites"][0]["count"] == f"{len(sites) - 1} of {len(sites)} on"
    app.button(key="icon undo").click().run()
    app.button(key="icon undo").click().run()
    assert "restored, bit for bit" in badge(app)


def test_a_pass_can_run_earlier_or_later_and_keeps_its_letter(app: AppTest) -> None:
    before, letters = order(app), {name: style.letter for name, style in session(app).styles.items()}
    act(app, "later", FOLD).run()
    assert order(app) == [before[0], before[2], before[1], *before[3:]]
    assert {name: style.letter for name, style in session(app).styles.items()} == letters
    assert shown_marks(app) == {"matched", "miss"}
    assert {mark[1] for box in marks(app).values() for mark in box} == {1}
    app.button(key="icon undo").click().run()
    assert order(app) == before
    act(app, "earlier", FOLD).run()
    assert order(app) == [before[1], before[0], *before[2:]]
    assert not row(app, FOLD)["focus"]["earlier"]


def test_passes_without_a_site_stand_in_one_line_and_open_with_their_reason(app: AppTest) -> None:
    silent = [state.name for state in session(app).workbench.states if not state.sites and not state.misses]
    assert [one["key"] for one in passes(app)["idle"]] == [f"idle-{name}" for name in silent]
    assert {"ChangeTrueDivToMulByInverse", "MergeLinears"} <= {*silent}
    act(app, "look", "MergeLinears").run()
    assert session(app).view.looked_at == "MergeLinears"
    assert "It needs two or more Linear that read one tensor" in texts(app)
    assert toggle(app, "MergeLinears").disabled
    assert_usable(app)


def test_a_pass_whose_sites_a_later_one_rewrites_says_so(app: AppTest) -> None:
    toggle(app, "FoldBatchNorm").set_value(True).run()
    assert "0 of 4 sites on; Fold any batch norm rewrites 4 of them instead" in pass_lines(app)


def test_a_newcomer_reads_what_this_is_and_tries_one_thing(app: AppTest) -> None:
    assert "rewrites the graph of a PyTorch model site by site" in texts(app)
    app.button(key="try it").click().run()
    assert "4 sites on" in badge(app)
    assert "rewrites the graph of a PyTorch model site by site" not in texts(app)


def test_a_model_in_which_no_pass_acts_says_what_is_there_and_what_to_do(app: AppTest) -> None:
    opened = session(app)
    opened.workbench = Workbench(opened.opened.pristine, passes=[MergeLinears()])
    app.run()
    [told] = [info.value for info in app.info]
    assert "No pass finds a site in this model" in told
    assert "`ConvNormReLU`" in told
    assert "Merge linears needs two or more Linear that read one tensor" in told
    app.button(key="open another").click().run()
    assert session(app).opened.source.key == "digits_transformer"
    assert_usable(app)


def press(app: AppTest, *names: str) -> None:
    heard = keys.Heard()
    keys.act(session(app), heard, message(session(app), *enumerate(names, 1)))
    assert heard.number == len(names)
    app.run()


def test_keys_step_through_passes_and_sites_and_switch_them(app: AppTest) -> None:
    press(app, "ArrowRight")
    assert session(app).view.selected == "stem_norm"
    press(app, "Enter")
    assert "1 site on" in badge(app)
    press(app, "undo")
    assert "restored, bit for bit" in badge(app)
    press(app, "redo", "ArrowLeft")
    assert session(app).view.selected == session(app).workbench.state_of(FOLD).misses[-1].site
    press(app, "f")
    assert session(app).view.looked_at == "FuseBatchNorm1dInLinear"
    press(app, "r", "r")
    assert session(app).view.looked_at == "PackConvolutions", "in a circle, past the passes without a site"
    press(app, "ArrowUp")
    assert session(app).view.looked_at == "PackLinears"
    press(app, "undo", *["ArrowDown"] * 4, "Enter")
    assert session(app).view.looked_at == FOLD
    assert session(app).workbench.state_of(FOLD).sites_on == 0, "a near miss is selected, which nothing can switch"
    select(session(app), "")
    press(app, "Enter")
    assert "4 sites on" in badge(app)
    assert_usable(app)


def test_a_press_that_was_heard_acts_once(app: AppTest) -> None:
    heard = keys.Heard()
    for _ in range(2):
        keys.act(session(app), heard, message(session(app), (1, "f")))
    assert session(app).view.looked_at == "FuseBatchNorm1dInLinear"


def test_a_failed_pass_shows_its_node_and_a_report_to_copy(app: AppTest) -> None:
    opened = session(app)
    opened.workbench = Workbench(opened.opened.pristine, passes=[Stumbles(), *opened.workbench.passes])
    app.run()
    toggle(app, "Stumbles").set_value(True).run()
    assert shown_marks(app) >= {"failed"}
    act(app, "show", "Stumbles").run()
    assert session(app).view.selected == "stem_conv"
    app.session_state["report of Stumbles"] = True
    app.run()
    assert "ZeroDivisionError" in next(block.value for block in app.code if "Traceback" in block.value)


def test_pointing_at_a_pass_or_site_tells_what_it_would_do_and_changes_nothing(app: AppTest) -> None:
    bench = session(app).workbench
    for pointed, told in (
        ("pass B", "would remove 4 nodes and change 4: −144 parameters, −4 operations"),
        ("site B stem_norm", "would remove 1 node and change 1: −32 parameters, −1 operation"),
        ("site B nowhere", "Point at a pass"),
        ("pass E", "Point at a pass"),
    ):
        session(app).view = replace(session(app).view, pointed_at=(pointed, bench.choices))
        app.run()
        assert told in texts(app).replace("\\", ""), pointed
        assert bench.is_restored
    session(app).view = replace(session(app).view, pointed_at=("pass B", bench.choices))
    switch(app, FOLD, True)
    assert "Point at a pass" in texts(app)
    session(app).view = replace(session(app).view, pointed_at=("pass B", session(app).workbench.choices))
    app.run()
    told = "is on; turned off, it would create 4 nodes and change 4: +144 parameters, +4 operations"
    assert told in texts(app).replace("\\", "")


def test_a_pass_with_other_sites_behind_the_edits_runs_there_by_a_button(app: AppTest) -> None:
    bench = session(app).workbench
    switch(app, FOLD, True)
    bench.turn_off(FOLD, "stem_norm")
    edit = bench.edit(Delete("stem_norm", "stem_conv"))
    app.run()
    assert "It runs before 1 edit by hand; after it, the pass would find 1 site fewer." in texts(app)
    act(app, "behind", FOLD).run()
    assert not app.exception
    names = [state.name for state in bench.states]
    assert names.index(FOLD) == names.index(edit.name) + 1
    assert "It runs before" not in texts(app)
