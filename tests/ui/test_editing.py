"""Edits by the menu of a node: its words are those of the form, and a refusal is a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.ui import edit_form, editing
from fxopt.ui.editing import FORMS, NoSuchEditError, edit_at, edit_edge
from tests.ui.visitor import session


def test_the_menu_the_form_and_what_opens_it_have_the_same_words() -> None:
    assert set(FORMS.values()) == {act.title for act in edit_form._ACTS}
    menu = (Path(editing.__file__).parent / "component" / "menu.js").read_text()
    entries = menu.partition("const OF_NODE = [")[2].partition("\n];")[0]
    assert dict(re.findall(r'\["(\w+)", "([^"]+)", "\w*"\]', entries)) == FORMS


@pytest.mark.parametrize("what", ["constants", "rewire", "delete"])
def test_an_edit_that_a_node_cannot_take_is_refused_in_a_sentence(
    app: AppTest, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = session(app)
    monkeypatch.setattr(editing, "select", lambda session, name: None)
    monkeypatch.setattr(editing, "st", type("Streamlit", (), {"session_state": {}}))
    name = asked.workbench.current.graph.find_nodes(op="placeholder")[0].name
    edit_at(asked, what, name)
    assert asked.outcome_of_edit is not None
    refusal = asked.outcome_of_edit.refusal
    assert isinstance(refusal, NoSuchEditError)
    assert str(refusal).startswith(f"{name} cannot take this edit ({FORMS[what].lower()}); what can be done at it: ")


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (
            "insert stem_conv stem_relu",
            "stem_relu does not read stem_conv in the graph as it is now; choose an",
        ),
        ("target stem_conv stem_norm images", "images has no input that could read stem_conv; choose a node that"),
        ("target stem_conv stem_norm add", "add has 2 inputs, and stem_conv can take the place of any; choose it in"),
        (
            "source stem_conv stem_norm stem_relu",
            "stem_relu is computed from stem_norm, so this would be a cycle",
        ),
        ("source stem_conv stem_norm stem_conv", "args[0] of stem_norm is stem_conv already (choose another node)"),
    ],
)
def test_an_edit_of_an_edge_that_cannot_be_is_refused_with_a_subject_and_a_remedy(
    app: AppTest, act: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = session(app)
    monkeypatch.setattr(editing, "select", lambda session, name: None)
    monkeypatch.setattr(editing, "st", type("Streamlit", (), {"session_state": {}}))
    what, *names = act.split()
    edit_edge(asked, what, names)
    assert asked.outcome_of_edit is not None
    assert told in str(asked.outcome_of_edit.refusal)
    assert not asked.workbench.edits


def test_an_end_of_an_edge_rewires_its_target_and_the_other_end_a_node_with_one_input(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = session(app)
    monkeypatch.setattr(editing, "select", lambda session, name: None)
    monkeypatch.setattr(editing, "st", type("Streamlit", (), {"session_state": {}}))
    edit_edge(asked, "source", ["stem_norm", "stem_relu", "stem_conv"])
    edit_edge(asked, "target", ["stem_conv", "stem_relu", "residual_first_conv"])
    assert [edit.title for edit in asked.workbench.edits] == [
        "rewire args[0] of stem_relu to stem_conv",
        "rewire args[0] of residual_first_conv to stem_conv",
    ]
    for names in (["stem_conv"], ["stem_conv", "stem_relu"], []):
        edit_edge(asked, "source", names)
    assert len(asked.workbench.edits) == 2, "a message of another page is left alone"
