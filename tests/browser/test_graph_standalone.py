"""A graph as one file that needs no server, in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect

import fxopt
from fxopt.edits import SwapInputs
from fxopt.ui.standalone import standalone_html
from fxopt.view import GraphView, Mark, layout, layout_both, resolve, visible
from tests.view import graphs

pytestmark = pytest.mark.browser


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
