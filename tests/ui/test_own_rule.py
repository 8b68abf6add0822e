"""A rule written in the page: only where it is allowed, and only once its author wants it run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.web import cli as streamlit_cli
from typer.testing import CliRunner

from fxopt.errors import CancelledError
from fxopt.models import ZOO
from fxopt.passes import QuantizeLinears
from fxopt.recipes import Recipe
from fxopt.recipes.link import Link
from fxopt.ui import command, kept_rule
from fxopt.ui import own_rule as own_rule_module
from fxopt.ui.command import PAGE
from fxopt.ui.kept_rule import STOOD_THERE
from fxopt.ui.markdown import code
from fxopt.ui.own_rule import OwnRule, is_code_allowed, legend_of_rule, marks_of_rule
from fxopt.ui.rule_tab import LOST
from fxopt.ui.workshop import VARIABLE, code_allowed
from fxopt.view import Mark
from fxopt.writing import TEMPLATES, Answer, Fault, Found, NearMiss, Site
from fxopt.writing.reading import passes_of
from fxopt_cli.main import cli
from tests.ui.visitor import assert_usable, session, texts

ANSWER = Answer((Found("mine", "", (Site("stem_relu", "why"),), (NearMiss("pool", "the factor is 2"),)),))


SET = threading.Event()
SET.set()


class Process:
    """Stands in for the process: it takes note of the texts that would be run."""

    run: list[str] = []
    checked: list[str] = []

    def __init__(self) -> None:
        self.is_closed = True
        self.held: list[object] = []

    def begin(self) -> None:
        self.is_closed = False

    def hold(self, gm: object, args: object, kwargs: object) -> None:
        self.held.append(gm)

    def ask(self, text: str, *, checks: bool, wanted: Callable[[], bool]) -> Answer:
        if not wanted():
            raise CancelledError("the answer is no longer wanted")
        (self.checked if checks else self.run).append(text)
        return ANSWER

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Code is allowed; the texts that would be run."""
    monkeypatch.setattr(own_rule_module, "code_allowed", SET)
    monkeypatch.setattr(own_rule_module, "RuleProcess", Process)
    monkeypatch.setattr(Process, "run", [])
    monkeypatch.setattr(Process, "checked", [])
    return Process.run


def opened(app: AppTest) -> AppTest:
    app.session_state["evidence"] = "Your rule"
    return app.run()


def test_code_is_allowed_by_a_switch_on_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rule_module, "is_served_here", lambda: True)
    monkeypatch.setenv("FXOPT_ALLOW_CODE", "1")
    assert not is_code_allowed(), "the environment allows nothing"
    monkeypatch.setattr(own_rule_module, "code_allowed", SET)
    assert is_code_allowed()
    monkeypatch.undo()
    monkeypatch.setattr(own_rule_module, "code_allowed", SET)
    monkeypatch.setenv(VARIABLE, "1")
    assert not is_code_allowed(), "a workshop"
    for others in (["--serve", "0.0.0.0"], ["--workshop"]):
        done = CliRunner().invoke(cli, ["app", "--allow-code", *others], env={"COLUMNS": "300"})
        assert done.exit_code == 2
        assert "--allow-code is for this machine alone" in done.output


@pytest.mark.parametrize("allow_code", [True, False])
def test_the_switch_of_the_command_allows_code(allow_code: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])
    monkeypatch.setattr("fxopt.ui.ahead.work_ahead", lambda: None)
    monkeypatch.setattr(streamlit_cli, "main", lambda prog_name: None)
    try:
        command.serve(command.Serving(headless=True, allow_code=allow_code))
        assert code_allowed.is_set() == allow_code
    finally:
        code_allowed.clear()


def test_without_the_switch_the_built_in_rules_are_read(app: AppTest) -> None:
    opened(app)
    assert_usable(app)
    assert any("def multiply_by_one" in one.value for one in app.code)
    assert not [one for one in app.button if one.label == "Check the laws"]


def test_a_text_from_a_file_is_run_once_its_visitor_asks_for_it(app: AppTest, allowed: list[str]) -> None:
    mine = OwnRule()
    mine.put("import os", may_run=False)
    app.session_state["own rule"] = mine
    opened(app)
    assert_usable(app)
    assert allowed == []
    assert any("has not been run" in one.value for one in app.warning)
    next(one for one in app.button if one.label == "Run it").click()
    app.run()
    assert allowed == ["import os"]
    assert mine.answer == ANSWER
    process = mine.process
    assert isinstance(process, Process)
    session(app).rest()
    assert process.is_closed
    process.is_closed = False
    app.run()
    next(one for one in app.button if one.label == "Check the laws").click()
    app.run()
    assert mine.job is not None
    assert mine.job.wait(60)
    assert process.checked == ["import os"]
    session(app).rest()
    assert process.is_closed, "again"


def test_a_check_is_of_the_text_that_was_typed_just_before_the_click(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 300)
    opened(app)
    next(one for one in app.button if one.label == "Check the laws").click()
    app.run()
    mine: OwnRule = app.session_state["own rule"]
    older = mine.job
    assert older is not None
    mine.text = "newer"  # as the editor sends it, a moment after the click
    newer = mine.ask(session(app))
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 0)
    assert newer.wait(60)
    assert older.wait(60)
    assert Process.checked == ["newer"]
    assert "newer" not in allowed, "without its laws"
    mine.wants_check = False  # as with the answer
    mine.text = "newest"
    assert mine.ask(session(app)).wait(60)
    assert allowed[-1] == "newest"
    assert Process.checked == ["newer"]


def test_a_check_that_was_cancelled_begins_again_at_the_next_click(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 300)
    opened(app)
    mine: OwnRule = app.session_state["own rule"]
    mine.check()
    job = mine.ask(session(app))
    job.cancel()
    assert job.wait(60)
    assert Process.checked == []
    assert mine.ask(session(app)) is job
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 0)
    mine.check()
    assert mine.ask(session(app)).wait(60)
    assert Process.checked == [mine.text]


def test_a_click_after_an_answer_is_for_what_was_typed_since(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 0)
    opened(app)
    mine: OwnRule = app.session_state["own rule"]
    mine.check()
    answered = mine.ask(session(app))
    assert answered.wait(60)
    app.run()
    assert not mine.wants_check
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 300)
    next(one for one in app.button if one.label == "Check the laws").click()
    app.run()
    assert mine.wants_check, "the answer that is there is not that of this click"
    mine.text = "newer"
    job = mine.ask(session(app))
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 0)
    assert job.wait(60)
    assert Process.checked[-1] == "newer"


def test_a_question_that_ended_with_the_rest_of_its_session_is_asked_again(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rest(self: Process, text: str, **_: object) -> Answer:
        allowed.append(text)
        raise CancelledError("a newer text came")

    with monkeypatch.context() as resting:
        resting.setattr(Process, "ask", rest)
        opened(app)
        assert len(allowed) == 1
    app.run()
    assert_usable(app)
    assert len(allowed) == 2
    assert not [one for one in app.error if "newer text" in one.value]
    assert app.session_state["own rule"].answer == ANSWER


def test_a_text_comes_into_the_list_only_as_its_laws_were_checked(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lawful = Answer((replace(ANSWER.found[0], checked="the laws hold"),))
    monkeypatch.setattr(own_rule_module, "TYPED_SECONDS", 0)
    monkeypatch.setattr(Process, "ask", lambda self, text, **_: lawful)
    opened(app)
    mine: OwnRule = app.session_state["own rule"]
    mine.check()
    assert mine.ask(session(app)).wait(60)
    app.run()
    button = next(one for one in app.button if one.label == "Put into the list")
    assert mine.is_lawful
    assert not button.disabled
    mine.text = "raise SystemExit('this was run in the server')"
    mine.wants_check = True
    mine.ask(session(app))
    assert not mine.is_lawful, "the answer that is there is about another text"
    before = [state.name for state in session(app).workbench.states]
    button.click()
    app.run()
    assert_usable(app)
    assert [state.name for state in session(app).workbench.states] == before
    assert any("first check the laws of the text as it is now" in one.value for one in app.toast)


def test_the_page_says_that_a_rule_in_the_list_goes_with_a_reload(app: AppTest, allowed: list[str]) -> None:
    opened(app)
    assert LOST not in texts(app)
    session(app).workbench.add(QuantizeLinears())  # no rule: an address and a recipe keep it
    app.run()
    assert LOST not in texts(app)
    mine: OwnRule = app.session_state["own rule"]
    (rule,), _ = passes_of(mine.text)
    session(app).workbench.add(rule)
    mine.texts[rule.signature] = mine.text
    app.run()
    assert f"{code(rule.name)} in the list of passes. {LOST}" in texts(app)
    session(app).workbench.undo()
    app.run()
    assert LOST not in texts(app)


KEPT = json.dumps({"text": "a draft", "listed": [TEMPLATES[0].text, "no rule"]})


def loaded_anew(app: AppTest, sent: object) -> OwnRule:
    """The rule of a new visit, to whose first page the browser has sent the one that it keeps."""
    opened(app)
    mine: OwnRule = app.session_state["own rule"]
    assert mine.is_new
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_rule, "own_rule", lambda: mine)
        patch.setattr(kept_rule, "sent_by", lambda *_: sent)
        kept_rule._come_back()
    app.run()
    assert_usable(app)
    return mine


def test_a_reload_brings_the_text_back_and_runs_none_of_it_unasked(app: AppTest, allowed: list[str]) -> None:
    mine = loaded_anew(app, KEPT)
    assert (mine.text, mine.gone) == ("a draft", (TEMPLATES[0].text, "no rule"))
    assert any("has not been run" in one.value for one in app.warning)
    assert STOOD_THERE in [one.value for one in app.info]
    assert set(allowed) <= {TEMPLATES[0].text}, "of the new visit, before the browser sent its own"
    assert not session(app).workbench.added
    assert Process.checked == []


def test_one_click_puts_the_rules_into_the_list_again_whose_laws_hold(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lawful = Answer((replace(ANSWER.found[0], checked="the laws hold"),))

    def ask(self: Process, text: str, **_: object) -> Answer:
        self.checked.append(text)
        return lawful if text == TEMPLATES[0].text else Answer(faults=(Fault("there is no rule here yet"),))

    monkeypatch.setattr(Process, "ask", ask)
    mine = loaded_anew(app, KEPT)
    Process.checked.clear()
    app.button(key="list again").click()
    app.run()
    assert mine.coming_back is None or mine.coming_back.wait(60)
    app.run()
    assert_usable(app)
    assert Process.checked == [TEMPLATES[0].text, "no rule"]
    assert [one.name for one in session(app).workbench.added] == ["remove_one"]
    assert mine.gone == ("no rule",), "to be read, or left out"
    assert not mine.may_run, "the draft was no part of the list"
    assert json.loads(kept_by(app))["listed"] == ["no rule", TEMPLATES[0].text], "for the next reload"
    app.button(key="leave gone").click().run()
    assert STOOD_THERE not in [one.value for one in app.info]
    session(app).workbench.undo()
    app.run()
    assert json.loads(kept_by(app))["listed"] == []


def test_each_rule_comes_back_by_its_own_answer_and_one_that_cannot_stops_no_other(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, taken, last = (TEMPLATES[0].text.replace("remove_one", name) for name in ("first", "FoldBatchNorm", "last"))
    lawful = Answer((replace(ANSWER.found[0], checked="the laws hold"),))
    mine = loaded_anew(app, json.dumps({"text": "", "listed": [first, taken, last, "unlawful"]}))
    monkeypatch.setattr(kept_rule, "own_rule", lambda: mine)
    monkeypatch.setattr(own_rule_module, "own_rule", lambda: mine)
    answers = [
        (first, lawful),
        (taken, lawful),
        (last, lawful),
        ("unlawful", Answer(faults=(Fault("a law is broken"),))),
    ]
    mine.gone = mine.gone[1:]  # the visitor has put the first one into the list meanwhile
    kept_rule._put_back(session(app), answers)
    assert [one.name for one in session(app).workbench.added] == ["last"]
    assert mine.gone == (taken, "unlawful")


def test_what_was_in_the_list_comes_back_where_its_visitor_types_sooner(
    app: AppTest, allowed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    mine: OwnRule = app.session_state["own rule"]
    mine.write("typed at once")
    monkeypatch.setattr(kept_rule, "own_rule", lambda: mine)
    monkeypatch.setattr(kept_rule, "sent_by", lambda *_: KEPT)
    kept_rule._come_back()
    assert (mine.text, mine.gone) == ("typed at once", (TEMPLATES[0].text, "no rule"))
    mine.gone = ()
    kept_rule._come_back()
    assert mine.gone == (), "it is heard once"


def kept_by(app: AppTest) -> str:
    """The rule that the browser is given to keep."""
    [keeper] = [one for one in app.get("bidi_component") if one.proto.component_name == "fxopt_rule_keeper"]
    return str(json.loads(keeper.proto.json)["kept"])


@pytest.mark.parametrize(
    "sent",
    [None, 7, "", "[", "[" * 100_000, "{}", '{"text": 1, "listed": []}', '{"text": "", "listed": [1]}',
     json.dumps({"text": "x" * 30_000, "listed": []})],
)  # fmt: skip
def test_what_is_no_kept_rule_is_ignored(app: AppTest, allowed: list[str], sent: object) -> None:
    assert loaded_anew(app, sent).is_new


def test_an_address_and_a_recipe_with_a_rule_that_went_tell_its_way_back(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(app)
    wb = session(app).workbench
    [rule], _ = passes_of(TEMPLATES[0].text.replace("yield x * c", "yield torch.relu(x) * c"))
    wb.add(rule)
    wb.choose(wb.with_(rule, on=True), (rule,))
    [lost] = Recipe.of(wb).replay(wb.another(), strict=False).problems
    assert own_rule_module.problem_in_words(lost) == f"remove_one: {NOT_HERE}; {own_rule_module.NOT_BROUGHT}"
    monkeypatch.setattr(own_rule_module, "is_code_allowed", lambda: True)
    assert "the tab Your rule puts a rule that you wrote into the list" in own_rule_module.problem_in_words(lost)
    again = AppTest.from_file(str(PAGE), default_timeout=120)
    again.query_params["model"], again.query_params["state"] = session(app).opened.source.key, Link.of(wb).to_text()
    assert any("the tab Your rule puts" in one.value for _ in range(3) for one in again.run().toast)


NOT_HERE = "no pass of this name is in the list here"


def test_the_process_goes_on_with_another_model_and_ends_with_the_session_of_that_one(
    app: AppTest, allowed: list[str]
) -> None:
    opened(app)
    assert allowed
    mine: OwnRule = app.session_state["own rule"]
    process = mine.process
    assert isinstance(process, Process)
    assert not process.is_closed
    before = session(app)
    app.selectbox(key="model").select(ZOO[1].key)
    app.session_state["evidence"] = "Nodes"
    app.run()
    assert_usable(app)
    assert session(app).opened.source.key == ZOO[1].key
    before.rest()
    assert not process.is_closed
    opened(app)
    assert process.held == [before.opened.pristine, session(app).opened.pristine]
    assert mine.process is process
    session(app).rest()
    assert process.is_closed


def test_the_answer_lights_up_in_the_graph() -> None:
    assert marks_of_rule(ANSWER, 7) == {
        "stem_relu": (Mark("matched", 7, "stem_relu"),), "pool": (Mark("miss", 7, "pool"),)
    }  # fmt: skip
    assert legend_of_rule(ANSWER, 7) == (("matched", 7, "1 match"), ("miss", 7, "1 near miss"))
    assert legend_of_rule(None, 7) == ()
