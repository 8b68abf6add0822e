"""Values that no browser of ours sends, and texts that nobody means: each ends in a message, and the next act works."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.models import model_source
from fxopt.ui.fault import FAULT
from fxopt.ui.keys import Heard, act
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from fxopt.ui.viewing import select
from tests.ui.visitor import assert_usable, message, session, texts

TEXTS = (
    "", " ", "a" * 300, "/" + "x" * 300, "b" * 100_000, "a/" * 3000, "a\0b", "two\nlines", "🎉🤖",
    "\u202eright to left", "../" * 40, "~nobody", "~", "/root/secret", "/proc/self", "**bold** `code` $x^2$",
    "<script>alert(1)</script>",
    ":material/x:", "1", "-1", "nan", "1e999", "[" * 600, "[[a]", "(a+)+$", "(" * 50, "a{9999999999}", "\\", "%s {0}",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 10**30, 2**53, float("nan"), float("inf"), "", "x" * 10_000, "\ud800", [], {}, [[]], [None],
    [[1]], [[1, 2]], [["1", "Enter"]], [[1, "Enter", "x", "y"]], [[True, "Enter"]], [[-5, "Enter"]], [[1.5, "Enter"]],
    [[10**40, "Enter"]], [[1, "no key"]], [[1, "move "]], [[1, "move \ud800 A B"]], [[1, None]], [[1, ["Enter"]]],
    [[1, "select", 7]], [[1, "select", "nobody"]], [[1, "select", "@nobody#1"]], [[1, "fold", "nobody"]],
    [[1, "fold", ["stem"]]], [[1, "fold", None]], [[1, "burn", "stem"]], [[1, "select", "\ud800"]],
    [[1, "select", "y" * 5000]], [[2**30, "select", None]], [[i, "Enter"] for i in range(1, 9)],
    {"rows": [1]}, {"rows": ["x"]}, {"rows": [10**9]}, {"rows": {"a": 1}}, "pass A", "pass Z9",
    [[1, "on", "A nobody"]], [[1, "off", None]], [[1, "look", "\ud800"]], [[1, "copies", "x"]],
    [[1, "answer", "A yes"]], "sites A \ud800",
)  # fmt: skip
COMPONENTS = (("keys", "pressed"), ("graph", "events"), ("graph before", "events"), ("hover", "over"),
              ("pass list", "acts"))  # fmt: skip


def assert_sound(app: AppTest) -> None:
    """The page shows no traceback, no panel of it failed, and the session is one that can be drawn."""
    assert_usable(app)
    assert FAULT not in texts(app)
    of = session(app)
    known = {*of.view_of("Original").by_name, *of.view_of("Now").by_name}
    paths = {*of.view_of("Original").module_classes, *of.view_of("Now").module_classes}
    assert of.view.shown in ("Original", "Now")
    assert of.view.unfolded <= paths
    assert not of.view.selected or of.view.selected in known or of.view.selected[1:].partition("#")[0] in paths


def assert_next_act_works(app: AppTest) -> None:
    heard = sent(app, "keys")["heard"]
    before = session(app).view.looked_at
    app.session_state["keys"] = {"pressed": message(session(app), [heard + 1, "ArrowDown"])}
    app.run()
    assert session(app).view.looked_at != before
    assert_sound(app)


def sent(app: AppTest, component: str) -> dict[str, Any]:
    entry = {"keys": '"heard"', "graph": '"layout"'}[component]
    [found] = [
        one.proto.json
        for one in app.get("bidi_component")
        if entry in one.proto.json
        and ('"layout"' in one.proto.json) == (component == "graph")
        and '"rows"' not in one.proto.json
    ]
    data: dict[str, Any] = json.loads(found)
    return data


def type_into_every_field(app: AppTest, text: str) -> None:
    for field in app.text_input:
        field.set_value(text)
    app.run()


def send_to_every_component(app: AppTest, values: Iterator[Any]) -> None:
    for component, entry in COMPONENTS:
        value = next(values)
        is_told = component != "hover" and isinstance(value, list)
        app.session_state[component] = {entry: message(session(app), *value) if is_told else value}
    app.run()


@pytest.fixture
def session_of_digits() -> Session:
    source = model_source("digits_conv_net")
    return Session(captured(source.key, "", 2, None, source))


@pytest.fixture
def open_page(app: AppTest) -> AppTest:
    """The page with the table of nodes, and the field for a folder."""
    app.session_state["evidence"] = "Nodes"
    return app.selectbox(key="model").set_value("folder").run()


def test_any_text_in_any_field_ends_in_a_message(open_page: AppTest) -> None:
    app = open_page
    assert {"folder", "asked nodes"} <= {field.key for field in app.text_input}
    before = session(app)
    for text in TEXTS:
        type_into_every_field(app, text)
        assert_sound(app)
        assert session(app) is before
        assert bool(app.error) == bool(text.strip())
    assert_next_act_works(app)


def test_a_config_of_any_content_ends_in_a_message(open_page: AppTest, tmp_path: Path) -> None:
    app, before = open_page, session(open_page)
    contents = (
        "[" * 200_000, '{"a":' * 200_000, '{"model_type": "bert", "a": ' + "[" * 600 + "]" * 600 + "}", "", "\0", "NaN",
        '{"model_type": 7}', '{"model_type": "bert", "max_position_embeddings": 1e999, "pad_token_id": "x"}',
        '{"model_type": "bert", "max_position_embeddings": -5, "text_config": 3, "architectures": {"a": 1}}',
        '{"model_type": "mpnet", "max_position_embeddings": 512, "pad_token_id": "x"}',
    )  # fmt: skip
    for number, content in enumerate(contents):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text(content)
        app.text_input(key="folder").set_value(str(folder)).run()
        assert app.error, content[:80]
        assert_sound(app)
        assert session(app) is before
    assert_next_act_works(app)


def test_any_text_in_the_form_of_edits_is_an_edit_or_ends_in_a_message(app: AppTest) -> None:
    app.session_state["edit form"] = True
    select(session(app), "flatten")
    app.run()
    fields = [field.key for field in app.text_input]
    assert fields
    for text in TEXTS[::3]:
        for field in app.text_input:
            field.set_value(text)
        next(button for button in app.button if button.label == "Apply").click().run()
        assert_sound(app)
        assert app.error or app.success or app.info
    assert_next_act_works(app)


def test_any_number_in_a_field_of_sizes_ends_in_a_message(app: AppTest) -> None:
    before = session(app)
    for number in (0, -1, 10**15, -(10**15)):
        for field in app.number_input:
            field.set_value(number)
        app.run()
        assert "from 1 to 256" in app.error[0].value
        assert_sound(app)
    assert session(app) is before


def test_any_value_of_a_component_is_an_act_or_is_ignored(app: AppTest) -> None:
    values = list(VALUES)
    order = random.Random(0)
    for _ in range(len(values) // 3):
        order.shuffle(values)
        send_to_every_component(app, iter(values))
        assert_sound(app)
    assert_next_act_works(app)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_random_json_in_every_component_between_acts(app: AppTest, seed: int) -> None:
    order = random.Random(seed)
    for _ in range(40):
        send_to_every_component(app, iter([_random(order, 4) for _ in COMPONENTS]))
        assert_sound(app)
        assert_next_act_works(app)


def _random(order: random.Random, depth: int) -> Any:
    """A value with the words of the page in it, so that some of it is taken for an act."""
    if depth == 0 or order.random() < 0.2:
        words = ("Enter", "ArrowUp", "move A C", "undo", "select", "fold", "stem", "@stem", "stem_conv", "pass A", "?")
        return order.choice([*words, *VALUES[:12], order.randint(-3, 200)])
    if order.random() < 0.5:
        inner = order.choice(["select", "fold", "Enter", "undo", "move B"])
        return [[order.randint(1, 400), inner, _random(order, 0)][: order.randint(2, 3)] for _ in range(3)]
    return [_random(order, depth - 1) for _ in range(order.randint(0, 4))]


# ---- how much one message may ask for


def test_a_message_with_a_hundred_thousand_acts_does_a_few_and_says_so(app: AppTest) -> None:
    before = session(app).view.unfolded
    app.session_state["graph"] = {"events": message(session(app), *([i, "fold", "stem"] for i in range(1, 100_001)))}
    app.session_state["keys"] = {"pressed": message(session(app), *([i, "ArrowDown"] for i in range(1, 20_001)))}
    app.run()
    assert_sound(app)
    assert session(app).view.unfolded == before  # an even number of them
    assert sorted(toast.value.split()[0] for toast in app.toast) == ["19,936", "99,936"]
    assert sent(app, "keys")["heard"] == 20_000
    assert sent(app, "graph")["heard"] == 100_000
    assert_next_act_works(app)


def test_acts_end_when_their_sender_has_left(session_of_digits: Session) -> None:
    heard, here = Heard(), iter([True, True, False])
    act(
        session_of_digits,
        heard,
        message(session_of_digits, *([i, "ArrowDown"] for i in range(1, 50))),
        lambda: next(here),
    )
    assert heard.number == 2


def test_an_act_that_fails_leaves_the_session_as_it_was(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    def half_done(self: Session, *_: object) -> None:
        self.looked_at, self.selected, self.shown = "", "nobody", None  # type: ignore[assignment]
        raise RuntimeError("half done")

    before = session(app).view
    monkeypatch.setattr("fxopt.workbench.Workbench.undo", half_done)
    monkeypatch.setattr("fxopt.ui.keys._ACTS", {"undo": lambda session: half_done(session)})
    app.session_state["keys"] = {"pressed": message(session(app), [1, "undo"])}
    app.run()
    assert session(app).view == before
    assert "half done" in app.toast[0].value
    assert_sound(app)


def test_a_panel_that_fails_is_a_message_and_the_session_goes_back(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    session(app).view = replace(session(app).view, selected=7)  # type: ignore[arg-type]
    app.run()
    assert session(app).view.selected == ""
    assert_sound(app)
    monkeypatch.setattr("fxopt.ui.inspector._inspector", lambda session: 1 / 0)
    app.run()
    assert_usable(app)
    assert "The inspector panel could not be drawn" in app.error[0].value
