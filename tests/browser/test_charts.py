"""The charts of the evidence, in a real Chromium: they need no other host, and a click in one selects in the graph."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from playwright.sync_api import Page, TimeoutError, expect

from tests.browser.test_passes_on_the_page import serious
from tests.browser.visitor import FOLD, Open, settled

pytestmark = pytest.mark.browser


def test_the_flops_lead_to_the_cost_by_module_and_a_click_on_a_part_selects_it(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    page.locator(".summary [data-evidence=Cost]").click()
    visitor.sees("The most: residual_first_conv")
    expect(page.locator(".summary [data-evidence=Cost]")).to_contain_text(" M", timeout=60_000)
    chart = page.locator("[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg").first

    def click(x: float, row: int, name: str) -> None:
        """Click in the chart until it is heard: a chart that is drawn anew meanwhile has no ears for a moment."""
        for _ in range(5):
            box = settled(chart)
            page.mouse.click(box["x"] + x * box["width"], box["y"] + (row + 0.4) * box["height"] / 5)
            with suppress(TimeoutError):
                page.wait_for_function("name => __fxopt.views[0].selectedName === name", arg=name, timeout=15_000)
                return
        raise AssertionError(f"no click in the chart selects {name}")

    click(0.5, 2, "residual_conv")  # right of `residual.first`
    click(0.3, 1, "@residual")
    page.get_by_role("radio", name="parameters", exact=True).or_(
        page.get_by_role("button", name="parameters", exact=True)
    ).first.click()
    visitor.wait("Object.keys(view.bars).length > 0")


def test_the_error_by_depth_is_told_and_drawn_with_its_numbers(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.page.get_by_role("tab", name="Numerics").click()
    visitor.sees("the relative error begins at stem_relu")
    visitor.page.get_by_text("The numbers").click()
    expect(visitor.page.get_by_test_id("stDataFrame")).to_have_count(2)
    assert serious(visitor.page) == []


def test_the_intervals_of_the_latency_are_drawn_beside_their_numbers(page: Page, visit: Open) -> None:
    page.emulate_media(color_scheme="dark")
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("tab", name="Latency").click()
    page.get_by_role("button", name="Measure").click()
    expect(page.get_by_test_id("stVegaLiteChart")).to_be_visible(timeout=120_000)
    expect(page.locator(".st-key-drawer h5")).to_have_text(re.compile(r"\[\d"))
    page.get_by_role("button", name="Measure wall time with").click()
    expect(page.get_by_text(re.compile(r"^Wall time with \d+ threads?: "))).to_be_visible(timeout=60_000)
    page.get_by_role("button", name="Where would it pay?").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    expect(page.get_by_text(re.compile(r"of 5 sizes"))).to_be_visible(timeout=120_000)
    expect(page.get_by_test_id("stVegaLiteChart")).to_have_count(2)
    page.get_by_text("The numbers by size").click()
    expect(page.get_by_test_id("stDataFrame")).to_have_count(1)
    expect(page.get_by_role("button", name="How fast are other engines?")).to_be_enabled()
    assert serious(page) == []
