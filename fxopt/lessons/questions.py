"""Questions out of settings: a choice of answers, or a number; each wrong answer has a counter-example."""

from __future__ import annotations

from fxopt.lessons.conditions import condition_of
from fxopt.lessons.figures import names_in
from fxopt.lessons.lesson import Choice, Misconception, Question
from fxopt.lessons.settings import Setting
from fxopt.lessons.vocabulary import Known, figure_in, figure_name


def question_of(value: Setting, known: Known) -> Question:
    """Return the question that settings describe.

    Raises:
        LessonError: they describe none; the error has the line.
    """
    fields = value.fields(("question",), ("answers", "number", "tolerance", "misconceptions", "otherwise"))
    if ("answers" in fields) == ("number" in fields):
        raise value.fail("a question has either 'answers' to choose from, or the 'number' that the run shows")
    text = _told(fields["question"], known)
    if "answers" in fields:
        for name in ("tolerance", "misconceptions", "otherwise"):
            if name in fields:
                raise fields[name].fail(f"{name!r} belongs to a question for a number, and this one has answers")
        choices = tuple(_choice(one, known) for one in fields["answers"].items())
        if len(choices) < 2:
            raise fields["answers"].fail(f"a question has two answers or more, and this has {len(choices)}")
        if len({choice.text for choice in choices}) < len(choices):
            raise fields["answers"].fail("two answers have the same text")
        return Question(text, choices)
    if "otherwise" not in fields:
        raise value.fail("'otherwise' is missing here: the counter-example for a wrong number")
    tolerance, is_relative = _tolerance(fields.get("tolerance"))
    wrong = fields["misconceptions"].items() if "misconceptions" in fields else []
    return Question(
        text,
        figure=figure_name(fields["number"], known),
        tolerance=tolerance,
        is_relative=is_relative,
        misconceptions=tuple(_misconception(one, known) for one in wrong),
        otherwise=_told(fields["otherwise"], known),
    )


def _choice(value: Setting, known: Known) -> Choice:
    fields = value.fields(("text", "holds"), ("because",))
    because = _told(fields["because"], known) if "because" in fields else ""
    return Choice(_told(fields["text"], known), condition_of(fields["holds"], known), because)


def _misconception(value: Setting, known: Known) -> Misconception:
    fields = value.fields(("number", "because"))
    return Misconception(figure_name(fields["number"], known), _told(fields["because"], known))


def _tolerance(value: Setting | None) -> tuple[float, bool]:
    if value is None:
        return 0.0, False
    text = value.text()
    is_relative = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e300:
        raise value.fail(f"this is {text!r}, and has to be a number from 0, or a part as 5%")
    return (number / 100, True) if is_relative else (number, False)


def _told(value: Setting, known: Known) -> str:
    """Return a text, after a check of the figures in it."""
    text = value.text()
    for name in names_in(text):
        figure_in(value, name, known)
    return text
