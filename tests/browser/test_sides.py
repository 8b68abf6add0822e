"""Two graphs in one layout: as each of them, as both, and side by side, in a real Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser

SCRIPT = Path(__file__).with_name("sides_script.py")
PARTS = {f"layer_0_{part}" for part in ("query", "key", "value")}


class Sides:
    """The page of sides_script.py, and its panes by key."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.settle()
        page.evaluate("document.fonts.ready")  # one that comes late moves all that stands below its first text

    def settle(self, panes: int = 1) -> None:
        self.page.wait_for_function(
            f"globalThis.__fxopt?.views?.length === {panes} && __fxopt.views.every((view) => view.ready)"
        )

    def rest(self) -> dict[str, tuple[float, float]]:
        """Wait until nothing moves any more, and return the places."""
        places: dict[str, tuple[float, float]] = {}
        while places != (places := self.places()):
            self.page.wait_for_timeout(300)
        return places

    def get(self, what: str, key: str = "graph") -> Any:
        return self.page.evaluate(f"(view => {what})(__fxopt.views.find((one) => one.key === {key!r}))")

    def see(self, arrangement: str) -> None:
        self.page.get_by_role("radio", name=arrangement, exact=True).or_(
            self.page.get_by_role("button", name=arrangement, exact=True)
        ).click()
        both = arrangement == "side by side"
        self.settle(2 if both else 1)
        side = {
            "before": "!v.scene.find('merged') || v.scene.find('merged') < 0",
            "after": "v.scene.find('truediv_1') < 0",
        }
        condition = side.get(arrangement, "true" if both else "v.scene.boxStates !== null")
        self.page.wait_for_function(f"(v => v && ({condition}))(__fxopt.views.find((one) => one.key === 'graph'))")

    def zoom(self, by: int) -> None:
        self.page.keyboard.down("Control")
        self.page.mouse.wheel(0, by)
        self.page.keyboard.up("Control")

    def names(self, key: str = "graph") -> set[str]:
        return set(self.get("view.scene.names", key))

    def lit(self, key: str = "graph") -> set[str]:
        return set(self.get("[...view.lit].map((i) => view.scene.names[i])", key))

    def point(self, name: str, key: str = "graph") -> tuple[float, float]:
        box = self.get(f"view.nodeRect({name!r})", key)
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def places(self, key: str = "graph") -> dict[str, tuple[float, float]]:
        found = self.get("view.scene.names.map((n) => [n, view.nodeRect(n)])", key)
        return {name: (round(box["x"], 1), round(box["y"], 1)) for name, box in found}


@pytest.fixture
def sides(page: Page, serve: Callable[..., str]) -> Sides:
    return Sides(page, serve(SCRIPT))


def test_each_graph_shows_what_it_has(sides: Sides) -> None:
    assert "truediv_1" in sides.names()
    assert "merged" not in sides.names()
    sides.see("after")
    assert "truediv_1" not in sides.names()
    assert "merged" in sides.names()
    assert sides.get("view.scene.titles[view.scene.index.get('layer_0_query')]") == "getitem"
    sides.see("both")
    assert {"truediv_1", "merged"} <= sides.names()


def test_going_from_one_graph_to_the_other_moves_nothing_on_the_screen(sides: Sides) -> None:
    sides.page.mouse.move(*sides.point("truediv"))
    sides.zoom(-150)
    before = sides.rest()
    for arrangement in ("after", "both", "before"):
        sides.see(arrangement)
        now = sides.places()
        shared = before.keys() & now.keys() - PARTS  # those have a box of their own in each graph
        assert {name: now[name] for name in shared} == {name: before[name] for name in shared}


def test_a_rewrite_moves_nothing_sideways_and_the_selected_node_not_at_all(sides: Sides) -> None:
    sides.page.get_by_test_id("stCheckbox").get_by_text("Changed").click()
    sides.page.wait_for_function("__fxopt.views[0].ready && __fxopt.views[0].scene.at === null")
    sides.page.mouse.click(*sides.point("matmul"))
    expect(sides.page.get_by_text("selected matmul", exact=True)).to_be_visible()
    before = sides.places()
    sides.page.get_by_test_id("stCheckbox").get_by_text("Changed").click()
    sides.page.wait_for_function("__fxopt.views[0].ready && __fxopt.views[0].scene.at !== null")
    now = sides.places()
    assert now["matmul"] == before["matmul"]
    assert {name: x for name, (x, _) in now.items()} == {name: x for name, (x, _) in before.items() if name in now}


def test_the_picture_of_both_tells_what_is_gone_and_what_is_new(sides: Sides) -> None:
    sides.see("both")
    kinds = sides.get("view.marks.get(view.scene.index.get('truediv_1')).map(([kind]) => kind)")
    assert kinds == ["removed"]
    assert sides.get("view.marks.get(view.scene.index.get('merged')).map(([kind]) => kind)") == ["created"]
    states = sides.get("view.scene.edgeStates")
    assert states.count("removed") == 8
    assert states.count("created") == 8
    expect(sides.page.get_by_text("4 gone, 4 new")).to_be_visible()


def test_what_was_replaced_under_its_name_has_an_old_box_and_a_new_one(sides: Sides) -> None:
    old, new = ("layer_0_query~", "layer_0_query")
    place = sides.rest()[new]
    sides.see("both")
    assert {old, new} <= sides.names()
    assert sides.rest()[old] == place
    assert [sides.get(f"view.scene.titles[view.scene.index.get({name!r})]") for name in (old, new)] == [
        "query",
        "getitem",
    ]
    assert sides.get(f"view.marks.get(view.scene.index.get({old!r})).map(([kind]) => kind)") == ["removed"]


def test_a_merged_node_lights_those_it_was_made_of_and_they_light_it(sides: Sides) -> None:
    sides.see("side by side")
    sides.page.mouse.move(*sides.point("merged"))
    assert sides.lit("left") == PARTS
    assert sides.lit() >= PARTS
    sides.page.mouse.move(*sides.point("layer_0_key", "left"))
    assert sides.lit() == {"merged", *PARTS}
    sides.page.mouse.move(5, 5)
    assert sides.lit() == sides.lit("left") == set()


def test_what_is_pointed_at_lights_its_counterpart(sides: Sides) -> None:
    sides.see("side by side")
    sides.page.mouse.move(*sides.point("mul", "left"))
    assert sides.lit() == {"mul"}


def test_panes_side_by_side_look_at_one_place(sides: Sides) -> None:
    sides.see("side by side")
    camera = "(({x, y, zoom}) => [x, y, zoom])(view.camera)"
    sides.page.mouse.move(*sides.point("matmul", "left"))
    sides.zoom(-300)
    sides.settle(2)
    assert sides.get(camera, "left") == sides.get(camera)
    x, y = sides.point("matmul")
    sides.page.mouse.move(x, y)
    sides.page.mouse.down()
    sides.page.mouse.move(x + 40, y - 60, steps=4)
    sides.page.mouse.up()
    sides.settle(2)
    assert sides.get(camera, "left") == sides.get(camera)
    assert sides.point("matmul") == pytest.approx((x + 40, y - 60), abs=1)


def test_selecting_in_one_pane_selects_in_the_other(sides: Sides) -> None:
    sides.see("side by side")
    sides.page.mouse.click(*sides.point("merged"))
    expect(sides.page.get_by_text("selected merged", exact=True)).to_be_visible()
    assert sides.get("view.selected", "left") == -1
    assert sides.lit("left") == PARTS
    sides.page.mouse.click(*sides.point("mul", "left"))
    expect(sides.page.get_by_text("selected mul", exact=True)).to_be_visible()
    assert sides.get("view.selectedName") == "mul"


def test_going_side_by_side_and_back_keeps_the_place(sides: Sides) -> None:
    sides.page.mouse.move(*sides.point("matmul"))
    sides.zoom(-200)
    sides.settle()
    zoom = sides.get("view.camera.zoom")
    sides.see("side by side")
    assert sides.get("view.camera.zoom") == pytest.approx(zoom)
    assert sides.get("view.camera.zoom", "left") == pytest.approx(zoom)
    sides.see("before")
    assert sides.get("view.camera.zoom") == pytest.approx(zoom)


def test_pointing_and_lighting_sends_nothing(sides: Sides) -> None:
    sides.see("side by side")
    runs = sides.page.get_by_text("runs ").inner_text()
    for name in ("merged", "matmul", "layer_0_key"):
        sides.page.mouse.move(*sides.point(name))
    sides.page.mouse.wheel(0, 200)
    sides.settle(2)
    assert sides.page.get_by_text("runs ").inner_text() == runs


def test_a_folded_module_holds_the_nodes_of_both_graphs(sides: Sides) -> None:
    sides.see("both")
    layout = sides.get("view.layoutId")
    x, y, w, h = (sides.get("view.controlRect('layer.0')")[key] for key in ("x", "y", "width", "height"))
    sides.page.mouse.click(x + w / 2, y + h / 2)
    sides.page.wait_for_function(f"__fxopt.views[0].ready && __fxopt.views[0].layoutId !== {layout!r}")
    assert sides.get("view.scene.names[view.scene.find('merged')]") == "@layer.0"
    assert sides.get("view.scene.names[view.scene.find('layer_0_key')]") == "@layer.0"
