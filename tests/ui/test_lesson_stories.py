"""Lessons on the page: a learner is led by what they do, and nothing they did is lost."""

from __future__ import annotations

import threading
import weakref

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.evidence import Round, report_of
from fxopt.lessons import LessonError, Progress, facts, lesson_named
from fxopt.lessons.highlights import CONTROLS
from fxopt.ui import address, learning, own_rule
from fxopt.ui.acts import turn
from fxopt.ui.command import PAGE
from fxopt.ui.evidence_panel import TABS
from fxopt.ui.job import GraphJob, Job
from fxopt.ui.learning import Learning, read_number
from fxopt.ui.lesson_places import PLACES, place_of
from fxopt.ui.own_rule import OwnRule
from fxopt.ui.viewing import select
from fxopt.writing import Answer, look
from tests.ui.test_address import parameters
from tests.ui.visitor import session, texts

LESSON = "division"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the browser have a mark, which an AppTest has none of."""
    monkeypatch.setattr(address, "browser_mark", lambda: "the learner's own")


@pytest.fixture
def learner(app: AppTest) -> AppTest:
    app.button(key="icon lessons").click().run()
    return open_lesson(app, LESSON)


def open_lesson(app: AppTest, name: str) -> AppTest:
    app.button(key=f"lesson {name}").click().run()
    return begin(app)


def begin(app: AppTest) -> AppTest:
    app.button(key="begin step").click().run()
    for _ in range(3):  # opening a model takes runs of its own
        app.run()
    assert not app.exception, app.exception[0].value
    return app


def way(app: AppTest) -> Progress:
    found: Learning = app.session_state["learning"]
    assert found.way is not None
    return found.way


def answer(app: AppTest, number: int) -> AppTest:
    app.radio[-1].set_value(number)
    return app.button(key="predict").click().run()


def test_a_lesson_opens_its_model_and_begins_with_every_pass_off(learner: AppTest) -> None:
    assert session(learner).opened.source.key == "lesson_divisions"
    assert not session(learner).workbench.is_changed
    assert way(learner).now.has_begun
    assert "divides by\n2." in texts(learner), "the number is that of the graph"


def test_the_next_step_comes_by_doing_and_a_wrong_prediction_gets_the_counter_example(learner: AppTest) -> None:
    answer(learner, 1)
    assert "Your prediction" in texts(learner)
    turn(session(learner), "ChangeTrueDivToMulByInverse", "truediv", True)
    learner.session_state["evidence"] = "Numerics"
    learner.run()
    assert way(learner).now.is_done
    assert "They do: identical bits" in texts(learner)
    assert "next step" not in [one.key for one in learner.button]
    answer(learner, 0)
    assert "The run agrees with you." in texts(learner)
    learner.button(key="next step").click().run()
    assert way(learner).at == 1


def test_a_lesson_has_no_other_thing_to_try_first_and_without_it_the_page_has_one(app: AppTest) -> None:
    assert "try it" in [one.key for one in app.button]
    app.button(key="icon lessons").click().run()
    assert "try it" not in [one.key for one in app.button]
    app.button(key="close lessons").click().run()
    assert "try it" in [one.key for one in app.button]


def test_a_site_that_the_list_shows_with_its_copies_is_pointed_at_there(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    site = lesson_named("bias").steps[0].highlight[1]
    place = place_of(session(open_lesson(app, "bias")), site)
    letter = session(app).styles["FuseBiasInLinear"].letter
    assert place["around"] == f'[class~="st-key-sites-{letter}-at-block--expand"]'
    alone = lesson_named("division").steps[0].highlight[1]
    app.button(key="lesson list").click().run()
    assert "around" not in place_of(session(open_lesson(app, "division")), alone)


def test_leaving_and_coming_back_keeps_everything_and_skipping_is_marked(learner: AppTest) -> None:
    learner.button(key="hint").click().run()
    learner.button(key="skip step").click().run()
    learner.button(key="lesson list").click().run()
    assert f"0 of {len(lesson_named(LESSON).steps)} steps done" in texts(learner)
    learner.button(key="close lessons").click().run()
    assert "close lessons" not in [one.key for one in learner.button]
    learner.button(key="icon lessons").click().run()
    learner.button(key=f"lesson {LESSON}").click().run()
    assert (way(learner).at, way(learner).steps[0].hints, way(learner).steps[0].was_skipped) == (1, 1, True)
    assert learner.button(key="lesson step 0").label == "1↷"
    assert learner.button(key="lesson step 2").disabled
    learner.button(key="lesson step 0").click().run()
    assert way(learner).at == 0


def test_a_reload_comes_back_to_the_step_with_all_that_was_done(learner: AppTest) -> None:
    answer(learner, 1)
    turn(session(learner), "ChangeTrueDivToMulByInverse", "truediv", True)
    learner.session_state["evidence"] = "Numerics"
    learner.run()
    learner.button(key="hint").click().run()
    answer(learner, 0)
    again = opened_at(**parameters(learner))
    assert (way(again).step.id, way(again).is_passed, way(again).now.hints) == ("the-first-division", True, 1)
    assert "The run agrees with you." in texts(again)
    assert again.radio[-1].value == 0, "the answer is marked"
    assert "The verdict: identical bits" in texts(again)
    again.button(key="next step").click().run()
    assert "divides by 49." in texts(again), "the figures are those of the graph"
    again.button(key="lesson step 0").click().run()
    assert again.radio[-1].value == 0, "back at a step that was left"


def test_a_link_that_was_sent_shows_the_step_of_its_sender_and_brings_nothing_that_they_did(learner: AppTest) -> None:
    answer(learner, 1)
    learner.button(key="hint").click().run()
    learner.button(key="skip step").click().run()
    turn(session(learner), "ChangeTrueDivToMulByInverse", "truediv", True)
    learner.run()
    sent = parameters(learner) | {"browser": "anothers"}
    other = opened_at(**sent)
    assert session(other).workbench.choices == session(learner).workbench.choices
    assert session(other).workbench.is_changed
    assert way(other).at == way(learner).at == 1
    seen = way(other).steps[0]
    assert (seen.was_skipped, seen.hints, seen.tries, seen.answer) == (True, 0, 0, None)
    learner.button(key="close lessons").click().run()
    other = opened_at(**parameters(learner) | {"browser": "anothers"})
    assert "close lessons" not in [one.key for one in other.button]
    turn(session(other), "ChangeTrueDivToMulByInverse", "truediv", False)
    other.run()
    assert "lesson" not in parameters(other)


def test_a_browser_without_cookies_cannot_know_its_own_address_and_shows_the_step_alone(
    learner: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(address, "browser_mark", lambda: "")
    answer(learner, 1)
    learner.button(key="skip step").click().run()
    assert "browser" not in parameters(learner)
    again = opened_at(**parameters(learner))
    assert (way(again).at, way(again).steps[0].tries, way(again).steps[0].answer) == (1, 0, None)


def test_a_link_to_a_lesson_by_its_name_opens_it_at_its_beginning() -> None:
    app = opened_at(lesson="merging")
    assert (way(app).at, way(app).now.has_begun) == (0, False)
    begin(app)
    assert way(app).now.has_begun


def opened_at(**parameters: str) -> AppTest:
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    for name, value in parameters.items():
        app.query_params[name] = value
    for _ in range(3):  # opening a model takes runs of its own
        app.run()
    assert not app.exception
    return app


def test_a_lesson_in_the_address_that_is_not_here_is_told() -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    app.query_params["lesson"] = "divisions_0_n"
    app.run()
    assert any("did you mean 'division'" in one.value for one in app.toast)
    assert "close lessons" not in [one.key for one in app.button]


def test_lessons_in_the_address_that_are_here_are_kept_beside_one_that_is_not(learner: AppTest) -> None:
    answer(learner, 1)
    asked = parameters(learner)
    again = AppTest.from_file(str(PAGE), default_timeout=120)
    for name, value in (asked | {"lesson": f"{asked['lesson']}~ninth_0_n"}).items():
        again.query_params[name] = value
    told = [one.value for _ in range(3) for one in again.run().toast]
    assert any("ninth" in one for one in told)
    assert way(again).step.id == way(learner).step.id


def test_a_step_begins_anew_with_the_state_it_needs(learner: AppTest) -> None:
    turn(session(learner), "ChangeTrueDivToMulByInverse", None, True)
    learner.button(key="reset step").click().run()
    learner.run()
    assert not session(learner).workbench.is_changed
    assert way(learner).now.has_begun


def test_a_lesson_begins_with_the_first_tab_and_its_other_steps_leave_the_tabs_alone(app: AppTest) -> None:
    app.session_state["evidence"] = "Numerics"
    app.run()
    app.button(key="icon lessons").click().run()
    open_lesson(app, LESSON)
    mine: Learning = app.session_state["learning"]
    assert (app.session_state["evidence"], mine.lessons_begun) == ("Parameters", 1)
    app.session_state["evidence"] = "Numerics"
    app.run()
    while way(app).at < 4:
        app.button(key="skip step").click().run()
    begin(app)
    assert (app.session_state["evidence"], mine.lessons_begun) == ("Numerics", 1)


def test_operations_that_a_lesson_tells_are_counted_once_for_each_graph(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[object] = []
    monkeypatch.setattr(learning, "flops_of", lambda gm, inputs: counted.append(gm) or len(counted))
    app.button(key="icon lessons").click().run()
    open_lesson(app, "bias")
    session(app).opened.once._answers.clear()  # an earlier test may have left its counts
    counted.clear()
    for _ in range(3):
        app.run()
    assert len(counted) <= 2
    turn(session(app), "FuseBiasInLinear", "block1_expand", True)
    for _ in range(3):
        app.run()
    assert len(counted) <= 3
    assert counted[-1] is session(app).workbench.current


def test_a_step_says_so_where_another_model_is_open(learner: AppTest) -> None:
    told = "another one is open"
    assert told not in texts(learner)
    learner.selectbox(key="model").select("digits_conv_net")
    for _ in range(3):
        learner.run()
    assert told in texts(learner)
    learner.button(key="reset step").click().run()
    for _ in range(3):
        learner.run()
    assert told not in texts(learner)
    assert session(learner).opened.source.key == "lesson_divisions"


def test_a_step_without_a_state_of_its_own_begins_anew_where_it_began(learner: AppTest) -> None:
    learner.button(key="lesson list").click().run()
    open_lesson(learner, "what-a-graph-is")
    select(session(learner), "stem_conv")
    learner.run()
    learner.button(key="next step").click().run()
    before = session(learner).workbench.choices
    turn(session(learner), "FoldBatchNorm", None, True)
    select(session(learner), "pool")
    learner.run()
    answer(learner, 0)
    learner.button(key="reset step").click().run()
    assert session(learner).workbench.choices == before
    assert session(learner).view.selected == "stem_conv"
    assert way(learner).now.answer is None


def test_a_step_after_a_skipped_one_begins_with_the_state_that_the_skipped_one_leaves(learner: AppTest) -> None:
    learner.button(key="skip step").click().run()
    assert "goes on where the skipped one ends" in texts(learner)
    begin(learner)
    sites = [site.site for site in session(learner).workbench.state_of("ChangeTrueDivToMulByInverse").sites if site.on]
    assert (sites, way(learner).step.id) == (["truediv"], "the-second-division")
    turn(session(learner), "ChangeTrueDivToMulByInverse", None, True)
    learner.button(key="reset step").click().run()
    for _ in range(2):
        learner.run()
    assert [one.on for one in session(learner).workbench.state_of("ChangeTrueDivToMulByInverse").sites] == [
        True, False, False,
    ]  # fmt: skip


def test_a_reload_with_the_panel_closed_keeps_the_way(learner: AppTest) -> None:
    learner.button(key="hint").click().run()
    learner.button(key="close lessons").click().run()
    again = opened_at(**parameters(learner))
    assert "close lessons" not in [one.key for one in again.button]
    again.button(key="icon lessons").click().run()
    assert (way(again).step.id, way(again).now.hints) == ("the-first-division", 1)


def test_an_answer_after_a_reload_is_judged_by_the_state_in_which_the_step_began(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    open_lesson(app, "reversing")
    app.button(key="skip step").click().run()
    begin(app)
    before = way(app).now.before
    answer(app, 0)
    turn(session(app), "MergeLinears", None, False, sure=True)
    app.run()
    told = way(app).now.counter_example
    assert told
    assert way(app).now.is_done
    again = opened_at(**parameters(app))
    assert way(again).now.before == before, "the figures of its beginning, with the merged layers"
    assert (way(again).now.is_done, way(again).now.counter_example) == (True, told)
    for number, is_right in ((1, False), (0, False), (2, True)):
        answer(again, number)
        assert way(again).is_passed == is_right


def test_an_answer_in_the_run_that_follows_the_history_is_kept(learner: AppTest) -> None:
    before = parameters(learner)
    answer(learner, 0)
    turn(session(learner), "ChangeTrueDivToMulByInverse", "truediv", True)
    learner.session_state["evidence"] = "Numerics"
    learner.run()
    learner.button(key="next step").click().run()
    learner.radio[-1].set_value(1)
    learner.session_state[address._TOLD] = before  # as the browser tells of a step back
    learner.button(key="predict").click().run()
    learner.run()
    assert (way(learner).step.id, way(learner).is_passed) == ("the-first-division", True)
    assert not session(learner).workbench.is_changed, "the graph of that time"
    learner.button(key="lesson step 1").click().run()
    assert way(learner).now.answer == 1
    assert not way(learner).now.is_done
    turn(session(learner), "ChangeTrueDivToMulByInverse", "truediv_1", True)
    learner.session_state["evidence"] = "Numerics"
    learner.run()
    assert way(learner).is_passed


def test_a_step_begins_anew_after_a_reload_where_the_reload_has_found_it(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    open_lesson(app, "what-a-graph-is")
    select(session(app), "stem_conv")
    app.run()
    app.button(key="next step").click().run()
    again = opened_at(**parameters(app))
    assert (way(again).step.reset, way(again).now.has_begun) == (None, True)
    select(session(again), "pool")
    turn(session(again), "FoldBatchNorm", None, True)
    again.run()
    again.button(key="reset step").click().run()
    assert (session(again).view.selected, session(again).workbench.is_changed) == ("stem_conv", False)


def test_a_step_on_another_model_waits_for_it(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    open_lesson(app, "what-a-graph-is")
    select(session(app), "stem_conv")
    app.run()
    assert way(app).is_passed
    for _ in range(2):
        app.button(key="next step" if way(app).is_passed else "skip step").click().run()
    app.button(key="skip step").click().run()
    assert way(app).step.id == "another-model"
    assert "begins with the model **Digits" in texts(app)
    begin(app)
    assert session(app).opened.source.key == "digits_transformer"
    select(session(app), "block1_attention_norm")
    app.run()
    assert way(app).is_finished
    assert len([one for one in app.get("code") if one.value.count("-") == 2]) == 1, "the code to hand in"


def test_what_is_no_answer_is_refused(learner: AppTest) -> None:
    learner.button(key="predict").click().run()
    assert any("Choose or type" in one.value for one in learner.toast)
    assert way(learner).now.answer is None


def test_each_control_and_tab_that_a_lesson_may_name_has_its_place() -> None:
    assert PLACES.keys() == CONTROLS.keys()
    assert [tab.name for tab in TABS] == list(facts.TABS)


def test_a_lesson_that_writes_a_rule_says_where_that_is_allowed(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    assert texts(app).count("fxopt app --allow-code") == 1, "of one lesson in the list"
    open_lesson(app, "own-rule")
    assert session(app).opened.source.key == "lesson_products"
    assert any("fxopt app --allow-code" in one.value for one in app.info)
    answer_number(app, "3")
    app.session_state["evidence"] = "Your rule"
    app.run()
    assert any("def multiply_by_one" in one.value for one in app.code), "the built-in rules are there to be read"
    assert not way(app).now.is_done
    app.button(key="skip step").click().run()
    assert way(app).at == 1


def test_the_answer_to_a_rule_is_a_fact_of_the_lesson(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fxopt.ui.lesson_panel.is_code_allowed", lambda: True)
    app.button(key="icon lessons").click().run()
    assert "fxopt app --allow-code" not in texts(app)
    open_lesson(app, "own-rule")
    answer_number(app, "3")
    mine = OwnRule()
    mine.of, mine.asked = weakref.ref(session(app)), (mine.text, False)
    mine.job = Job(lambda progress: look(mine.text, session(app).opened.pristine))
    assert mine.job.wait(60)
    app.session_state["own rule"], app.session_state["evidence"] = mine, "Your rule"
    app.run()
    assert way(app).is_passed
    assert "3 match, and light up" in texts(app)
    mine.text += "\n# another text, which has no answer yet"
    assert present_answer_of(app) is None


def present_answer_of(app: AppTest) -> Answer | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own_rule.st, "session_state", app.session_state)
        return own_rule.present_answer(session(app))


def answer_number(app: AppTest, number: str) -> AppTest:
    next(one for one in app.text_input if one.label == "Your number").set_value(number)
    return app.button(key="predict").click().run()


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("4,096", 4096),
        ("0,5", 0.5),
        ("0,125", 0.125),
        ("-1.5e-3", -0.0015),
        ("1,234,567", 1234567),
        ("1234,567", 1234.567),
        ("-4,096.5", -4096.5),
        ("1 234,5", 1234.5),
        (",5", 0.5),
    ],
)
def test_a_number_is_read_as_it_is_written_in_many_countries(typed: str, number: float) -> None:
    assert read_number(typed) == number


@pytest.mark.parametrize("typed", ["many", "nan", "inf", "-Infinity", "1e999", "1,2,3", "1.234,5", ""])
def test_what_is_no_number_is_refused(typed: str) -> None:
    with pytest.raises(LessonError, match="is no number"):
        read_number(typed)


def test_a_measurement_that_is_done_when_its_tab_is_closed_counts(app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    open_lesson(app, "measuring")
    answer(app, 1)
    turn(session(app), "RemoveIdentities", None, True)
    may_end = threading.Event()
    report = report_of([Round(1.0, 1.01 + i / 100, 1.0) for i in range(8)])
    session(app).measurement = GraphJob(
        session(app).workbench.choices, Job(lambda progress: report if may_end.wait(60) else None)
    )
    app.run()
    assert not way(app).now.is_done
    may_end.set()
    assert session(app).measurement.job.wait(180)  # type: ignore[union-attr]
    app.run()
    assert way(app).is_passed
    assert "Ratio 0.96" in texts(app)
