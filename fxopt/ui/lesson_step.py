"""The step of the open lesson: its text, its question, hints, and the explanation once it is passed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from functools import partial

import streamlit as st

from fxopt.lessons import LessonError, Progress
from fxopt.lessons.figures import filled, names_in
from fxopt.lessons.hand_in import code_of
from fxopt.lessons.lesson import HINTS, Question
from fxopt.ui.fault import complain
from fxopt.ui.glossary import GLOSSARY, words_in
from fxopt.ui.learning import ask_for, begin_anew, do, learning, open_lesson, read_number
from fxopt.ui.lesson_places import place_of
from fxopt.ui.markdown import escaped, spoken
from fxopt.ui.modules import joined
from fxopt.ui.own_models import offered_source
from fxopt.ui.panel import acting
from fxopt.ui.session import Session

_NOW_DO_IT = "Now do it: this step goes on by itself once it is done."
_NOT_SHOWN = "The page does not show this yet: the step before tells how to get it."
_outlines = st.components.v2.component("fxopt_lesson", js=joined("lesson"), isolate_styles=False)


def lesson_step(session: Session, way: Progress) -> None:
    """Draw the step that is shown."""
    step, state, needs = way.step, way.now, way.needs
    st.markdown(f"### {escaped(step.title)}")
    if needs is not None:
        title = escaped(offered_source(needs.model).title)
        if needs is step.reset:
            st.markdown(f"This step goes on where the skipped one ends: the model **{title}**, with what is on there.")
        else:
            st.markdown(f"This step begins with the model **{title}**. The passes that are on now go off.")
        _button(session, "Begin", "begin step", partial(ask_for, needs), primary=True)
        _aside(session, way)
        return
    if way.model != session.opened.source.key and not way.is_passed:
        title = escaped(offered_source(way.model).title)
        opens = "*Begin it anew* opens it." if way.begins_anew_with is not None else "Choose it above."
        st.warning(f"This step is about the model **{title}**, and another one is open. {opens}")
    st.markdown(text := filled(step.text, state.before))
    _words(f"{text} {filled(step.explanation, state.after)}" if way.is_passed else text)
    if step.picture is not None:
        st.image(step.picture.file, alt=step.picture.shows)
    if step.question is not None:
        _question(session, way, step.question)
    if way.is_passed:
        _passed(session, way)
    elif not state.is_judged:
        _next_act(way)
    _hints(session, way)
    _aside(session, way)


def _words(text: str) -> None:
    """Draw the words of the page that a text has: each says its paragraph to a pointer on it, and opens it."""
    words = words_in(text)
    if words:
        with st.container(horizontal=True, gap="xxsmall", vertical_alignment="center", key="lesson words"):
            for word in words:
                meaning = st.popover(
                    word, type="tertiary", icon=":material/help:", help=GLOSSARY[word], key=f"word {word}"
                )
                meaning.markdown(f"**{word}**: {GLOSSARY[word]}")


def outlines(session: Session, way: Progress) -> None:
    """Outline the controls that the step speaks of, scroll to them, and announce the state of the step."""
    is_going = way.needs is None and not way.is_passed
    places = [place_of(session, one) for one in way.step.highlight] if is_going else []
    with st.container(key="lesson outlines", gap=None):
        told = {"told": _told(way), "told_at": _told_at(way), "begun": learning().lessons_begun}
        _outlines(key="outlines", data={"step": f"{way.lesson.id} {way.at}", "places": places, **told})


def _told(way: Progress) -> str:
    """Return the state of the step in words, for whoever hears the page."""
    if way.is_passed:
        return spoken(f"Step {way.at + 1} is done. {filled(way.step.explanation, way.now.after)}")
    if way.now.counter_example and way.now.is_judged:
        return spoken(filled(way.now.counter_example, way.now.after))
    return f"Step {way.at + 1} of {len(way.steps)}: {way.step.title}"


def _told_at(way: Progress) -> str:
    """Return the place in the panel at which the state of the step is told, for the browser to scroll to."""
    if way.is_passed:
        return ".st-key-lessons-again" if way.is_finished else ".st-key-next-step"
    return ".st-key-counter-example" if way.now.is_judged else ""


# ---- the question


def _question(session: Session, way: Progress, question: Question) -> None:
    state, key = way.now, _key(way)
    if state.answer is not None and key not in st.session_state:  # back at a step that was left, or after a reload
        st.session_state[key] = int(state.answer) if question.choices else f"{state.answer:g}"
    with st.container(key="question"):
        st.markdown(f"**{filled(question.text, state.before)}**")
        if question.choices:
            st.radio(
                "Your answer",
                range(len(question.choices)),
                index=None,
                format_func=[filled(choice.text, state.before) for choice in question.choices].__getitem__,
                key=key,
                label_visibility="collapsed",
                disabled=state.is_right,
            )
        else:
            st.text_input("Your number", key=key, placeholder="a number", label_visibility="collapsed", max_chars=40,
                          disabled=state.is_right)  # fmt: skip
        if state.is_right:
            st.success("The run agrees with you.", icon=":material/check:")
            return
        label = "Answer again" if state.is_judged else "Change my prediction" if state.answer is not None else "Predict"
        _button(session, label, "predict", _predict, primary=state.answer is None or state.is_judged)
    if state.is_judged:
        with st.container(key="counter example"):
            st.warning(filled(state.counter_example, state.after), icon=":material/error:")


def _next_act(way: Progress) -> None:
    """Draw the act that comes next: that of the prediction is the button of the question."""
    step, state = way.step, way.now
    told = []
    if step.question is not None and state.answer is not None:
        told.append(f"Your prediction: {_answer(step.question, state.answer, way)}")
    if not way.awaits_prediction and not state.is_done:
        told.append(_NOW_DO_IT if step.done is not None else _NOT_SHOWN)
    if told:
        with st.container(key="next act"):
            st.caption("\n\n".join(told))


def _answer(question: Question, answer: float, way: Progress) -> str:
    return filled(question.choices[int(answer)].text, way.now.before) if question.choices else f"{answer:g}"


def _key(way: Progress) -> str:
    return f"answer {way.lesson.id} {way.step.id}"


def _predict() -> None:
    way = learning().way
    if way is None:
        return
    given = st.session_state.get(_key(way))
    if given is None or given == "":
        complain("Choose or type an answer first.")
        return
    try:
        number = read_number(given) if isinstance(given, str) else float(given)
        do(partial(Progress.predict, answer=number))
    except LessonError as error:
        complain(escaped(str(error)))


# ---- below


def _passed(session: Session, way: Progress) -> None:
    if way.step.question is None:
        st.success("Done.", icon=":material/check:")
    if way.step.explanation:
        st.markdown(filled(way.step.explanation, way.now.after))
        if any(way.now.after.get(name) is None for name in names_in(way.step.explanation)):
            st.caption("A dash stands for a figure of a run that ended when the page was loaded anew.")
    if way.at + 1 < len(way.steps):
        _button(session, "Next", "next step", partial(do, partial(Progress.go, to=way.at + 1)), primary=True)
    if way.is_finished:
        _finished(session, way)


def _finished(session: Session, way: Progress) -> None:
    st.markdown("**That was the lesson.** The code to hand in, a receipt of your steps today:")
    try:
        st.code(code_of(way, date.today()), language=None)
    except LessonError as error:  # a clock that is years off
        st.error(escaped(str(error)), icon=":material/error:")
    _button(session, "To the other lessons", "lessons again", partial(open_lesson, None))


def _hints(session: Session, way: Progress) -> None:
    for number, hint in enumerate(way.hints, 1):
        st.info(f"**Hint {number}.** {filled(hint, way.now.before)}")
    if not way.is_passed and way.now.hints < HINTS:
        _button(session, f"Hint {way.now.hints + 1} of {HINTS}", "hint", partial(do, Progress.hint))


def _aside(session: Session, way: Progress) -> None:
    with st.container(horizontal=True, gap="xsmall"):
        if not way.is_passed and not way.now.was_skipped and way.at + 1 < len(way.steps):
            _button(session, "Skip this step", "skip step", partial(do, Progress.skip))
        elif not way.is_passed and not way.is_finished:
            _button(session, "Leave this step out", "skip step", partial(do, Progress.skip))
        elif not way.is_passed and way.is_finished:
            _finished(session, way)
        if way.now.has_begun:
            _button(session, "Begin it anew", "reset step", partial(_reset, session))


def _reset(session: Session) -> None:
    way = learning().way
    if way is not None:
        st.session_state.pop(_key(way), None)
    begin_anew(session)


def _button(session: Session, label: str, key: str, act: Callable[[], None], primary: bool = False) -> None:
    st.button(label, key=key, type="primary" if primary else "secondary", on_click=acting(session, act))
