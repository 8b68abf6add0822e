"""The graph component as a visitor meets it, in a real Chromium on a real Streamlit server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Page, expect

import fxopt
from fxopt.edits import SwapInputs
from fxopt.ui.standalone import standalone_html
from fxopt.view import GraphView, Mark, layout, layout_both, resolve, visible
from tests.view import graphs

pytestmark = pytest.mark.browser

SCRIPT = Path(__file__).parent / "graph_script.py"


class Graph:
    """The one graph on the page: its state, and the places to point at."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_function("globalThis.__fxopt?.views?.length === 1 && __fxopt.views[0].ready")

    def get(self, what: str) -> Any:
        return self.page.evaluate(f"__fxopt.views[0].{what}")

    def wait(self, condition: str) -> None:
        self.page.wait_for_function(f"(view => view.ready && ({condition}))(__fxopt.views[0])")

    def point(self, name: str) -> tuple[float, float]:
        box = self.get(f"nodeRect({name!r})")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def control(self, path: str) -> tuple[float, float]:
        box = self.get(f"controlRect({path!r})")
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def click(self, name: str) -> None:
        self.page.mouse.click(*self.point(name))

    def camera(self) -> dict[str, float]:
        return self.page.evaluate("(({x, y, zoom}) => ({x, y, zoom}))(__fxopt.views[0].camera)")

    def says(self, what: str, value: str) -> None:
        expect(self.page.get_by_text(re.compile(f"^{re.escape(f'{what} {value}'.strip())}$"))).to_be_visible()

    def focus(self) -> None:
        self.page.evaluate("__fxopt.views[0].stage.focus()")


Open = Callable[[str], Graph]


@pytest.fixture
def open_graph(page: Page, serve: Callable[..., str]) -> Open:
    return lambda name: Graph(page, f"{serve(SCRIPT)}?graph={name}")


def test_opening_shows_the_graph_and_sends_nothing(open_graph: Open) -> None:
    graph = open_graph("tower")
    assert graph.get("scene.count") == 31
    assert graph.get("selectedName") is None
    graph.says("runs", "1")
    graph.says("heard", "")


def test_a_click_selects_that_very_node(open_graph: Open) -> None:
    graph = open_graph("tower")
    for name in ("stem", "layer_0_query", "truediv"):
        graph.click(name)
        graph.says("selected", name)
        assert graph.get("selectedName") == name
    graph.says("heard", "select stem | select layer_0_query | select truediv")
    graph.says("runs", "4")


def test_of_two_quick_clicks_the_second_holds(open_graph: Open) -> None:
    graph = open_graph("tower")
    first, second = graph.point("stem"), graph.point("matmul")
    graph.page.mouse.click(*first)
    graph.page.mouse.click(*second)
    graph.says("selected", "matmul")
    assert graph.get("selectedName") == "matmul"


def test_a_click_beside_every_box_selects_nothing(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.click("stem")
    graph.says("selected", "stem")
    x, y = graph.point("stem")
    graph.page.mouse.click(x - 300, y)
    graph.says("selected", "None")
    assert graph.get("selected") == -1


def test_what_python_deselected_can_be_selected_again(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.click("stem")
    graph.says("selected", "stem")
    graph.page.get_by_role("button", name="Forget").click()
    graph.says("selected", "None")
    graph.wait("view.selected === -1")
    graph.click("stem")
    graph.says("selected", "stem")


def test_python_selects_and_the_page_shows_it(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.page.get_by_role("button", name="Select output").click()
    graph.wait("view.selectedName === 'output' && view.isInView(view.selected)")
    graph.says("heard", "")


def test_a_drag_pans_and_selects_nothing(open_graph: Open) -> None:
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


def test_a_wheel_with_ctrl_zooms_at_the_pointer(open_graph: Open) -> None:
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


def test_a_plain_wheel_or_two_fingers_move_the_picture_to_its_end_and_then_the_page(open_graph: Open) -> None:
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


def test_two_fingers_on_a_screen_zoom_and_move(open_graph: Open) -> None:
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


def test_fit_shows_everything_and_start_leads_back(open_graph: Open) -> None:
    graph = open_graph("tower")
    start = graph.camera()
    graph.page.get_by_role("button", name="Fit the whole graph").click()
    graph.settle()
    assert graph.page.evaluate(
        "(v => Array.from(v.scene.names, (_, i) => v.isInView(i)).every(Boolean))(__fxopt.views[0])"
    )
    graph.page.get_by_role("button", name="Start: back to the first view").click()
    graph.settle()
    assert graph.camera() == start


def test_marks_change_neither_layout_nor_viewport(open_graph: Open) -> None:
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


def test_marks_on_folded_nodes_show_on_their_module(open_graph: Open) -> None:
    graph = open_graph("encoder")
    graph.page.get_by_text("Marks").click()
    graph.wait("view.marks.size > 0")
    marks = graph.page.evaluate("__fxopt.views[0].marks.get(__fxopt.views[0].scene.index.get('@encoder.layer.3'))")
    assert ["matched", 0, 3] in marks


FRAME = """(path => {
    const { scene, stage, camera } = __fxopt.views[0];
    const { x, y, w, h } = scene.frames.find((one) => one.path === path);
    const place = stage.getBoundingClientRect();
    const [[left, top], [right, bottom]] = [camera.toScreen([x, y]), camera.toScreen([x + w, y + h])];
    return { left, top, right: place.width - right, bottom: place.height - bottom };
})"""
"""The distances of a module's frame from the edges of the stage."""


def test_an_opened_module_is_all_in_view_and_folds_where_it_is_folded(open_graph: Open) -> None:
    graph = open_graph("encoder")
    folded = graph.get("layoutId")
    for path in ("encoder.layer.1", "encoder.layer.4"):
        graph.page.mouse.click(*graph.control(path))
        graph.wait(f"view.layoutId !== {folded!r}")
        edges = graph.page.evaluate(f"{FRAME}({path!r})")
        assert min(edges.values()) > 10, edges
        assert graph.camera()["zoom"] >= 0.6
        place = graph.control(path)
        graph.page.mouse.click(*place)
        graph.wait(f"view.layoutId === {folded!r}")
        assert graph.control(path) == pytest.approx(place, abs=0.5)


def test_the_selection_survives_folding(open_graph: Open) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.click("@encoder.layer.0")
    graph.says("selected", "@encoder.layer.0")
    graph.page.mouse.click(*graph.control("encoder.layer.1"))
    graph.wait(f"view.layoutId !== {start!r}")
    assert graph.get("selectedName") == "@encoder.layer.0"
    assert graph.page.evaluate("(v => v.scene.names[v.selected])(__fxopt.views[0])") == "@encoder.layer.0"


def test_a_double_click_opens_a_module_once(open_graph: Open) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.page.mouse.dblclick(*graph.point("@encoder.layer.2"))
    graph.wait(f"view.layoutId !== {start!r}")
    graph.says("heard", "select @encoder.layer.2 | toggle encoder.layer.2")


def test_held_arrow_keys_are_told_once_they_rest(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.focus()
    for _ in range(4):
        graph.page.keyboard.press("ArrowDown")
    name = graph.get("selectedName")
    graph.says("selected", name)
    graph.says("heard", f"select {name}")
    graph.page.keyboard.press("ArrowUp")
    assert graph.get("selectedName") != name


def test_keys_fold_fit_and_let_go(open_graph: Open) -> None:
    graph = open_graph("encoder")
    start = graph.get("layoutId")
    graph.click("@encoder.layer.0")
    graph.says("selected", "@encoder.layer.0")
    graph.page.keyboard.press("Enter")
    graph.wait(f"view.layoutId !== {start!r}")
    expect(graph.page.get_by_role("option")).to_have_text("layer.0 · BertLayer, open")
    graph.page.keyboard.press("Enter")
    graph.wait(f"view.layoutId === {start!r}")
    graph.page.keyboard.press("Escape")
    graph.says("selected", "None")
    graph.page.keyboard.press("Space")
    graph.settle()
    assert graph.get("isInView(0)")


def test_the_letters_that_streamlit_binds_do_nothing_here(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.focus()
    for key in ("r", "c", "R", "C"):
        graph.page.keyboard.press(key)
    graph.page.keyboard.press("/")
    for key in ("r", "c"):
        graph.page.keyboard.press(key)
    expect(graph.page.get_by_role("dialog")).to_have_count(0)
    graph.says("runs", "1")


def test_search_finds_names_operations_shapes_and_what_is_folded(open_graph: Open) -> None:
    graph = open_graph("encoder")
    graph.focus()
    graph.page.keyboard.press("/")
    graph.page.keyboard.type("embedding")
    status = graph.page.get_by_role("status").filter(has_text="found")
    expect(status).to_have_text("1 found")
    box = graph.page.get_by_role("searchbox")
    box.fill("layer_7_attention_self_query")
    box.press("Enter")
    graph.says("selected", "encoder_layer_7_attention_self_query")
    expect(graph.page.get_by_text("1 of 1 · inside: encoder_layer_7_attention_self_query")).to_be_visible()
    assert graph.get("isInView(__fxopt.views[0].selected)")
    box.fill(r"layer\.\d$")
    expect(status).to_have_text("10 found")
    box.fill("×sequence")
    expect(status).not_to_have_text("nothing found")
    box.fill("(")
    expect(graph.page.get_by_text("nothing found")).to_be_visible()
    box.press("Escape")
    assert graph.page.evaluate("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")


def test_search_goes_around_in_both_directions(open_graph: Open) -> None:
    graph = open_graph("tower")
    box = graph.page.get_by_role("searchbox")
    box.fill("truediv")
    for key, name in (("Enter", "truediv"), ("Enter", "truediv_1"), ("Enter", "truediv"), ("Shift+Enter", "truediv_1")):
        box.press(key)
        assert graph.get("selectedName") == name


def test_the_map_leads_to_what_is_clicked_on_it(open_graph: Open) -> None:
    graph = open_graph("tower")
    box = graph.page.locator("canvas.fx-map").bounding_box()
    assert box is not None
    assert not graph.get("isInView(__fxopt.views[0].scene.index.get('output'))")
    graph.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] - 12)
    graph.settle()
    assert graph.get("isInView(__fxopt.views[0].scene.index.get('output'))")


def test_the_map_covers_neither_the_stage_nor_the_buttons(open_graph: Open) -> None:
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


def test_colors_follow_the_theme(open_graph: Open) -> None:
    graph = open_graph("tower")
    graph.page.emulate_media(color_scheme="light")
    light = "view.theme.back === 'rgb(255, 255, 255)'"
    graph.wait(light)
    camera = graph.camera()
    graph.page.emulate_media(color_scheme="dark")
    graph.wait(f"!({light})")
    assert graph.camera() == camera


def test_labels_of_any_characters_are_drawn_as_text(open_graph: Open) -> None:
    graph = open_graph("strange")
    assert graph.page.evaluate("document.querySelectorAll('b').length") == 0
    for name in ("p2", "n16"):
        graph.page.evaluate(f"(v => v.select(v.scene.index.get({name!r}), 'now'))(__fxopt.views[0])")
        graph.says("selected", name)
    graph.page.evaluate("(v => v.select(v.scene.index.get('p2'), 'now'))(__fxopt.views[0])")
    assert graph.page.evaluate("__fxopt.views[0].option.textContent").startswith("p2, input")


def test_a_graph_of_3500_nodes_answers_a_click(open_graph: Open) -> None:
    graph = open_graph("large")
    assert graph.get("scene.count") == 3502
    graph.click("x")
    graph.says("selected", "x")
    assert graph.page.evaluate("__fxopt.views[0].root.querySelectorAll('*').length") < 100
    graph.page.keyboard.press("Space")
    graph.settle()
    assert graph.get("isInView(0)")
    assert graph.get("isInView(__fxopt.views[0].scene.find('output'))")


def test_a_reader_of_the_screen_hears_what_is_selected(open_graph: Open) -> None:
    graph = open_graph("tower")
    stage = graph.page.get_by_role("listbox")
    expect(stage).to_have_attribute("aria-label", re.compile("showing 31 of 38 nodes"))
    assert graph.page.locator(".fx-canvas").get_attribute("aria-hidden") == "true"
    graph.click("layer_0_query")
    option = graph.page.get_by_role("option")
    expect(option).to_have_text("query, Linear, in layer.0, 1 inputs, 1 users")
    expect(option).to_have_attribute("aria-selected", "true")


def test_moving_the_pointer_over_the_graph_sends_nothing(open_graph: Open) -> None:
    graph = open_graph("tower")
    for name in ("stem", "mul", "layer_0_query", "matmul"):
        graph.page.mouse.move(*graph.point(name))
    graph.page.mouse.wheel(0, 300)
    graph.settle()
    graph.says("runs", "1")


def test_linked_panes_share_their_selection(page: Page, serve: Callable[..., str]) -> None:
    page.goto(serve(SCRIPT.with_name("linked_script.py")))
    page.wait_for_function("globalThis.__fxopt?.views?.length === 2 && __fxopt.views.every((view) => view.ready)")
    box = page.evaluate("__fxopt.views.find((view) => view.key === 'before').nodeRect('layer_0_query')")
    page.mouse.click(box["x"] + 20, box["y"] + 10)
    expect(page.get_by_text("selected layer_0_query")).to_be_visible()
    seen = "(key => (view => view.scene.names[view.selected])(__fxopt.views.find((view) => view.key === key)))"
    assert page.evaluate(f"{seen}('before')") == "layer_0_query"
    assert page.evaluate(f"{seen}('after')") == "@layer.0"


def test_a_page_left_ends_its_graphs(open_graph: Open, serve: Callable[..., str]) -> None:
    graph = open_graph("tower")
    graph.page.get_by_text("Hide").click()
    graph.page.wait_for_function("__fxopt.views.length === 0")
    graph.page.get_by_text("Hide").click()
    graph.settle()


def test_the_standalone_page_needs_no_server_and_ends_no_script(page: Page, tmp_path: Path) -> None:
    view = graphs.strange()
    picture = layout(visible(view, view.module_classes))
    file = tmp_path / "graph.html"
    title = "</script><b id='broken'>&"
    file.write_text(
        standalone_html(picture, resolve({"n2": [Mark("miss")]}, picture.graph, ["</script>"]), title=title)
    )
    page.goto(file.as_uri())
    # The page forbids what waiting for a condition takes, so this waits for what the condition shows.
    expect(page.locator(".fx-caption")).to_contain_text("showing")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.evaluate("__fxopt.views.length === 1 && __fxopt.views[0].ready")
    assert page.title() == title
    assert page.locator("#broken").count() == 0
    assert page.evaluate("__fxopt.views[0].scene.titles.includes('<b>bold</b>')")
    box = page.evaluate("__fxopt.views[0].nodeRect('n2')")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.evaluate("__fxopt.views[0].selectedName") == "n2"
    page.keyboard.press("Enter")
    assert page.evaluate("__fxopt.views[0].ready")


def test_the_operands_along_edges_are_told_for_the_side_that_is_seen(page: Page, tmp_path: Path) -> None:
    class Difference(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return (a - b) * 2

    gm = fxopt.capture(Difference(), (torch.ones(2), torch.ones(2)))
    before = layout(visible(GraphView.of(gm)))
    SwapInputs("sub", "args[0]", "args[1]")(gm)
    both = layout_both(before, visible(GraphView.of(gm)))
    for picture, sides in ((before, {"both": "12"}), (both, {"before": "12", "after": "21", "both": "1→22→1"})):
        file = tmp_path / "graph.html"
        file.write_text(standalone_html(picture))
        page.goto(file.as_uri())
        expect(page.locator(".fx-caption")).to_contain_text("showing")
        expect(page.locator(".fx-legend")).to_contain_text("1, 2 at an arrow: first, second operand")
        expect(page.locator(".fx-legend")).not_to_contain_text("×")
        for side, expected in sides.items():
            told = page.evaluate(
                "side => { const scene = [...__fxopt.layouts.values()][0].scene(side); return ['a', 'b'].map("
                "name => scene.reads.get(`${scene.index.get(name)} ${scene.index.get('sub')}`)).join('') }",
                side,
            )
            assert told == expected


def test_the_legend_tells_of_repeated_operands_where_there_are_some(page: Page, tmp_path: Path) -> None:
    for function, told in ((lambda x: x * x, "×2 at an arrow: read twice"), (lambda x: x.relu() * x.relu(), "")):
        file = tmp_path / "graph.html"
        file.write_text(standalone_html(layout(visible(GraphView.of(torch.fx.symbolic_trace(function))))))
        page.goto(file.as_uri())
        expect(page.locator(".fx-caption")).to_contain_text("showing")
        legend = page.locator(".fx-legend").inner_text()
        assert [line for line in legend.splitlines() if "arrow" in line] == [told] * bool(told)
