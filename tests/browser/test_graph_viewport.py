"""The viewport of a graph, moved by pointer, wheel, fingers, buttons and the map, in a real Chromium."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.graph import OpenGraph

pytestmark = pytest.mark.browser


def test_a_drag_pans_and_selects_nothing(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    before = graph.camera()
    x, y = graph.point("stem")
    graph.page.mouse.move(x, y)
    graph.page.mouse.down()
    graph.page.mouse.move(x + 60, y + 25, steps=5)
    graph.page.mouse.move(x + 120, y + 50, steps=5)
    graph.page.mouse.up()
    graph.settle()
    after = graph.camera()
    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((120, 50))
    assert graph.get("selected") == -1
    graph.says("runs", "1")


def test_a_wheel_with_ctrl_zooms_at_the_pointer(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    before, zoom = graph.point("stem"), graph.camera()["zoom"]
    graph.page.mouse.move(*before)
    graph.page.keyboard.down("Control")
    graph.page.mouse.wheel(0, -200)
    graph.page.mouse.wheel(0, -200)
    graph.page.keyboard.up("Control")
    graph.settle()
    assert graph.camera()["zoom"] > 1.5 * zoom
    assert graph.point("stem") == pytest.approx(before, abs=1)


def test_a_plain_wheel_or_two_fingers_move_the_picture_to_its_end_and_then_the_page(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.page.set_viewport_size({"width": 1400, "height": 500})
    start = graph.camera()
    graph.page.mouse.move(700, 300)
    graph.page.mouse.wheel(0, 120)
    graph.settle()
    assert graph.camera() == {**start, "y": start["y"] - 120}
    graph.page.mouse.wheel(0, 5000)
    graph.settle()
    end = graph.camera()
    assert graph.page.evaluate("(view => view.isInView(view.scene.find('output')))(__fxopt.views[0])")
    graph.page.mouse.wheel(0, 200)
    graph.page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop > 0")
    assert graph.camera() == end


def test_two_fingers_on_a_screen_zoom_and_move(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    before, at = graph.camera(), graph.point("stem")
    graph.page.evaluate(
        """([x, y]) => {
            const { stage } = __fxopt.views[0];
            const touch = (type, pointerId, clientX) => stage.dispatchEvent(new PointerEvent(type,
                { pointerId, clientX, clientY: y, pointerType: "touch", isPrimary: pointerId === 1, bubbles: true }));
            touch("pointerdown", 1, x - 50);
            touch("pointerdown", 2, x + 50);
            touch("pointermove", 1, x - 75);
            touch("pointermove", 2, x + 75);
            touch("pointerup", 1, x - 75);
            touch("pointerup", 2, x + 75);
        }""",
        at,
    )
    graph.settle()
    assert graph.camera()["zoom"] == pytest.approx(1.5 * before["zoom"])
    assert graph.point("stem") == pytest.approx(at, abs=1)
    assert graph.get("selected") == -1


def test_fit_shows_everything_and_start_leads_back(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    start = graph.camera()
    graph.page.get_by_role("button", name="Fit the whole graph").click()
    graph.settle()
    assert graph.page.evaluate(
        "(v => Array.from(v.scene.names, (_, i) => v.isInView(i)).every(Boolean))(__fxopt.views[0])"
    )
    graph.page.get_by_role("button", name="Home: back to the first view").click()
    graph.settle()
    assert graph.camera() == start


def test_marks_change_neither_layout_nor_viewport(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    graph.page.mouse.move(*graph.point("matmul"))
    graph.page.mouse.wheel(0, 120)
    graph.settle()
    camera, layout = graph.camera(), graph.get("layoutId")
    graph.page.get_by_text("Marks").click()
    graph.wait("view.marks.size > 0")
    assert graph.get("layoutId") == layout
    # The legend may take a line from the stage; the picture stays where it is.
    assert graph.camera() == camera
    expect(graph.page.get_by_text("MergeLinears · 3 applied")).to_be_visible()
    marks = graph.page.evaluate("__fxopt.views[0].marks.get(__fxopt.views[0].scene.index.get('layer_0_query'))")
    assert marks == [["applied", 0, 1], ["matched", 2, 1]]
    graph.page.get_by_text("Marks").click()
    graph.wait("view.marks.size === 0")


def test_the_map_leads_to_what_is_clicked_on_it(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    box = graph.page.locator("canvas.fx-map").bounding_box()
    assert box is not None
    assert not graph.get("isInView(__fxopt.views[0].scene.index.get('output'))")
    graph.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 12)
    graph.settle()
    assert graph.get("isInView(__fxopt.views[0].scene.index.get('output'))")


def test_the_map_covers_neither_the_stage_nor_the_buttons(open_graph: OpenGraph) -> None:
    graph = open_graph("tower")
    boxes = [
        graph.page.locator(where).bounding_box() for where in (".fx-bar", ".fx-stage", "canvas.fx-map", ".fx-foot")
    ]
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            assert one is not None
            assert other is not None
            apart_x = one["x"] + one["width"] <= other["x"] + 0.5 or other["x"] + other["width"] <= one["x"] + 0.5
            apart_y = one["y"] + one["height"] <= other["y"] + 0.5 or other["y"] + other["height"] <= one["y"] + 0.5
            assert apart_x or apart_y
