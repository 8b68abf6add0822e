"""``fxopt lessons``: the lessons, the check of one that is being written, and codes that were handed in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.names import complete_lesson
from fxopt_cli.options import Tables
from fxopt_cli.output import Answer, Exit, Form, Table, counted, progress, show
from fxopt_cli.sources import UsageError

_READ = ("lesson", "passed", "steps", "tries", "day")
"""The content of a code."""


def lessons(output: Tables) -> None:
    """List the lessons of the page.

    \b
    Examples:
      fxopt lessons list
    """
    with progress("importing torch", output.form):
        from fxopt.lessons import lessons as known
    found: list[dict[str, Any]] = [
        {"name": one.id, "title": one.title, "steps": len(one.steps), "minutes": one.minutes, "after": list(one.after)}
        for one in known()
    ]
    rows = [(one["name"], one["title"], one["steps"], one["minutes"], ", ".join(one["after"])) for one in found]
    table = Table("", ("name", "lesson", "steps", "minutes", "after"), rows)
    show(Answer({"lessons": found}, tables=[table]), output.form, "lessons list")


def check(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A lesson: a Markdown file.", autocompletion=complete_lesson)
    ],
    output: Tables,
    allow_code: Annotated[
        bool, typer.Option("--allow-code", help="Run the rules that its solutions write: they are Python.")
    ] = False,
) -> None:
    """Check a lesson that is being written: read it, and walk it by its solutions.

    Each fault has its line. The answer is no, and the exit code 1, where there is one. A lesson in which a rule is
    written has Python in it, which is run only with --allow-code: read it first where it is someone else's.

    \b
    Examples:
      fxopt lessons check my-lesson.md
      fxopt lessons check my-lesson.md --json
      fxopt lessons check my-lesson.md --allow-code
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file")
    with progress("walking the lesson", output.form):
        faults = _faults(file, allow_code)
    data = {"file": str(file), "faults": [{"line": one.line, "reason": one.reason} for one in faults]}
    told = counted(len(faults), "fault") if faults else "no fault: each step begins undone, and is done by its solution"
    table = Table("", ("line", "fault"), [(one.line, one.reason) for one in faults])
    show(Answer(data, [f"{file}: {told}"], [table] if faults else []), output.form, "lessons check")
    if faults:
        raise typer.Exit(Exit.no)


def _faults(file: Path, allow_code: bool) -> list[Any]:
    from fxopt.lessons import LessonError, faults_of, load_lesson
    from fxopt.lessons.walking import asked, refused

    try:
        return list(faults_of(load_lesson(file), ask=asked if allow_code else refused))
    except LessonError as error:
        return [error]


def code(
    codes: Annotated[list[str], typer.Argument(metavar="CODE...", help="Codes that learners handed in.")],
    output: Tables,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--lesson",
            metavar="FILE",
            help="A lesson of your own that codes may be of.",
            autocompletion=complete_lesson,
        ),
    ] = None,
) -> None:
    """Read codes that learners handed in: lesson, steps, tries, and the day.

    A code is a receipt. It finds typing errors, and it proves nothing against someone who wants to cheat. One that
    cannot be read is told with its reason, and the exit code is 1.

    \b
    Examples:
      fxopt lessons code CD6C-A4GM-R8FY
      fxopt lessons code CD6C-A4GM-R8FY --lesson my-lesson.md
    """
    with progress("importing torch", output.form):
        from fxopt.lessons import LessonError, load_lesson
        from fxopt.lessons import lessons as known
        from fxopt.lessons.hand_in import read
    names = [*(one.id for one in known()), *(load_lesson(file).id for file in files or ())]
    found: list[dict[str, Any]] = []
    for text in codes:
        try:
            one = read(text, names)
            found.append(
                {"code": text, "lesson": one.lesson, "passed": one.passed, "steps": one.steps, "tries": one.tries}
                | {"day": one.day.isoformat(), "fault": ""}
            )
        except LessonError as error:
            found.append({"code": text, **dict.fromkeys(_READ), "fault": str(error)})
    faults = [f"{row['code']}: {row['fault']}" for row in found if row["fault"]]
    show(Answer({"codes": found}, faults, _tables_of(found, output.form)), output.form, "lessons code")
    if faults:
        raise typer.Exit(Exit.no)


def _tables_of(found: list[dict[str, Any]], form: Form) -> list[Table]:
    """Return the codes as a table. A reader has the faults as sentences, and a file has them in a column."""
    columns: tuple[str, ...] = ("code", *_READ)
    rows = [row for row in found if not row["fault"]]
    if form is not Form.table:
        columns, rows = (*columns, "fault"), found
    return [Table("", columns, [tuple(row[name] for name in columns) for row in rows])] if rows else []
