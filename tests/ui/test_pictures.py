"""Layouts for the page: shared, given up when nobody waits for them, and failures are told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fxopt.ui import pictures
from fxopt.view import VisibleGraph, default_unfolded, visible
from tests.view import graphs


@pytest.fixture(autouse=True)
def empty() -> None:
    pictures._placed.clear()
    pictures._packed.clear()


def encoder(layers: int) -> VisibleGraph:
    view = graphs.encoder(layers)
    return visible(view, default_unfolded(view))


def test_one_layout_serves_everyone_who_asks_for_it() -> None:
    first = pictures.packed(encoder(2), encoder(2))
    assert pictures.packed(encoder(2), encoder(2)) is first
    assert pictures.packed(encoder(3), encoder(3)).id != first.id


def test_a_run_that_ends_ends_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Streamlit raises at the next command, once a visitor has asked for something else, stops the layout."""
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\nexec sleep 100\n")
    engine.chmod(engine.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("FXOPT_DOT", str(engine))

    class NewerRequest(BaseException):
        pass

    def ends(*_: object) -> None:
        raise NewerRequest

    jobs: list[pictures.Job[pictures.PackedLayout]] = []

    class Watched(pictures.Job[pictures.PackedLayout]):
        def __init__(self, *work: object) -> None:
            super().__init__(*work)  # type: ignore[arg-type]
            jobs.append(self)

    monkeypatch.setattr(pictures, "Job", Watched)
    monkeypatch.setattr(pictures, "result_of", ends)
    with pytest.raises(NewerRequest):
        pictures.packed(encoder(4), encoder(4))
    assert jobs[0].wait(20)
    assert "something else is to be shown" in jobs[0].error


def test_a_failure_of_a_layout_is_raised_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(pictures, "layout", breaks)
    with pytest.raises(ZeroDivisionError, match="no room"):
        pictures.packed(encoder(5), encoder(5))
