"""Edits by hand on the page, as whole stories, by Streamlit's AppTest."""

from __future__ import annotations

import json
import string

import pytest
from streamlit.testing.v1 import AppTest

from fxopt import ALL_PASSES
from fxopt.core import fingerprint
from fxopt.ui.viewing import select
from tests.ui.visitor import act, answer, badge, question, session, shown_marks, switches, texts, toggle

AFTER_PASSES = string.ascii_uppercase[len(ALL_PASSES) :]
"""The letters that are left for edits."""


@pytest.fixture
def app(app: AppTest) -> AppTest:
    app.selectbox(key="model").set_value("digits_transformer").run()
    assert not app.exception
    return app


def at_node(app: AppTest, name: str, act: str = "") -> AppTest:
    """Select a node and open the form, at one of its acts."""
    select(session(app), name)
    app.session_state["edit form"] = True
    run(app)
    if act:
        run(app.selectbox(key=f"edit act {name}").set_value(act))
    return app


def run(what: object) -> None:
    """Run the page; nothing may be raised in it."""
    done = what.run()  # type: ignore[attr-defined]
    assert not done.exception, [error.value for error in done.exception]


def apply(app: AppTest) -> None:
    run(next(button for button in app.button if button.label == "Apply").click())


def field(app: AppTest, key: str) -> object:
    return next(one for one in (*app.text_input, *app.selectbox) if str(one.key).startswith(key))


def change(app: AppTest, key: str, value: object) -> None:
    field(app, key).set_value(value)  # type: ignore[attr-defined]


def acts(app: AppTest, name: str) -> list[str]:
    return list(app.selectbox(key=f"edit act {name}").options)


def messages(app: AppTest) -> str:
    return "\n".join(one.value for one in (*app.error, *app.info, *app.success))


def test_a_constant_is_changed_switched_off_and_on_undone_and_restored(app: AppTest) -> None:
    at_node(app, "truediv", "Change its constants")
    change(app, "constant truediv args[1]", "2.0")
    apply(app)
    bench = session(app).workbench
    assert [edit.title for edit in bench.edits] == ["set args[1] of truediv to 2.0"]
    assert "Undo with Ctrl" in messages(app)
    assert "1 site on" in badge(app)
    assert "By hand · " in texts(app)
    assert {"applied", "changed"} <= shown_marks(app)
    sent = [one.proto.json for one in app.get("bidi_component")]
    assert any("Set args[1] of truediv to 2.0" in one for one in sent), "the legend has its words"
    assert not any("SetArgument(" in text for text in (*sent, texts(app)))
    edited = fingerprint(bench.current)
    label = next(one.label for one in switches(app) if "truediv" in one.label)
    run(toggle(app, label).set_value(False))
    assert "restored, bit for bit" in badge(app)
    run(toggle(app, label).set_value(True))
    assert fingerprint(bench.current) == edited
    run(app.button(key="icon undo").click())
    run(app.button(key="icon undo").click())
    run(app.button(key="icon undo").click())
    assert bench.edits == ()
    assert "By hand · " not in texts(app)
    assert "restored, bit for bit" in badge(app)
    assert field(app, "constant truediv args[1]").value == "3.4641016151377544"  # type: ignore[attr-defined]


def test_a_refused_edit_says_why_in_place_and_keeps_what_was_typed(app: AppTest) -> None:
    at_node(app, "mean", "Change its constants")
    change(app, "constant mean args[1]", "2")
    apply(app)
    assert "Not applied" in messages(app)
    assert "scores would fail" in messages(app)
    assert "needed" in messages(app)
    assert field(app, "constant mean args[1]").value == "2"  # type: ignore[attr-defined]
    bench = session(app).workbench
    assert not bench.can_undo
    assert bench.is_restored
    change(app, "constant mean args[1]", "import os")
    apply(app)
    assert "is no value" in messages(app)
    select(session(app), "norm")
    run(app)
    assert "Not applied" not in messages(app)


def test_an_unchanged_form_adds_no_step(app: AppTest) -> None:
    for doing in ("Change its constants", "Call something else", "Rewire its inputs"):
        at_node(app, "truediv", doing)
        apply(app)
        assert "The form is unchanged" in messages(app)
    assert not session(app).workbench.can_undo


def test_each_act_of_the_form_makes_its_edit(app: AppTest) -> None:
    at_node(app, "softmax", "Call something else")
    change(app, "target softmax", "torch.Tensor.log_softmax")
    apply(app)
    at_node(app, "add_1", "Rewire its inputs")
    change(app, "input add_1 args[1]", "add")
    apply(app)
    at_node(app, "truediv", "Swap two arguments")
    apply(app)
    at_node(app, "block1_gelu", "Call another module")
    change(app, "replace block1_gelu", "ReLU")
    apply(app)
    at_node(app, "add_2", "Insert a module behind it")
    change(app, "insert add_2", "Dropout(p=0.1)")
    change(app, "insert into add_2", "add_3")
    apply(app)
    at_node(app, "block2_gelu", "Delete it")
    apply(app)
    titles = [edit.title for edit in session(app).workbench.edits]
    assert titles == [
        "let softmax call torch.Tensor.log_softmax",
        "rewire args[1] of add_1 to add",
        "swap args[0] and args[1] of truediv",
        "let block1_gelu call ReLU",
        "put Dropout(p=0.1) behind add_2, before add_3",
        "delete block2_gelu, its users take block2_expand",
    ]
    letters = [session(app).styles[edit.name].letter for edit in session(app).workbench.edits]
    assert letters == list(AFTER_PASSES[:6])
    run(app.button(key="reverse all").click())
    assert "restored, bit for bit" in badge(app)
    assert len(session(app).workbench.edits) == 6, "they are off, and still there"


def test_only_what_makes_sense_at_a_node_is_offered(app: AppTest) -> None:
    at_node(app, "images")
    assert acts(app, "images") == ["Insert a module behind it"]
    at_node(app, "output")
    assert acts(app, "output") == ["Rewire its inputs"]
    at_node(app, "block1_gelu")
    assert acts(app, "block1_gelu") == [
        "Call another module", "Insert a module behind it", "Rewire its inputs", "Delete it"
    ]  # fmt: skip


def test_a_node_of_the_original_graph_only_cannot_be_edited(app: AppTest) -> None:
    at_node(app, "block1_gelu", "Delete it")
    apply(app)
    assert "It is in the original graph only" in texts(app)


def test_an_edit_is_removed_and_what_rests_on_it_is_asked_about(app: AppTest) -> None:
    at_node(app, "mean", "Insert a module behind it")
    change(app, "insert mean", "Tanh")
    apply(app)
    at_node(app, "tanh", "Call another module")
    change(app, "replace tanh", "ReLU")
    apply(app)
    first, second = session(app).workbench.edits
    run(act(app, "remove", first.name))
    assert "rests on this and would go off too" in question(app)
    run(answer(app, "yes"))
    assert session(app).workbench.edits == (second,)
    assert session(app).styles[second.name].letter == AFTER_PASSES[1], "it keeps its letter"
    assert "Its node is not in the graph now" in texts(app)
    run(act(app, "remove", second.name))
    assert "restored, bit for bit" in badge(app)


def test_edits_go_along_to_another_batch(app: AppTest) -> None:
    at_node(app, "truediv", "Change its constants")
    change(app, "constant truediv args[1]", "2.0")
    apply(app)
    run(app.number_input(key="batch of digits_transformer").set_value(3))
    assert session(app).opened.batch == 3
    assert [edit.title for edit in session(app).workbench.edits] == ["set args[1] of truediv to 2.0"]
    assert "1 site on" in badge(app)


def test_marks_and_letters_agree_after_an_edit_was_taken_away(app: AppTest) -> None:
    for value in ("2.0", "4.0"):
        at_node(app, "truediv", "Change its constants")
        change(app, "constant truediv args[1]", value)
        apply(app)
    first, second = session(app).workbench.edits
    run(act(app, "remove", first.name))
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    styles = [name for name, _, _ in sent[0]["marks"]["styles"]]
    marked = {mark[1] for box in sent[0]["marks"]["boxes"].values() for mark in box if mark[0] == "changed"}
    assert [styles[index] for index in marked] == [second.summary]
    assert list(session(app).styles).index(second.name) in marked


def test_a_probe_tells_what_it_saw(app: AppTest) -> None:
    at_node(app, "mean", "Insert a module behind it")
    change(app, "insert mean", "Probe")
    apply(app)
    select(session(app), "probe")
    run(app)
    assert "Saw nothing yet" in texts(app)
    run(app.button(key="run example").click())
    assert "Saw float32 8 x 48, from " in texts(app).replace("\\", "")


def test_a_pass_that_finds_the_same_sites_behind_the_edits_says_so(app: AppTest) -> None:
    bench = session(app).workbench
    run(toggle(app, "MergeLinears").set_value(True))
    assert "runs before" not in texts(app)
    at_node(app, "truediv", "Change its constants")
    change(app, "constant truediv args[1]", "2.0")
    apply(app)
    assert [state.name for state in bench.states][:2] == ["MergeLinears", bench.edits[0].name]
    assert "It runs before 1 edit by hand; after it, the pass would find the same sites." in texts(app)
