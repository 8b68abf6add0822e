"""The time line on the page, as whole stories, by Streamlit's AppTest."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Selectbox

from fxopt.core import fingerprint
from fxopt.ui.going import move_of, note_on
from tests.ui.visitor import session, texts, toggle

MERGE, DIVIDE = "MergeLinears", "ChangeTrueDivToMulByInverse"


def open_time_line(app: AppTest) -> AppTest:
    app.selectbox(key="model").set_value("digits_transformer").run()
    app.session_state["evidence"] = "Time line"
    return run(app)


def run(what: AppTest) -> AppTest:
    done = what.run()
    assert not done.exception, [error.value for error in done.exception]
    return done


def summary(app: AppTest) -> str:
    """The line of figures above the graph."""
    [line] = [str(one.value) for one in app.get("html") if 'class="summary"' in str(one.value)]
    return line


def choice(app: AppTest, label: str) -> Selectbox:
    """The choice of one of the two states that are compared."""
    [found] = [one for one in app.selectbox if one.label == label]
    return found


def lines(app: AppTest) -> list[str]:
    return [button.label for button in app.button if str(button.key).startswith("go to act")]


def test_each_act_is_a_line_that_is_gone_to_and_the_later_ones_stay(app: AppTest) -> None:
    open_time_line(app)
    bench = session(app).workbench
    assert "Nothing has been done yet" in texts(app)
    toggle(app, MERGE).set_value(True)
    run(app)
    merged = fingerprint(bench.current)
    toggle(app, DIVIDE).set_value(True)
    run(app)
    assert lines(app)[0] == "0 · The model as it was opened"
    assert lines(app)[1].startswith("1 · Merge linears at ")
    assert lines(app)[2].startswith("2 · **Divide by multiplying at ")
    app.button(key="go to act 1").click()
    run(app)
    assert fingerprint(bench.current) == merged
    assert len(lines(app)) == 3
    assert "undone" in texts(app)
    app.button(key="go to act 0").click()
    run(app)
    assert bench.is_restored
    app.button(key="go to act 2").click()
    run(app)
    assert bench.acts_done == 2


def test_an_act_is_compared_on_its_own_until_the_next_act(app: AppTest) -> None:
    open_time_line(app)
    toggle(app, MERGE).set_value(True)
    run(app)
    toggle(app, DIVIDE).set_value(True)
    run(app)
    here = session(app)
    both = {change.pass_name for change in here.changes}
    app.button(key="icon compare act 2").click()
    run(app)
    assert both == {MERGE, DIVIDE}
    assert {change.pass_name for change in here.changes} == {DIVIDE}
    assert here.view.together == "Diff"
    merged = [name for name in here.view_of("Original").by_name if "merged" in name]
    assert merged, "the graph before the act has the act before it"
    assert note_on(here).startswith("Act 2 alone: Divide by multiplying")
    app.button(key="icon end act 2").click()
    run(app)
    assert {change.pass_name for change in here.changes} == both
    app.button(key="icon compare act 1").click()
    run(app)
    assert here.workbench.acts_done == 1
    toggle(app, MERGE).set_value(False)
    run(app)
    assert here.since is None
    assert note_on(here) == ""


def test_any_two_states_are_compared_and_the_graph_goes_back_to_its_own_at_the_end(app: AppTest) -> None:
    open_time_line(app)
    for name in (MERGE, DIVIDE, "FuseBiasInLinear"):
        toggle(app, name).set_value(True)
        run(app)
    here = session(app)
    latest, figures = fingerprint(here.workbench.current), summary(app)
    app.button(key="go to act 1").click()
    run(app)
    run(choice(app, "Compare to").set_value(2))
    run(choice(app, "Compare from").set_value(3))
    assert here.workbench.acts_done == 2
    assert note_on(here).startswith("From act 3 to act 2: Bias into weights off")
    assert here.changes == ()
    assert "After act 3 and after act 2" in summary(app)
    assert figures != summary(app)
    run(choice(app, "Compare to").set_value(3))
    assert note_on(here).startswith("Act 3 alone: Bias into weights at "), "the two are swapped"
    assert fingerprint(here.workbench.current) == latest
    app.segmented_control(key="shown").set_value("Side by side")
    run(app)
    run(choice(app, "Compare from").set_value(1))
    assert here.view.together == "Side by side"
    assert {change.pass_name for change in here.changes} == {DIVIDE, "FuseBiasInLinear"}
    assert note_on(here).startswith("From act 1 to act 3: At once")
    app.button(key="icon end act 3").click()
    run(app)
    assert (here.workbench.acts_done, note_on(here)) == (1, "")
    assert choice(app, "Compare to").value == 1


def test_an_act_that_took_a_pass_off_is_compared_too(app: AppTest) -> None:
    open_time_line(app)
    toggle(app, MERGE).set_value(True)
    run(app)
    toggle(app, MERGE).set_value(False)
    run(app)
    app.button(key="icon compare act 2").click()
    run(app)
    here = session(app)
    assert here.changes == ()
    assert move_of(here)[1] in here.workbench.acts[1].nodes
    assert here.view_of("Original").digest != here.view_of("Now").digest
    assert here.workbench.is_restored
