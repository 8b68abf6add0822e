"""The comparison as one HTML file, from disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import fxopt
from fxopt.evidence import compare_outputs
from fxopt.ui.report import comparison_html
from tests.ui.test_report import LATENCY

pytestmark = pytest.mark.browser


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) + self.k(x) / 3


def test_a_comparison_opens_from_disk_with_graphs_reasons_and_tables(page: Page, tmp_path: Path) -> None:
    wb = fxopt.Workbench(Net(), (torch.rand(2, 4),))
    wb.turn_on("MergeLinears")
    title = "</script><b id='broken'>&"
    outputs = compare_outputs(wb.pristine, wb.current, [((torch.rand(2, 4),), {})])
    text = comparison_html(wb, title, numerics=outputs, latencies=[LATENCY])
    file = tmp_path / "comparison.html"
    file.write_text(text)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator(".fx-caption")).to_contain_text("showing")
    assert page.title() == title
    assert page.locator("#broken").count() == 0
    assert page.evaluate("__fxopt.views[0].scene.names.includes('q_k_merged')")
    expect(page.get_by_text("MergeLinears: 1 of 1 sites on, 0 left alone")).to_be_visible()
    expect(page.get_by_text("q, k all read x, so one product with 4 + 4 stacked rows")).to_be_visible()
    page.get_by_text("nodes as they are now").click()
    expect(page.get_by_role("cell", name="q_k_merged", exact=True).first).to_be_visible()

    page.evaluate("scrollTo(0, 0)")
    inspector = page.get_by_role("complementary", name="Inspector")
    expect(inspector).to_contain_text("Select a node to see its facts.")
    box = page.evaluate("__fxopt.views[0].nodeRect('q_k_merged')")
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(inspector).to_contain_text("made by MergeLinears from q, k")
    expect(inspector).to_contain_text("float32 batch x 8")
    told = page.locator(".fx-played")
    expect(told).to_contain_text("After · 1 of 1")
    page.get_by_role("button", name="The graph before").click()
    expect(told).to_contain_text("Before · 0 of 1")
    page.get_by_role("button", name="Play from before to after (p)").click()
    expect(told).to_contain_text("After · 1 of 1")
    for _ in range(70):
        page.keyboard.press("ArrowDown")  # no act waits for a server
    assert page.evaluate("__fxopt.views[0].acts.waiting.length") == 0
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/report.png")
    expect(page.get_by_text(f"Outputs: {outputs.verdict}")).to_be_visible()
    expect(page.get_by_role("columnheader", name="max ulp")).to_be_visible()
    expect(page.get_by_text("CPU time: 2.00x faster [1.90, 2.10]")).to_be_visible()
    expect(page.get_by_role("columnheader", name="before again ms")).to_be_hidden()
    page.get_by_text("15 rounds", exact=True).click()
    expect(page.get_by_role("columnheader", name="before again ms")).to_be_visible()
    assert asked == [file.as_uri()]
    assert len(text.encode()) < 200_000
