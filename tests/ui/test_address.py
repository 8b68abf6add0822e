"""The address of the page holds what a visitor looks at, and leads there; a hostile one ends in a message."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
import torch
from streamlit.testing.v1 import AppTest

from fxopt.core import fingerprint
from fxopt.edits import SetArgument
from fxopt.recipes.link import Link
from fxopt.recipes.steps import Step
from fxopt.ui import address, graph_panel
from fxopt.ui.acts import compare_acts, end_comparison
from fxopt.ui.command import PAGE
from fxopt.ui.own_models import OwnModel, offer
from fxopt.ui.viewing import select
from tests.cli.models import make
from tests.quick import third
from tests.ui.visitor import FOLD, assert_usable, session, switch, texts


@pytest.fixture(autouse=True)
def mine() -> Iterator[None]:
    model, x = make()
    offer([OwnModel.of("mine", model.eval(), (x,))])
    yield
    offer([])


def at(**parameters: str) -> AppTest:
    """The page as it opens at an address."""
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def parameters(app: AppTest) -> dict[str, str]:
    return {name: value if isinstance(value, str) else value[0] for name, value in app.query_params.items()}


def told(app: AppTest) -> str:
    return "\n".join(one.value.replace("\\", "") for one in app.toast)


def test_passes_sites_edits_view_folding_and_selection_are_restored() -> None:
    app = at()
    assert parameters(app) == {}, "no step of the history before the visitor has done anything"
    mine = session(app)
    assert mine.acted == 0, "the browser counts the visitor's acts too"
    switch(app, FOLD, True)
    bench = mine.workbench
    bench.turn_on("MergeLinears")
    bench.move("MergeLinears", 0)
    bench.edit(SetArgument("truediv", "args[1]", 5))
    mine.view = dataclasses.replace(
        mine.view, together="Diff", selected="truediv", looked_at="MergeLinears", unfolded=frozenset()
    )
    app.run()
    held = parameters(app)
    assert set(held) == {"model", "state"}
    assert len(held["state"]) < 400
    there = at(**held)
    other = session(there)
    assert other.workbench.choices == bench.choices
    assert torch.equal(other.workbench.current(*mine.opened.inputs[0]), bench.current(*mine.opened.inputs[0]))
    assert other.view == dataclasses.replace(mine.view, gone_to=other.view.gone_to)
    assert parameters(there) == held
    assert not there.toast
    switch(there, FOLD, False)
    assert parameters(there) != held


def comparing(start: int, end: int) -> tuple[AppTest, str]:
    """The page that compares the states after so many of three acts, after the last of which the graph was before."""
    app = at(model="digits_transformer")
    bench = session(app).workbench
    bench.turn_on("MergeLinears")
    bench.edit(SetArgument("truediv", "args[1]", 5))
    bench.turn_on("FuseBiasInLinear")
    compare_acts(session(app), start, end)
    app.run()
    return app, parameters(app)["state"]


@pytest.mark.parametrize(("start", "end"), [(1, 2), (3, 1), (0, 3), (2, 0)])
def test_two_compared_states_of_the_time_line_are_restored_and_the_way_back_as_well(start: int, end: int) -> None:
    app, held = comparing(start, end)
    mine = session(app)
    assert len(held) < 600
    there = at(model="digits_transformer", state=held)
    other = session(there)
    assert not there.toast
    assert parameters(there)["state"] == held
    assert other.view.together == "Diff"
    assert other.workbench.choices == mine.workbench.choices
    assert fingerprint(other.graph_before) == fingerprint(mine.graph_before)
    assert other.difference == mine.difference
    for one in (mine, other):
        end_comparison(one)
    assert other.workbench.choices == mine.workbench.choices
    assert mine.workbench.acts_done == 3


def test_a_step_back_to_a_comparison_finds_its_states_in_the_time_line() -> None:
    app, held = comparing(1, 2)
    mine = session(app)
    end_comparison(mine)
    app.run()
    assert parameters(app)["state"] != held
    acts = mine.workbench.acts
    app.session_state[address._TOLD] = {"model": "digits_transformer", "state": held}  # as the browser tells of it
    app.run()
    compared = mine.compared_acts
    assert compared is not None
    assert (compared.start, compared.end, compared.back) == (1, 2, 3)
    assert mine.workbench.acts == acts
    assert app.session_state[address._WRITTEN]["state"] == held, "that of the browser already"


def test_parts_of_compared_states_that_are_not_here_are_told_and_the_rest_is_compared() -> None:
    app, held = comparing(1, 2)
    link = Link.from_text(held)
    gone = Step("NoSuchPass", {}, on=True)
    state = dataclasses.replace(link, since=(*link.since, gone), back=(gone,)).to_text()
    there = at(model="digits_transformer", state=state)
    assert "NoSuchPass" in told(there)
    assert session(there).difference == session(app).difference
    same = at(model="digits_transformer", state=dataclasses.replace(link, since=link.steps).to_text())
    assert session(same).difference is None


def test_in_diff_the_inspector_tells_of_the_same_graph_after_a_reload() -> None:
    app = at(model="digits_transformer")
    switch(app, "MergeLinears", True)
    of = session(app)
    select(of, "block1_attention_key")
    for shown in ("Original", "Diff"):
        app.segmented_control(key="shown").set_value(shown).run()
    assert of.view.shown == "Now", "of two boxes, the new one"
    for box, shown in (("block1_attention_key", "Now"), ("block1_attention_key~", "Original")):
        graph_panel._select(of, box, "Diff")
        app.run()
        there = at(**parameters(app))
        assert (session(there).view.selected, session(there).view.shown) == ("block1_attention_key", shown)
        assert without_times(texts(there)) == without_times(texts(app))


def without_times(text: str) -> str:
    """The text without the times of scans, which are measured anew."""
    return re.sub(r"\d+ ms", "", text)


def test_what_is_not_here_is_told_and_the_rest_applied() -> None:
    app = at()
    switch(app, FOLD, True)
    steps = Link.of(session(app).workbench).steps
    view = {"selected": "nowhere", "looked_at": "NoPass", "graph": "Upside down", "open": ("no.module",)}
    there = at(model="own:mine", state=Link(steps, view).to_text())
    assert_usable(there)
    assert session(there).workbench.state_of(FOLD).on
    for missing in ("the node nowhere", "NoPass: no pass of", "the view Upside down", "the module no.module"):
        assert missing in told(there)


def test_the_tab_and_the_cost_are_held_and_restored_and_unknown_ones_are_told() -> None:
    app = at()
    app.selectbox(key="cost").set_value("Cost: parameters").run()
    held = parameters(app)
    there = at(**held)
    assert_usable(there)
    assert there.selectbox(key="cost").value == "Cost: parameters"
    assert parameters(there) == held
    view = {"tab": "Nowhere", "cost": "Cost: love"}
    there = at(model="own:mine", state=Link(Link.of(session(app).workbench).steps, view).to_text())
    assert_usable(there)
    assert "a tab that is not here: Nowhere" in told(there)
    assert "a cost that is not here: Cost: love" in told(there)


@pytest.mark.slow
def test_a_link_to_another_model_says_which_sites_are_gone() -> None:
    app = at()
    switch(app, FOLD, True)
    state = parameters(app)["state"]
    there = at(model="digits_transformer", state=state)
    assert_usable(there)
    assert f"{FOLD} at norm" in told(there)


HOSTILE: list[tuple[dict[str, str], str]] = [
    ({"model": "nowhere"}, "a model that is not here: nowhere"),
    ({"batch": "-1"}, "the batch -1, which is no whole number"),
    ({"sequence": "٣"}, "the sequence ٣, which is no whole number"),
    ({"batch": "9" * 400}, "no whole number that fits"),
    ({"model": "folder", "folder": "x" * 5000}, "too long to be one"),
    ({"state": "2abc"}, "links begin with 1"),
    ({"state": "1" + "A" * 3000}, "it is broken"),
    ({"state": "1<script>alert(1)</script>"}, "it is broken"),
    ({"state": Link().to_text()[:-4]}, "it is broken"),
]


@pytest.mark.parametrize("case", third(HOSTILE))
def test_hostile_addresses_end_in_a_message(case: tuple[dict[str, str], str]) -> None:
    asked, message = case
    app = at(**asked)
    assert_usable(app)
    assert message in told(app)
    assert "state" not in parameters(app), "what cannot be read does not stay in the address"


@pytest.mark.slow
def test_a_size_out_of_range_is_told_as_if_it_was_typed() -> None:
    app = at(model="digits_transformer", batch="100000")
    assert "batch is 100000; give a whole number" in "\n".join(one.value for one in app.error)
    assert app.number_input[0].value == 100000


def test_what_is_too_long_for_an_address_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    app = at()
    monkeypatch.setattr(address, "MOST_ADDRESS", 40)
    switch(app, FOLD, True)
    assert address.TOO_LONG in told(app)
    assert parameters(app) in ({}, {"model": "own:mine"})
    switch(app, "MergeLinears", True)
    assert address.TOO_LONG not in told(app)


@pytest.mark.slow
def test_sizes_are_held_and_restored() -> None:
    app = at(model="digits_transformer", batch="3")
    assert session(app).opened.batch == 3
    app.number_input[0].set_value(2).run()
    assert parameters(app)["batch"] == "2"
