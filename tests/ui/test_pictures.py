"""Layouts for the page: shared, given up when nobody waits for them, and failures are told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from fxopt.ui import pictures
from fxopt.ui.waiting import result_soon
from fxopt.view import VisibleGraph, default_unfolded, visible
from tests.view import graphs


@pytest.fixture(autouse=True)
def empty() -> None:
    pictures._placed.clear()
    pictures._packed.clear()


def packed(before: VisibleGraph, after: VisibleGraph) -> pictures.PackedLayout:
    found = result_soon(pictures.laying_out(before, after), "Laying out")
    assert found is not None
    return found


def encoder(layers: int) -> VisibleGraph:
    view = graphs.encoder(layers)
    return visible(view, default_unfolded(view))


def test_one_layout_serves_everyone_who_asks_for_it() -> None:
    first = packed(encoder(2), encoder(2))
    assert packed(encoder(2), encoder(2)) is first
    assert packed(encoder(3), encoder(3)).id != first.id


def test_a_layout_that_is_cancelled_ends_its_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = tmp_path / "engine"
    engine.write_text("#!/bin/sh\nexec sleep 100\n")
    engine.chmod(engine.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("FXOPT_DOT", str(engine))

    job = pictures.laying_out(encoder(4), encoder(4))
    assert not job.wait(0.5)
    job.cancel()
    assert job.wait(20)
    assert "something else is to be shown" in job.error


def test_a_failure_of_a_layout_is_raised_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no room")

    monkeypatch.setattr(pictures, "layout", breaks)
    with pytest.raises(ZeroDivisionError, match="no room"):
        packed(encoder(5), encoder(5))
