"""The page as a visitor meets it: the real app.py, in a real Chromium."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.visitor import APP, FOLD, Open, Visitor, switch_of

pytestmark = pytest.mark.browser


def test_a_visitor_previews_applies_inspects_and_reverses_a_pass(visit: Open) -> None:
    visitor = visit()
    visitor.wait_for_marks("stem_norm", "matched")
    visitor.wait_for_marks("forked_norm", "miss")
    visitor.sees("0 of 4 sites on")
    visitor.switch(FOLD)
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    visitor.wait("view.scene.find('stem_norm') < 0")
    visitor.sees_badge("4 sites on")
    visitor.click_node("stem_conv")
    visitor.wait("view.selectedName === 'stem_conv'")
    visitor.sees("changed by Fold BatchNorm2d at stem_norm")
    visitor.page.get_by_role("button", name="Reverse all").click()
    visitor.wait_for_marks("stem_norm", "matched")
    visitor.sees_badge("restored, bit for bit")
    expect(visitor.is_on(FOLD)).not_to_be_checked()


def test_twenty_quick_switches_end_as_the_last_one_says(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    # Seen once, so that the rest cannot pass for no switch at all where the server is slow to begin.
    visitor.sees_badge("4 sites on")
    for _ in range(20):
        visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    expect(visitor.is_on(FOLD)).to_be_checked()
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    for _ in range(21):
        visitor.switch(FOLD)
    visitor.sees_badge("restored, bit for bit")
    expect(visitor.is_on(FOLD)).not_to_be_checked()
    visitor.wait_for_marks("stem_norm", "matched")


def test_bert_opens_folded_and_its_layers_show_what_the_pass_did_in_them(visit: Open) -> None:
    visitor = visit()
    visitor.pick("BERT-base")
    visitor.wait("view.scene.find('@encoder.layer.0') >= 0")
    visitor.wait_for_marks("@encoder.layer.11", "matched")
    visitor.switch("MergeLinears")
    visitor.wait_for_marks("@encoder.layer.11", "applied", "changed", "created")
    visitor.sees_badge("12 sites on")
    visitor.click_node("@encoder.layer.0")
    visitor.page.get_by_role("button", name="Open the module").click()
    visitor.wait("view.scene.find('@encoder.layer.0') < 0")
    visitor.page.get_by_role("button", name="Reverse all").click()
    visitor.sees_badge("restored, bit for bit")


def test_nothing_moves_while_other_sizes_are_opened(visit: Open) -> None:
    visitor = visit()
    visitor.pick("BERT-base")
    visitor.wait("view.subject === 'bert-base'")
    visitor.page.evaluate(
        """(selector) => {
        const found = globalThis.found = { places: new Set(), lines: new Set() };
        const watch = () => {
            const label = document.querySelector(`${selector} label`);
            if (label) found.places.add(Math.round(label.getBoundingClientRect().top));
            for (const line of document.querySelectorAll(".st-key-opening-over-the-page"))
                found.lines.add(line.textContent.includes("BERT"));
            requestAnimationFrame(watch);
        };
        watch();
    }""",
        switch_of("MergeLinears"),
    )
    field = visitor.page.get_by_role("spinbutton", name="Sequence")
    field.fill("24")
    field.press("Enter")
    visitor.sees("sequence 24")
    visitor.page.wait_for_function("found.lines.has(true)")
    assert len(visitor.page.evaluate("[...found.places]")) == 1


def test_a_model_that_was_picked_opens_whatever_is_clicked_right_after(visit: Open) -> None:
    visitor = visit()
    visitor.pick("Digits: a small transformer")
    visitor.page.get_by_role("button", name="Large type").click()
    visitor.page.get_by_role("button", name="Large type").click()
    visitor.wait("view.subject === 'digits_transformer'")


def test_a_wrong_folder_leaves_everything_as_it_was(visit: Open, tmp_path: Path) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.pick("A folder with weights (safetensors) …")
    field = visitor.page.get_by_role("textbox", name="Folder")
    field.fill(str(tmp_path / "not_here"))
    field.press("Enter")
    visitor.sees("there is no such folder")
    visitor.sees_badge("4 sites on")
    visitor.switch(FOLD)
    visitor.sees_badge("restored, bit for bit")


def test_two_tabs_do_not_affect_each_other(visit: Open, serve: Callable[..., str]) -> None:
    visitor = visit()
    other = Visitor(visitor.page.context.new_page(), serve(APP))
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    other.page.get_by_role("button", name="Sites of Bias into weights").click()
    other.wait_for_marks("head_scores", "matched")
    other.wait("view.scene.find('stem_norm') >= 0")
    expect(other.is_on(FOLD)).not_to_be_checked()
    other.sees_badge("original")


def test_a_measurement_can_be_cancelled_and_the_page_stays_usable(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.page.get_by_role("tab", name="Latency").click()
    visitor.page.get_by_role("button", name="Measure").click()
    visitor.page.get_by_role("button", name="Cancel").click()
    visitor.sees("Measure again")
    visitor.click_node("stem_conv")
    visitor.sees("changed by Fold BatchNorm2d at stem_norm")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_the_page_follows_the_color_scheme_and_fits_the_window(
    page: Page, serve: Callable[..., str], scheme: str, size: tuple[int, int]
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": size[0], "height": size[1]})
    Visitor(page, serve(APP))
    color = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", color)[:3])) / 3
    assert brightness < 60 if scheme == "dark" else brightness > 200
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    clipped = """() => [...document.querySelectorAll('button, label, [data-testid=stMarkdownContainer] p')].filter(
        (one) => one.clientWidth > 2 && one.scrollWidth > one.clientWidth + 1
            && getComputedStyle(one).overflow !== 'visible'
    ).map((one) => one.textContent)"""
    assert page.evaluate(clipped) == []
