"""A teacher writes a lesson beside the page, which reads it anew and tells its faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.lessons.library import TEXTS
from fxopt.ui import lesson_writing
from fxopt.ui.folders import is_loopback
from fxopt.ui.learning import Learning
from fxopt.ui.own_lessons import ENDED, check, offer_lessons, own_lessons
from tests.lessons.small import TEXT
from tests.ui.visitor import session, texts

MINE = TEXT.replace("{model: small}", "{model: lesson_one_norm}").replace("_1", "norm")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(lesson_writing, "is_served_here", lambda: True)
    written = tmp_path / "mine.md"
    written.write_text(MINE)
    offer_lessons([written])
    yield written
    offer_lessons([])


def write(file: Path, text: str) -> None:
    stamp = file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=(stamp + 10**9, stamp + 10**9))


def learning(app: AppTest) -> Learning:
    found: Learning = app.session_state["learning"]
    return found


def told(app: AppTest) -> str:
    return str(app.error[0].value).replace("\\", "")


def test_a_lesson_of_ones_own_is_first_and_its_text_follows_the_file(file: Path, app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    assert next(one.label for one in app.button if one.key.startswith("lesson ")).endswith("A small lesson")
    app.button(key="lesson small").click().run()
    app.button(key="begin step").click().run()
    for _ in range(3):
        app.run()
    assert session(app).opened.source.key == "lesson_one_norm"
    assert "The graph has 5 nodes." in texts(app)
    app.button(key="skip step").click().run()
    write(file, MINE.replace("Look at the numbers.", "Look at them again."))
    app.run()
    assert "Look at them again." in texts(app)
    assert learning(app).way is not None
    assert learning(app).way.at == 1, "whoever writes stays at the step"  # type: ignore[union-attr]
    write(file, MINE.replace("site_on:", "side_on:"))
    app.run()
    assert told(app).startswith("mine.md, line 23: there is no fact 'side_on'"), "no path of the server"
    assert "Look at them again." in texts(app), "the last text that could be read"
    file.unlink()
    app.run()
    assert "cannot be read" in told(app)


def test_a_picture_stands_beside_the_text_of_its_step(file: Path, app: AppTest) -> None:
    file.with_name("wave.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')
    write(file, MINE.replace("highlight: [pass", "picture: {file: wave.svg, shows: A wave}\nhighlight: [pass", 1))
    app.button(key="icon lessons").click().run()
    app.button(key="lesson small").click().run()
    app.button(key="begin step").click().run()
    for _ in range(3):
        app.run()
    assert not app.exception
    assert [one.proto.imgs[0].alt for one in app.image] == ["A wave"]


def test_the_whole_lesson_is_checked_by_a_walk(file: Path, app: AppTest) -> None:
    write(file, MINE.replace("done: {site_on: [FoldBatchNorm, norm]}", "done: {fingerprint: original}"))
    app.button(key="icon lessons").click().run()
    app.button(key="lesson small").click().run()
    app.button(key="check lesson").click().run()
    check = learning(app).check
    assert check is not None
    assert check.job.wait(180)
    app.run()
    assert "done before it begins" in told(app)
    other = file.with_name("other.md")
    other.write_text(MINE.replace("id: small", "id: other"))
    offer_lessons([file, other])
    app.button(key="lesson list").click().run()
    app.button(key="lesson other").click().run()
    assert not app.error, "the faults are those of the other file"
    assert "check lesson" in [one.key for one in app.button]
    app.button(key="lesson list").click().run()
    app.button(key="lesson small").click().run()
    assert "done before it begins" in told(app)
    write(file, MINE)
    app.run()
    assert check.job.is_cancelled, "of a file that has changed"
    assert not app.error


def test_learners_of_a_shared_server_are_offered_no_check(
    file: Path, app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_writing, "is_served_here", lambda: is_loopback("0.0.0.0"))
    app.button(key="icon lessons").click().run()
    app.button(key="lesson small").click().run()
    assert "is read anew as you save it" in texts(app)
    assert "check lesson" not in [one.key for one in app.button]


def test_a_check_ends_soon_when_it_is_cancelled(file: Path) -> None:
    (own,) = own_lessons()
    running = check(own)
    running.job.cancel()
    assert running.job.wait(180)
    assert running.job.result == [ENDED]
    assert not running.is_of(own)


def test_a_file_with_a_fault_is_told_in_the_list(file: Path, app: AppTest) -> None:
    write(file, "# No lesson")
    app.button(key="icon lessons").click().run()
    assert "begins with a header" in told(app)


def test_a_copy_of_a_lesson_of_fxopt_takes_its_place(file: Path, app: AppTest) -> None:
    write(file, next(TEXTS.glob("*division*")).read_text().replace("title: ", "title: My "))
    app.button(key="icon lessons").click().run()
    assert not app.exception
    assert [one.label for one in app.button if one.key == "lesson division"] == [
        "1\\. My A division becomes a multiplication"
    ]
    assert "lesson merging" in [one.key for one in app.button]


def test_two_files_with_one_id_are_refused_with_their_names(file: Path, app: AppTest) -> None:
    other = file.with_name("other.md")
    other.write_text(MINE)
    offer_lessons([file, other, file])
    app.button(key="icon lessons").click().run()
    assert told(app) == "other.md: its id 'small' is that of mine.md too; give one of them another"
    assert [one.key for one in app.button].count("lesson small") == 1


def test_an_open_lesson_whose_id_changes_goes_on_under_the_new_one(file: Path, app: AppTest) -> None:
    app.button(key="icon lessons").click().run()
    app.button(key="lesson small").click().run()
    write(file, MINE.replace("id: small", "id: my_lesson".replace("_", "-")).replace("A small", "A renamed"))
    app.run()
    assert "A renamed lesson" in texts(app)
    assert (learning(app).lesson, list(learning(app).ways)) == ("my-lesson", ["my-lesson"])
    assert not app.error
