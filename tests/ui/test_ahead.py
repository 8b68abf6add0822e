"""Before the page: the curtain while PyTorch is imported, and captures that are made ahead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.models import ZOO
from fxopt.ui import ahead, curtain, own_models
from fxopt.ui.command import PAGE
from fxopt.ui.open_model import captured
from fxopt.view import GraphView, default_unfolded, visible
from tests.browser.serving import ROOT


def test_a_server_listens_and_draws_the_curtain_before_torch_is_imported() -> None:
    code = (
        "import sys, fxopt_cli.main, fxopt.ui.ahead, fxopt.ui.command, fxopt.ui.curtain, fxopt.ui.door, "
        "fxopt.ui.outside, fxopt.ui.folders; print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_no_garbage_is_looked_for_while_the_page_is_imported() -> None:
    code = (
        "import gc, fxopt.ui.curtain as curtain, fxopt.ui.door as door; found = []\n"
        "gc.callbacks.append(lambda phase, info: found.append(curtain.is_imported()))\n"
        "door._import_page(); print(False in found, gc.isenabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "False True\n"


@pytest.mark.parametrize(("address", "pictures"), [({}, 1), ({"model": "bert-base"}, 0)])
def test_the_curtain_shows_the_first_model_and_gives_way_to_the_page(
    monkeypatch: pytest.MonkeyPatch, address: dict[str, str], pictures: int
) -> None:
    def first_html(app: AppTest) -> str:
        return "".join(str(element.proto) for element in app.get("html"))

    monkeypatch.setattr(curtain, "is_imported", lambda: False)
    script = "from fxopt.ui.curtain import begin\nbegin()"
    app = AppTest.from_string(script)
    app.query_params.update(address)
    drawn = first_html(app.run())
    assert "Loading PyTorch" in drawn
    assert drawn.count("data:image/svg+xml;base64,") == pictures
    monkeypatch.undo()
    assert "Loading PyTorch" not in first_html(AppTest.from_file(str(PAGE), default_timeout=120).run())


def test_the_curtain_shows_no_picture_of_another_model_than_the_page_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(curtain, "is_imported", lambda: False)
    monkeypatch.setattr(own_models, "_begins", ("bert-base", ""))
    app = AppTest.from_string("from fxopt.ui.curtain import begin\nbegin()").run()
    assert "data:image/svg+xml" not in "".join(str(element.proto) for element in app.get("html"))


def test_the_picture_of_the_curtain_is_the_first_picture_of_the_page() -> None:
    from fxopt.tracing import capture

    source = ZOO[0]
    model = source.build()
    args, kwargs = source.inputs(model, *source.sizes.checked(source.title, None, None))
    view = GraphView.of(capture(model, args, kwargs))
    seen = visible(view, default_unfolded(view))
    svg = curtain.PICTURE.read_text()
    assert source.key == curtain._MODEL
    assert svg.count('class="node"') == len(seen.items)
    assert f">{seen.caption}<" in svg
    assert len(svg) < 40_000, "it is a part of the page's first message"


def test_captures_are_made_ahead_where_the_page_looks_for_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FXOPT_CACHE", str(tmp_path))
    monkeypatch.setattr("fxopt.process.memory.available_bytes", lambda: 2 * ahead.FREE_BYTES)
    monkeypatch.setattr("fxopt.models.ZOO", ZOO[:2])
    note = ahead.note_of_captures()
    assert not note.exists()
    ahead.make_captures()
    assert note.is_file()
    kept = sorted(file.name.split()[0] for file in note.parent.glob("*.capture"))
    assert kept == sorted(source.key for source in ZOO[:2])
    monkeypatch.setattr("fxopt.tracing.stored.capture", None)  # the page, too, has no need of it
    for source in ZOO[:2]:
        opened = captured.__wrapped__(source.key, "", *source.sizes.checked(source.title, None, None), source)
        assert len(opened.pristine.graph.nodes) > 10
    monkeypatch.setattr("fxopt.models.ZOO", ZOO[:3])
    assert ahead.note_of_captures() != note, "another model is still to be captured"


def test_the_next_server_finds_the_note_of_the_captures() -> None:
    code = "from fxopt.ui.ahead import note_of_captures; print(note_of_captures())"
    next_server = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert next_server.stdout.strip() == str(ahead.note_of_captures())


@pytest.mark.parametrize(("wanted", "note", "started"), [("", False, 1), ("0", False, 0), ("", True, 0)])
def test_a_process_makes_them_once_the_first_graph_is_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str, note: bool, started: int
) -> None:
    calls: list[list[str]] = []

    class Child:
        def __init__(self, command: list[str]) -> None:
            calls.append(command)

        def wait(self) -> None:
            calls[-1].append("waited for")

    monkeypatch.setenv("FXOPT_CACHE", str(tmp_path))
    monkeypatch.setenv(ahead.VARIABLE, wanted)
    monkeypatch.setattr("fxopt.process.memory.available_bytes", lambda: 2 * ahead.FREE_BYTES)
    monkeypatch.setattr(subprocess, "Popen", Child)
    if note:
        ahead.note_of_captures().parent.mkdir()
        ahead.note_of_captures().touch()
    ahead.first_graph_sent.set()
    ahead._work()
    command = [sys.executable, "-m", "fxopt.ui.ahead", str(os.getpid()), "waited for"]
    assert calls == [command] * started


def test_little_free_memory_leaves_captures_to_the_visitors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FXOPT_CACHE", str(tmp_path))
    monkeypatch.setattr("fxopt.process.memory.available_bytes", lambda: ahead.FREE_BYTES - 1)
    ahead.make_captures()
    assert not [*tmp_path.rglob("*.capture")]


@pytest.mark.slow
def test_the_process_that_captures_ends_with_its_server(tmp_path: Path) -> None:
    environment = {**os.environ, "FXOPT_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    gone = 2**22 + 1  # no process has so large a number
    done = subprocess.run([sys.executable, "-m", "fxopt.ui.ahead", str(gone)], env=environment, cwd=ROOT, timeout=120)
    assert done.returncode == 0
    assert not [*tmp_path.rglob("ahead *")]
