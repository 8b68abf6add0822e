"""The places of boxes and edges, whichever engine placed them, and the note where the best one could not."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fxopt.view import GraphView, Layout, default_unfolded, layout, pack, visible
from fxopt.view import layout as layout_function
from fxopt.view.engine import dot_text, engines
from fxopt.view.parts import with_parts
from fxopt.view.program import LayoutStoppedError
from fxopt.view.text import box_size
from tests.view import graphs

VIEWS = {
    "tower": lambda: GraphView.of(graphs.tower()),
    "encoder": lambda: graphs.encoder(4),
    "flat": lambda: graphs.flat(60),
    "strange": graphs.strange,
    "nothing": lambda: GraphView((), ()),
    "one": lambda: GraphView((graphs.call("only"),), ()),
}


def script(folder: Path, body: str) -> str:
    path = folder / "engine"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def restored(payload: dict[str, Any]) -> dict[str, Any]:
    """The way back that component/unpack.js goes."""
    boxes, ends = payload["boxes"], payload["ends"]
    for at in range(4, len(boxes), 4):
        boxes[at] += boxes[at - 4]
        boxes[at + 1] += boxes[at - 3]
    for at in range(0, len(ends), 2):
        ends[at] += ends[at - 2] if at else 0
        ends[at + 1] += ends[at]
    for edge, points in enumerate(payload["curves"]):
        x, y, w, h = boxes[4 * ends[2 * edge] :][:4]
        points[0] += x + w // 2
        points[1] += y + h
        for at in range(2, len(points)):
            points[at] += points[at - 2]
    return payload


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FXOPT_DOT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("fxopt.view.engine.sys.executable", str(tmp_path / "python"))


def check(picture: Layout) -> None:
    """Every box and edge is placed inside the picture, no boxes overlap, and frames hold their boxes."""
    items = picture.graph.items
    assert len(picture.boxes) == len(items)
    drawn = [(source, target) for source, target, _ in picture.edges]
    assert sorted([*drawn, *picture.portals]) == sorted(picture.graph.edges)
    for item, (x, y, w, h) in zip(items, picture.boxes):
        wide, high = box_size(item.title, item.subtitle, bool(item.path))
        assert w == pytest.approx(wide, abs=1)
        assert h == pytest.approx(high, abs=1)
        assert -1 <= x <= x + w <= picture.width + 1
        assert -1 <= y <= y + h <= picture.height + 1
    ordered = sorted(picture.boxes)
    for number, (x, y, w, h) in enumerate(ordered):
        for x2, y2, _, h2 in ordered[number + 1 :]:
            if x2 > x + w:
                break
            assert y2 >= y + h - 1 or y2 + h2 <= y + 1 or x2 >= x + w - 1
    frames = {cluster.path: cluster.box for cluster in picture.clusters}
    for item, (x, y, w, h) in zip(items, picture.boxes):
        for path, _ in item.modules:
            left, top, wide, high = frames[path]
            assert left <= x
            assert top <= y
            assert x + w <= left + wide + 1
            assert y + h <= top + high + 1


@pytest.mark.parametrize("name", VIEWS)
def test_graphviz_places_every_kind_of_graph(name: str) -> None:
    view = VIEWS[name]()
    picture = layout(visible(view, view.module_classes))
    assert picture.engine in ("graphviz-pure", "dot")
    assert picture.note == ""
    check(picture)


def test_a_chain_of_20000_boxes_is_laid_out_plainly_and_says_so() -> None:
    names = [f"n{number}" for number in range(20_000)]
    chain = GraphView(tuple(map(graphs.call, names)), tuple(pairwise(names)))
    folded = GraphView(tuple(with_parts(chain.nodes)), chain.edges)
    shown = visible(folded, default_unfolded(folded))
    assert len(shown.items) == 40
    assert "20,000 folded into 40" in shown.caption
    picture = layout(visible(chain))
    assert picture.is_fallback
    assert picture.note == ("20,000 boxes are more than graphviz lays out in reasonable time; a plain layout is shown")
    assert picture.graph.caption == "showing 20,000 of 20,000 nodes"


def test_an_engine_is_ended_once_nobody_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "process"
    monkeypatch.setenv("FXOPT_DOT", script(tmp_path, f"echo $$ > {told}.new; mv {told}.new {told}; exec sleep 100"))
    with pytest.raises(LayoutStoppedError, match="something else is to be shown"):
        layout(visible(graphs.flat(5)), wanted=lambda: not told.exists())
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize("name", VIEWS)
def test_the_fallback_places_every_kind_of_graph(name: str) -> None:
    view = VIEWS[name]()
    picture = layout(visible(view, view.module_classes))
    assert picture.is_fallback
    assert "pip install graphviz-pure" in picture.note
    check(picture)


@pytest.mark.usefixtures("no_engine")
def test_in_the_fallback_data_runs_down() -> None:
    view = graphs.flat(200)
    picture = layout(visible(view, ()))
    for source, target, _ in picture.edges:
        assert picture.boxes[source][1] < picture.boxes[target][1]


@pytest.mark.usefixtures("no_engine")
def test_the_fallback_places_a_chain_of_20000_boxes() -> None:
    view = graphs.flat(20_000, width=1)
    picture = layout(visible(view, ()))
    assert len(picture.boxes) == 20_002


@pytest.mark.usefixtures("no_engine")
def test_the_fallback_draws_frames_that_do_not_overlap_unless_nested() -> None:
    view = graphs.encoder(4)
    picture = layout(visible(view, view.module_classes))
    same_depth = [cluster.box for cluster in picture.clusters if cluster.depth == 1]
    for number, (x, y, w, h) in enumerate(same_depth):
        for x2, y2, w2, h2 in same_depth[number + 1 :]:
            assert x2 >= x + w or x2 + w2 <= x or y2 >= y + h or y2 + h2 <= y


def test_a_deep_nest_of_modules_is_placed() -> None:
    path = tuple((".".join("m" * depth), "M") for depth in range(1, 300))
    view = GraphView((graphs.call("a", *path), graphs.call("b", *path)), (("a", "b"),))
    check(layout(visible(view, view.module_classes)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exit 3", "ended with code 3"),
        ("echo broken >&2; exit 1", "ended with code 1: broken"),
        ("kill -9 $$", "ended with code -9"),
        ("cat >/dev/null; echo not json", "something other than a layout"),
        ("cat >/dev/null; echo '{}'", "something other than a layout"),
        ('cat >/dev/null; echo \'{"bb": "0,0,1,1"}\'', "something other than a layout"),
    ],
)
@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_fails_is_replaced_and_named(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("fxopt.view.engine.shutil.which", lambda name, path=None: None)
    monkeypatch.setenv("FXOPT_DOT", script(tmp_path, body))
    picture = layout(visible(graphs.encoder(1), ()))
    assert picture.is_fallback
    assert said in picture.note
    assert "a plain layout is shown" in picture.note
    check(picture)


@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_takes_too_long_is_stopped_and_the_fallback_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_DOT", script(tmp_path, "exec /bin/sleep 60"))
    picture = layout(visible(graphs.encoder(1), ()), timeout=0.3)
    assert picture.is_fallback
    assert "was stopped after" in picture.note


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("exec cat /dev/zero", "its answer is longer than"),
        ("cat /dev/zero & exec sleep 60", "its answer is longer than"),
        ("exec yes '{' >&2", "was stopped after"),
        ("head -c 300000 /dev/zero | tr '\\\\0' '['", "something other than a layout"),
        ("echo '[1, 2]'", "something other than a layout"),
        ("kill -9 $$", "ended with code -9"),
    ],
)
@pytest.mark.usefixtures("no_engine")
def test_an_engine_that_floods_its_output_is_stopped_in_little_memory(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("fxopt.view.engine.shutil.which", lambda name, path=None: None)
    monkeypatch.setenv("FXOPT_DOT", script(tmp_path, body))
    tracemalloc.start()
    picture = layout(visible(graphs.flat(5)), timeout=1.0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said in picture.note
    assert picture.is_fallback
    assert most < 8 * 2**20
    check(picture)


def test_the_next_engine_steps_in_for_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXOPT_DOT", "/nowhere/dot")
    picture = layout(visible(graphs.encoder(1), ()))
    assert not picture.is_fallback
    assert "/nowhere/dot cannot be started" in picture.note
    assert f"laid out by {picture.engine}" in picture.note


def test_the_chosen_engine_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXOPT_DOT", "/my/dot")
    assert [name for name, _ in engines()][:2] == ["$FXOPT_DOT", "graphviz-pure"]


def test_no_text_of_the_user_enters_what_the_engine_reads() -> None:
    view = graphs.strange()
    graph = visible(view, view.module_classes)
    sizes = [box_size(item.title, item.subtitle, bool(item.path)) for item in graph.items]
    text, _ = dot_text(graph.items, sizes, graph.edges)
    for label in graphs.STRANGE:
        assert len(label) < 3 or label not in text
    assert text.isascii()


def test_what_every_layer_reads_is_drawn_as_stubs() -> None:
    view = graphs.encoder(12)
    graph = visible(view, view.module_classes)
    picture = layout(graph)
    mask = graph.owner["unsqueeze"]
    assert [source for source, _ in picture.portals] == [mask] * len(picture.portals)
    assert len(picture.portals) >= 10
    assert any(source == mask for source, _, _ in picture.edges), "the near ones stay lines"


def test_the_same_picture_packs_to_the_same_bytes_and_id() -> None:
    view = graphs.encoder(3)
    first, second = (layout(visible(view, {"encoder"})) for _ in range(2))
    assert first == second
    assert first.id == second.id
    assert pack(first) == pack(second)
    assert layout(visible(view, ())).id != first.id


def test_the_payload_reads_back_with_every_character_as_it_was() -> None:
    view = graphs.strange()
    picture = layout(visible(view, view.module_classes))
    payload = restored(json.loads(gzip.decompress(pack(picture))))
    titles = {node.name: title for node, title in zip(view.nodes, [item.title for item in picture.graph.items])}
    assert set(titles.values()) == set(payload["titles"])
    assert set(graphs.STRANGE) - {""} <= set(payload["titles"])
    count = len(picture.graph.items)
    assert [len(payload[key]) for key in ("names", "kind", "titles", "subtitles")] == [count] * 4
    assert len(payload["boxes"]) == 4 * count
    assert len(payload["ends"]) == 2 * len(payload["curves"])
    assert payload["id"] == picture.id


def test_a_bert_packs_to_a_few_kilobytes() -> None:
    view = graphs.encoder(12)
    folded, flat = (pack(layout(visible(view, unfolded))) for unfolded in (default_unfolded(view), view.module_classes))
    assert len(folded) < 3_000
    assert len(flat) < 10_000


@pytest.mark.parametrize("name", VIEWS)
def test_numbers_told_by_differences_come_back_as_they_were(name: str) -> None:
    view = VIEWS[name]()
    picture = layout(visible(view, view.module_classes))
    plain = json.loads(json.dumps(picture.payload()))
    assert restored(json.loads(gzip.decompress(pack(picture)))) == plain


def test_the_fallback_note_travels_to_the_page(no_engine: None) -> None:
    assert "graphviz" in layout_function(visible(graphs.encoder(1), ())).payload()["note"]
