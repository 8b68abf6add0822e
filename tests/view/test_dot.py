"""The DOT download reads back in an engine with every character of its labels."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from fxopt.view import GraphView, NodeView, to_dot
from fxopt.view.engine import engines
from tests.view import graphs


def read_back(text: str) -> dict[str, object]:
    _, program = next(engines())
    done = subprocess.run([program, "-Tjson0"], input=text.encode(), capture_output=True, check=True, timeout=60)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def labels(answer: dict[str, object]) -> list[str]:
    objects = answer["objects"]
    assert isinstance(objects, list)
    return [one["label"] for one in objects if not one["name"].startswith("cluster")]


def test_a_graph_reads_back_with_its_nodes_edges_and_modules() -> None:
    view = graphs.encoder(2)
    answer = read_back(to_dot(view))
    assert len(labels(answer)) == len(view.nodes)
    edges = answer["edges"]
    assert isinstance(edges, list)
    assert len(edges) == len(view.edges)
    clusters = [one for one in answer["objects"] if one["name"].startswith("cluster")]  # type: ignore[attr-defined]
    assert len(clusters) == len(view.module_classes)


def test_modules_can_be_folded() -> None:
    assert len(labels(read_back(to_dot(graphs.encoder(12), {"encoder"})))) < 20


@pytest.mark.parametrize("text", [text for text in graphs.STRANGE if text.strip()])
def test_a_label_of_any_characters_reads_back_as_it_was(text: str) -> None:
    view = GraphView(
        (NodeView(text, "placeholder", text, "io"), NodeView("b", "output", "output", "io")), ((text, "b"),)
    )
    (label, _) = labels(read_back(to_dot(view)))
    # Labels come back as they are written in DOT: with escapes, and entities.
    shown = re.sub(r"\\(.)", lambda found: {"n": "\0"}.get(found[1], found[1]), label).replace("&amp;", "&")
    assert shown == text.replace("\n", " ") + "\0" + "input"


def test_strange_module_names_make_clusters_all_the_same() -> None:
    read_back(to_dot(graphs.strange()))
