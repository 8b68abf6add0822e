"""A lesson out of its Markdown file: a header, and a level-2 heading with a fenced block of settings for each step."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.front_matter import front_matter_plugin

from fxopt.lessons.acts import act_of
from fxopt.lessons.conditions import condition_of
from fxopt.lessons.errors import LessonError
from fxopt.lessons.figures import named, names_in
from fxopt.lessons.highlights import highlight_of
from fxopt.lessons.lesson import HINTS, MOST_STEPS, MOST_WORDS, Lesson, Picture, Step, slug, words_in
from fxopt.lessons.needs import needs_of
from fxopt.lessons.questions import question_of
from fxopt.lessons.settings import Setting, settings_of
from fxopt.lessons.vocabulary import Known
from fxopt.passes import registered_passes

MOST_BYTES = 2**20
FENCE, EXPLANATION = "step", "Explanation"

_MARKDOWN = MarkdownIt("commonmark").use(front_matter_plugin)
_HEADER = ("id", "title", "minutes", "needs")
_KEYS = ("highlight", "ask", "done", "hints", "needs", "reset", "solution", "picture")
_PICTURES = (".png", ".jpg", ".jpeg", ".svg")


@dataclass(frozen=True)
class _Section:
    """The part of a file below a heading: its lines, and the tokens in it."""

    title: str
    line: int
    first: int
    end: int
    tokens: Sequence[Token]


def load_lesson(file: str | os.PathLike[str]) -> Lesson:
    """Return the lesson in a file.

    Raises:
        LessonError: the file cannot be read, or is no lesson. The error has file, line and the expected form.
    """
    path = Path(file)
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise LessonError(f"it has {size:,} bytes, and a lesson has at most {MOST_BYTES:,}", None, str(file))
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise LessonError("this is no UTF-8 text; a lesson is a Markdown file", None, str(file)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, LessonError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise LessonError(f"it cannot be read ({reason})", None, str(file)) from None
    try:
        return lesson_of(text, path.parent)
    except LessonError as error:
        raise error.at(None, str(file)) from None


def lesson_of(text: str, folder: Path | None = None) -> Lesson:
    """Return the lesson that a text in Markdown describes. Nothing in it is evaluated as code.

    Args:
        folder: the folder of its pictures; without it a lesson has none.

    Raises:
        LessonError: it is none; the error has the line and the expected form.
    """
    known = Known(tuple(kind.__name__ for kind in registered_passes()))
    lines = text.splitlines()
    tokens = _MARKDOWN.parse("\n".join(lines))
    if not tokens or tokens[0].type != "front_matter":
        raise LessonError(f"a lesson begins with a header between two lines of ---, with {', '.join(_HEADER)}", 1)
    header = settings_of(tokens[0].content, 2)
    fields = header.fields(_HEADER, ("about", "after"))
    sections = list(_sections(tokens, len(lines), "h2"))
    if not sections:
        raise LessonError("a lesson has steps, each with a heading '## Title'; there is none", len(lines))
    if len(sections) > MOST_STEPS:
        told = f"this lesson has {len(sections)} steps, and may have {MOST_STEPS}; make two lessons of it"
        raise LessonError(told, sections[MOST_STEPS].line)
    _check_before(tokens, sections[0].line)
    steps = tuple(_step(section, lines, known, folder) for section in sections)
    if (first := steps[0].reset) is not None:
        raise LessonError(
            "the first step begins anew with the state that the header needs; leave out 'reset'", first.line
        )
    for one, other in pairwise(sorted(steps, key=lambda step: (step.id, step.line))):
        if one.id == other.id:
            raise LessonError(f"two steps have the title {other.title!r}; the other is in line {one.line}", other.line)
    return Lesson(
        _identifier(fields["id"]),
        fields["title"].text(),
        fields["minutes"].count(),
        fields["about"].text() if "about" in fields else "",
        needs_of(fields["needs"], known),
        tuple(_identifier(one) for one in fields["after"].items()) if "after" in fields else (),
        steps,
    )


def _identifier(value: Setting) -> str:
    text = value.text()
    if slug(text) != text or not text.isascii():
        raise value.fail(
            f"{text!r} has to be small letters and digits joined by hyphens, as {slug(text) or 'my-lesson'}"
        )
    return text


def _sections(tokens: Sequence[Token], end: int, level: str) -> Sequence[_Section]:
    starts = [i for i, one in enumerate(tokens) if one.type == "heading_open" and one.tag == level and not one.level]
    found = []
    for i, following in zip(starts, [*starts[1:], len(tokens)]):
        first, last = tokens[i].map, tokens[following].map if following < len(tokens) else None
        assert first is not None  # of blocks, markdown-it always gives the lines
        title = tokens[i + 1].content
        found.append(_Section(title, first[0] + 1, first[1], last[0] if last else end, tokens[i + 3 : following]))
    return found


def _check_before(tokens: Sequence[Token], line: int) -> None:
    for token in tokens[1:]:
        if token.map is not None and token.map[0] + 1 < line:
            raise LessonError("text stands before the first step; put it below a heading '## Title'", token.map[0] + 1)


def _step(section: _Section, lines: Sequence[str], known: Known, folder: Path | None) -> Step:
    title, line = section.title, section.line
    if not slug(title):
        raise LessonError("a heading of a step needs a title with letters or digits", line)
    fences = [one for one in section.tokens if one.type == "fence" and one.info.strip() == FENCE and not one.level]
    if len(fences) != 1:
        raise LessonError(f"the step {title!r} has {len(fences) or 'no'} blocks ```{FENCE}, and needs one", line)
    span = fences[0].map
    assert span is not None
    setting = settings_of(fences[0].content, span[0] + 2)
    fields = setting.fields((), _KEYS)
    if "done" not in fields and "ask" not in fields:
        raise setting.fail("a step needs 'done' or 'ask': something to do, or something to predict")
    text, explanation = _texts(section, span, lines, known)
    hints = tuple(one.text() for one in fields["hints"].items()) if "hints" in fields else ()
    if len(hints) != HINTS:
        where = fields.get("hints", setting)
        raise where.fail(f"a step has {HINTS} hints, from a nudge to the answer; this has {len(hints)}")
    for hint in hints:
        _check_figures(hint, fields["hints"].line, known)
    if ("solution" in fields) != ("done" in fields):
        raise setting.fail("'done' and 'solution' belong together: the solution is the acts after which it is done")
    if "needs" in fields and "reset" in fields:
        raise fields["reset"].fail("a step that has 'needs' begins anew with them; leave out 'reset'")
    return Step(
        slug(title),
        title,
        line,
        text,
        explanation,
        question_of(fields["ask"], known) if "ask" in fields else None,
        condition_of(fields["done"], known) if "done" in fields else None,
        tuple(highlight_of(one, known) for one in fields["highlight"].one_or_more()) if "highlight" in fields else (),
        hints,
        needs_of(fields["needs"], known) if "needs" in fields else None,
        needs_of(fields["reset"], known) if "reset" in fields else None,
        tuple(act_of(one, known) for one in fields["solution"].one_or_more()) if "solution" in fields else (),
        _picture(fields["picture"], folder) if "picture" in fields else None,
    )


def _picture(value: Setting, folder: Path | None) -> Picture:
    fields = value.fields(("file", "shows"))
    name, shows = fields["file"].text(), fields["shows"].text()
    if folder is None:
        raise value.fail("pictures lie beside the file of a lesson, and this text comes from no file")
    file = (folder / name).resolve()
    if not file.is_relative_to(folder.resolve()):
        raise fields["file"].fail(f"the picture {name!r} has to be in the folder of the lesson")
    if file.suffix.lower() not in _PICTURES:
        raise fields["file"].fail(f"{name!r} is no picture that the page can show; it shows {', '.join(_PICTURES)}")
    try:
        size = file.stat().st_size
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fields["file"].fail(f"the picture {name!r} cannot be read ({reason})") from None
    if size > MOST_BYTES:
        raise fields["file"].fail(f"the picture {name!r} has {size:,} bytes, and may have {MOST_BYTES:,}")
    return Picture(file, shows)


def _texts(section: _Section, fence: Sequence[int], lines: Sequence[str], known: Known) -> tuple[str, str]:
    """Return the text of a step, and its explanation, without the settings."""
    parts = _sections(section.tokens, section.end, "h3")
    others = [part for part in parts if part.title != EXPLANATION]
    if others or len(parts) > 1:
        wrong = (others or parts[1:])[0]
        raise LessonError(f"a step has one heading '### {EXPLANATION}' and no other of its level", wrong.line)
    middle = parts[0].line - 1 if parts else section.end
    told = []
    for first, end in ((section.first, middle), (parts[0].first if parts else section.end, section.end)):
        body = [line for i, line in enumerate(lines[first:end], first) if not fence[0] <= i < fence[1]]
        text = "\n".join(body).strip()
        if (count := words_in(text)) > MOST_WORDS:
            raise LessonError(f"this text has {count} words, and may have {MOST_WORDS}: one idea a step", first + 1)
        _check_figures(text, first + 1, known)
        told.append(text)
    if not told[0]:
        raise LessonError(f"the step {section.title!r} has no text", section.line)
    return told[0], told[1]


def _check_figures(text: str, line: int, known: Known) -> None:
    for name in names_in(text):
        try:
            named(name, known.passes)
        except LessonError as error:
            raise error.at(line) from None
