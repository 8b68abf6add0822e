"""Two graphs in one picture: boxes of both stay where they were, and new ones find a place."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import combinations, pairwise

import pytest

from fxopt.passes import ALL_PASSES
from fxopt.view import GraphView, Layout, NodeView, Side, default_unfolded, layout, layout_both, pack, visible
from fxopt.view.comparison import GONE
from fxopt.workbench import Workbench
from tests.examples import EXAMPLES, Example
from tests.view import graphs

PASSES = [kind.__name__ for kind in ALL_PASSES]


def chain(*names: str, **changes: str) -> GraphView:
    nodes = tuple(graphs.call(name, target=changes.get(name, "torch.relu")) for name in names)
    return GraphView(nodes, tuple(pairwise(names)))


def flat(view: GraphView) -> Layout:
    return layout(visible(view, view.module_classes))


def both(before: GraphView, after: GraphView) -> Layout:
    return layout_both(flat(before), visible(after, after.module_classes))


def test_an_edge_inside_the_picture_makes_it_no_wider_whatever_its_control_points() -> None:
    base = flat(chain("a", "b", "c"))
    (source, target, curve), rest = base.edges[0], base.edges[1:]
    outside = base.width + 9  # of a control point: the curve itself stays three quarters of the way to it
    bent = (*curve[:2], outside, curve[3], outside, curve[5], *curve[6:])
    after = chain("a", "c")
    picture = layout_both(replace(base, edges=((source, target, bent), *rest)), visible(after, after.module_classes))
    assert any(max(curve[::2]) == outside for _, _, curve in picture.edges)
    assert picture.width == base.width


def box(picture: Layout, name: str) -> tuple[float, float, float, float]:
    return picture.boxes[picture.graph.owner[name]]


def old_box(picture: Layout, name: str) -> tuple[float, float, float, float]:
    """The box of a node in the first graph."""
    return box(picture, name + GONE if name + GONE in picture.graph.owner else name)


@cache
def pictures(example: Example, names: tuple[str, ...]) -> tuple[Layout, Layout]:
    """That of the untouched graph, and that of both with some passes on; every module open."""
    wb = Workbench(example.graph())
    base = flat(GraphView.of(wb.pristine))
    for name in names:
        wb.turn_on(name)
    after = GraphView.of(wb.current)
    return base, layout_both(base, visible(after, after.module_classes))


@cache
def changing(example: Example) -> list[tuple[str, ...]]:
    """The passes that change the graph, each alone, and all together."""
    states = Workbench(example.graph()).states
    return [*((state.name,) for state in states if state.sites), tuple(PASSES)]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_no_pass_moves_anything_sideways(example: Example) -> None:
    for names in changing(example):
        check_columns(*pictures(example, names))


def check_columns(base: Layout, picture: Layout) -> None:
    kept = [item.name for item in base.graph.items]
    assert [old_box(picture, name)[0] for name in kept] == [box(base, name)[0] for name in kept]
    assert {c.path: (c.box[0], c.box[2]) for c in picture.clusters} == {
        c.path: (c.box[0], c.box[2]) for c in base.clusters
    }
    order = sorted(kept, key=lambda name: box(base, name)[1])
    tops = [old_box(picture, name)[1] - box(base, name)[1] for name in order]
    assert tops == sorted(tops), "what was lower has moved down by no less"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_boxes_do_not_overlap_and_lie_in_their_frames(example: Example) -> None:
    for names in changing(example):
        check(pictures(example, names)[1])


def check(picture: Layout) -> None:
    for (x, y, w, h), (x2, y2, w2, h2) in combinations(picture.boxes, 2):
        assert x + w <= x2 + 1 or x2 + w2 <= x + 1 or y + h <= y2 + 1 or y2 + h2 <= y + 1
    frames = {cluster.path: cluster.box for cluster in picture.clusters}
    for item, (x, y, w, h) in zip(picture.graph.items, picture.boxes):
        assert -1 <= x <= x + w <= picture.width + 1
        assert -1 <= y <= y + h <= picture.height + 1
        for path, (left, top, wide, high) in frames.items():
            if path in dict(item.modules):
                assert left <= x <= x + w <= left + wide + 1
                assert top <= y <= y + h <= top + high + 1
            else:
                apart = x + w <= left + 1 or left + wide <= x + 1 or y + h <= top + 1 or top + high <= y + 1
                assert apart, f"{item.name} lies in {path}, to which it does not belong"
    drawn = [(source, target) for source, target, _ in picture.edges]
    assert sorted([*drawn, *picture.portals]) == sorted(picture.graph.edges)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_edge_begins_and_ends_at_its_boxes(example: Example) -> None:
    _, picture = pictures(example, tuple(PASSES))
    for source, target, points in picture.edges:
        x, y, w, h = picture.boxes[source]
        assert x - 2 <= points[0] <= x + w + 2
        assert y - 2 <= points[1] <= y + h + 2
        x, y, w, h = picture.boxes[target]
        assert x - 2 <= points[-2] <= x + w + 2
        assert y - 2 <= points[-1] <= y + h + 2
        assert len(points) == 4 or len(points) % 6 == 2


def test_the_same_graph_twice_is_its_own_picture() -> None:
    base = flat(chain("a", "b", "c"))
    assert layout_both(base, visible(chain("a", "b", "c"))) is base
    assert "sides" not in base.payload()


def test_what_is_gone_keeps_its_slot_and_its_edges() -> None:
    picture = both(chain("a", "b", "c"), chain("a", "c"))
    base = flat(chain("a", "b", "c"))
    assert [box(picture, name) for name in "abc"] == [box(base, name) for name in "abc"]
    sides = picture.payload()["sides"]
    assert [picture.graph.items[index].name for index in sides["boxes"][0]] == ["b"]
    assert sides["boxes"][1] == []
    assert len(sides["edges"][0]) == 2
    assert len(sides["edges"][1]) == 1


def test_an_edge_over_what_is_gone_goes_the_old_way() -> None:
    picture = both(chain("a", "b", "c"), chain("a", "c"))
    owner = picture.graph.owner
    curve = next(points for source, target, points in picture.edges if (source, target) == (owner["a"], owner["c"]))
    x, y, w, h = box(picture, "b")
    assert any(x < px < x + w and y <= py <= y + h for px, py in zip(curve[::2], curve[1::2]))


@pytest.mark.parametrize("length", [3, 4, 9, 30])
def test_an_edge_that_an_edit_made_goes_around_the_boxes_between(length: int) -> None:
    names = [f"n{number}" for number in range(length)]
    before = chain(*names)
    last = (names[-2], names[-1])
    after = replace(before, edges=(*(edge for edge in before.edges if edge != last), (names[0], names[-1])))
    picture = both(before, after)
    [curve] = [curve for source, target, curve in picture.edges if (source, target) == (0, length - 1)]
    crossed = [name for name in names[1:-1] if passes_through(curve, box(picture, name))]
    assert crossed == []
    assert max(curve[::2]) <= picture.width
    assert min(curve[::2]) >= 0


def passes_through(curve: tuple[float, ...], box: tuple[float, float, float, float]) -> bool:
    """Return whether a curve of Bézier pieces goes through a box."""
    x, y, w, h = box
    points = list(zip(curve[::2], curve[1::2]))
    for at in range(0, len(points) - 3, 3):
        for step in range(201):
            t = step / 200
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
            px, py = (sum(k * point[axis] for k, point in zip(weights, points[at : at + 4])) for axis in (0, 1))
            if x < px < x + w and y < py < y + h:
                return True
    return False


def test_what_is_new_stands_above_what_reads_it() -> None:
    picture = both(chain("a", "c"), chain("a", "b", "c"))
    (_, ya, _, ha), (xb, yb, wb, hb), (xc, yc, wc, _) = (box(picture, name) for name in "abc")
    assert ya + ha < yb < yb + hb < yc
    assert xb + wb / 2 == pytest.approx(xc + wc / 2, abs=1)
    assert picture.comparison is not None
    assert picture.comparison.boxes == (Side.BOTH, Side.AFTER, Side.BOTH)


def test_several_new_boxes_in_a_row_keep_the_order_of_the_data() -> None:
    picture = both(chain("a", "z"), chain("a", "b", "c", "d", "z"))
    tops = [box(picture, name)[1] for name in "abcdz"]
    assert tops == sorted(tops)
    check(picture)


def test_new_siblings_share_one_row() -> None:
    before = GraphView(chain("a", "x", "y").nodes, (("a", "x"), ("a", "y")))
    after = GraphView(
        (before.nodes[0], graphs.call("p"), graphs.call("q"), *before.nodes[1:]),
        (("a", "p"), ("a", "q"), ("p", "x"), ("q", "y")),
    )
    picture = both(before, after)
    assert box(picture, "p")[1] == box(picture, "q")[1]
    check(picture)


def test_what_is_new_at_the_end_or_alone_has_a_place() -> None:
    check(both(chain("a", "b"), chain("a", "b", "c")))
    check(both(chain("a"), GraphView((graphs.call("a"), graphs.call("b")), ())))
    check(both(GraphView((), ()), chain("a", "b")))
    check(both(chain("a", "b"), GraphView((), ())))


def test_a_node_that_calls_something_else_under_its_name_has_a_box_for_each_graph() -> None:
    picture = both(chain("a", "b", "c"), chain("a", "b", "c", b="torch.neg"))
    payload = picture.payload()
    assert payload["names"] == ["a", "b", "b~", "c"]
    assert payload["titles"] == ["relu", "neg", "relu", "relu"]
    assert payload["sides"]["boxes"] == [[2], [1]]
    assert payload["sides"]["replaced"] == [2, 1]
    assert not payload["sides"]["retold"]
    assert picture.comparison is not None
    assert picture.graph.find("b") == 1
    assert picture.comparison.seen_from(Side.BEFORE).find("b") == 2
    assert old_box(picture, "b") == box(flat(chain("a", "b", "c")), "b")
    check(picture)


def test_a_box_with_another_result_is_told_for_both_graphs() -> None:
    before = chain("a", "b")
    picture = both(before, replace(before, nodes=(before.nodes[0], replace(before.nodes[1], shape="7"))))
    sides = picture.payload()["sides"]
    assert [told[2] for told in sides["retold"].values()] == ["7"]
    assert sides["boxes"] == [[], []]


def test_a_layout_of_two_graphs_says_what_is_shown_of_each() -> None:
    before, after, together = both(chain("a", "b", "c"), chain("a", "n", "c")).payload()["sides"]["captions"]
    assert before == "showing 3 of 3 nodes"
    assert after == "showing 3 of 3 nodes"
    assert together == "showing 3 of 3 nodes, 1 gone, 1 new"


def test_folded_modules_stay_and_say_how_many_nodes_each_graph_has() -> None:
    before = graphs.encoder(12)
    gone = {f"encoder_layer_{number}_attention_self_key" for number in range(12)}
    after = GraphView(
        tuple(node for node in before.nodes if node.name not in gone),
        tuple(edge for edge in before.edges if not gone.intersection(edge)),
    )
    unfolded = default_unfolded(before)
    base = layout(visible(before, unfolded))
    picture = layout_both(base, visible(after, unfolded))
    assert picture.boxes == base.boxes
    assert picture.comparison is not None
    assert (
        picture.comparison.graph.owner["encoder_layer_3_attention_self_key"] == picture.graph.owner["@encoder.layer.3"]
    )
    assert len(picture.comparison.retold) == 12


def test_a_graph_of_mostly_new_boxes_is_laid_out_anew_and_says_so() -> None:
    names = [f"n{number}" for number in range(100)]
    picture = both(chain("a", "z"), chain("a", *names, "z"))
    assert "100 boxes are new" in picture.note
    check(picture)


def test_the_layout_of_two_graphs_is_the_same_each_time() -> None:
    one, other = (both(chain("a", "b", "c"), chain("a", "n", "c")) for _ in range(2))
    assert pack(one) == pack(other)
    assert one.id != flat(chain("a", "b", "c")).id
    json.dumps(one.payload())


def test_a_module_that_is_new_and_one_that_is_gone_have_no_frame_of_their_own() -> None:
    inside = (("part", "Part"),)
    before = GraphView((graphs.call("a"), graphs.call("b", *inside), graphs.call("c")), (("a", "b"), ("b", "c")))
    after = replace(before, nodes=(before.nodes[0], replace(before.nodes[1], modules=()), before.nodes[2]))
    picture = both(before, after)
    assert len(picture.graph.items) == 3
    new = NodeView("n", "call_function", "torch.neg", "other", modules=(("other", "Other"),))
    later = GraphView((*before.nodes[:2], new, before.nodes[2]), (("a", "b"), ("b", "n"), ("n", "c")))
    picture = both(before, later)
    assert {cluster.path for cluster in picture.clusters} == {"part"}
    assert len(picture.boxes) == 4
