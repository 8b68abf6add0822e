"""Recipes on the page: saved, loaded, and refused with nothing lost."""

from __future__ import annotations

import json

import pytest
from streamlit.testing.v1 import AppTest

from fxopt import Recipe, fingerprint
from fxopt.edits import Insert
from fxopt.ui.acts import reverse_all, undo
from fxopt.ui.recipe_form import MOST_EDITS, recipe_of
from tests.ui.visitor import FOLD, assert_usable, badge, session, switch, texts


@pytest.fixture
def app(app: AppTest) -> AppTest:
    app.session_state["recipe"] = True
    return app.run()


def upload(app: AppTest, content: bytes, name: str = "work.recipe.json") -> AppTest:
    done = app.file_uploader(key="recipe file").set_value((name, content, "application/json")).run()
    assert not done.exception, [error.value for error in done.exception]
    return done


def saved(app: AppTest) -> bytes:
    """The file that the button saves."""
    (button,) = [one for one in app.download_button if one.label == "Save this work"]
    assert button is not None
    return recipe_of(session(app)).to_json().encode()


def test_work_that_was_saved_is_loaded_in_one_step(app: AppTest) -> None:
    switch(app, FOLD, True)
    bench = session(app).workbench
    bench.edit(Insert(bench.example_names[0], "Identity"))
    content, there = saved(app), fingerprint(session(app).workbench.current)
    assert Recipe.from_bytes(content).model.name == "digits_conv_net"
    reverse_all(session(app))
    upload(app.run(), content)
    assert "bit for bit" in app.success[0].value
    assert fingerprint(session(app).workbench.current) == there
    undo(session(app))
    app.run()
    assert "restored" in badge(app)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"\x80\x04pickle", "a Python pickle", marks=pytest.mark.slow),
        (b'{"fxopt_recipe": 7}', "fxopt_recipe: the version of this recipe is 7"),
        pytest.param(b"{", "line 1: this is no JSON", marks=pytest.mark.slow),
        pytest.param(b"\xff", "no UTF", marks=pytest.mark.slow),
        pytest.param(b"", "the file is empty", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_file_is_refused_and_nothing_is_lost(app: AppTest, content: bytes, told: str) -> None:
    switch(app, FOLD, True)
    before = session(app).workbench.choices
    upload(app, content)
    assert told in app.error[0].value.replace("\\", "")
    assert "the work is as it was" in app.error[0].value
    assert session(app).workbench.choices == before
    assert session(app).workbench.can_undo


def test_a_server_for_others_takes_a_recipe_with_few_edits_alone(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    content = json.loads(saved(app))
    name = session(app).workbench.example_names[0]
    edit = {"edit": "Insert", "arguments": {"node": name, "module": "Identity"}, "on": True, "sites": []}
    content["steps"] += [edit] * (MOST_EDITS + 1)
    monkeypatch.setattr("fxopt.ui.recipe_form.is_served_here", lambda: False)
    upload(app, json.dumps(content).encode())
    assert f"it has {MOST_EDITS + 1} edits by hand, and this server takes {MOST_EDITS}" in app.error[0].value
    assert not session(app).workbench.edits


def test_another_result_on_the_same_model_is_told_in_words_of_the_page_and_taken_on_request(app: AppTest) -> None:
    switch(app, FOLD, True)
    content = json.loads(saved(app))
    content["fingerprints"]["after"] = "0"
    reverse_all(session(app))
    upload(app.run(), json.dumps(content).encode())
    assert "the result is another one than it names" in app.error[0].value
    assert "strict" not in app.error[0].value
    next(one for one in app.button if one.label == "Load it all the same").click().run()
    assert_usable(app)
    assert not app.error
    assert session(app).workbench.state_of(FOLD).sites_on == 4


@pytest.mark.slow
def test_a_recipe_of_another_model_is_refused_with_reasons_and_its_rest_is_applied_on_request(app: AppTest) -> None:
    switch(app, FOLD, True)
    content = json.loads(saved(app))
    step = next(step for step in content["steps"] if step.get("pass") == FOLD)
    step["sites"].append({"site": "elsewhere", "on": True})
    content["model"]["name"] = "bert-base"
    content["fingerprints"]["before"] = "0"
    reverse_all(session(app))
    upload(app.run(), json.dumps(content).encode())
    told = app.error[0].value.replace("\\", "")
    assert "1 of its parts does not apply here. It was made on BERT-base." in told
    assert f"{FOLD} at elsewhere: there is no such node" in told
    assert not session(app).workbench.is_changed
    next(one for one in app.button if one.label == "Apply the rest").click().run()
    assert_usable(app)
    assert not app.error
    assert "left out: steps" in texts(app).replace("\\", "")
    assert session(app).workbench.state_of(FOLD).sites_on == 4
