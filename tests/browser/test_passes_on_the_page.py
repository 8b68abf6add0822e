"""Passes, sites, keys and the inspector as a visitor meets them: the real app.py, in a real Chromium."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from typing import Any

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from fxopt import ALL_PASSES, PackConvolutions
from fxopt.packed import supports
from tests.browser.visitor import APP, FOLD, Open, Visitor, press, settled

pytestmark = pytest.mark.browser


def test_the_whole_flow_works_by_keys_alone(visit: Open) -> None:
    visitor = visit()
    press(visitor, "ArrowRight")
    visitor.wait("view.selectedName === 'stem_norm'")
    visitor.sees("matches here")
    press(visitor, "Enter")
    visitor.sees_badge("1 site on")
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    press(visitor, "Control+z")
    visitor.sees_badge("restored, bit for bit")
    press(visitor, "Control+y")
    visitor.sees_badge("1 site on")
    press(visitor, "f")
    expect(visitor.page.locator(".st-key-pass-C-looked-at")).to_be_visible()
    press(visitor, "r")
    expect(visitor.page.locator(".st-key-pass-B-looked-at")).to_be_visible()
    press(visitor, "?")
    expect(visitor.page.get_by_role("dialog")).to_contain_text("next, previous pass that acts")
    press(visitor, "Escape")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_of_many_quick_keys_none_is_lost_and_none_acts_twice(visit: Open) -> None:
    visitor = visit()
    press(visitor, *["ArrowDown"] * (2 * len(ALL_PASSES) + 3))
    expect(visitor.page.locator(".st-key-pass-E-looked-at")).to_be_visible()


def test_r_and_c_do_not_run_the_page_again_nor_clear_its_caches(visit: Open) -> None:
    visitor = visit()
    press(visitor, "c")
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)
    press(visitor, "r")
    last = string.ascii_uppercase[ALL_PASSES.index(PackConvolutions)]  # of those that act here
    expect(visitor.page.locator(f".st-key-pass-{last}-looked-at")).to_be_visible()


def test_what_is_typed_in_a_field_is_no_command(visit: Open) -> None:
    visitor = visit()
    visitor.click_node("stem_relu")
    field = visitor.page.get_by_role("textbox", name="Why does nothing happen here?")
    field.fill("fr?g/")
    field.press("Enter")
    visitor.sees("No pass is called")
    expect(visitor.page.locator(".st-key-pass-B-looked-at")).to_be_visible()
    expect(visitor.page.get_by_role("dialog")).to_have_count(0)


def test_g_goes_to_the_code_and_back_to_the_graph(visit: Open) -> None:
    visitor = visit()
    press(visitor, "g")
    expect(visitor.page.get_by_role("tab", name="Code")).to_be_focused()
    visitor.sees("No site is on: the code is that of the original.")
    press(visitor, "g")
    visitor.page.wait_for_function("__fxopt.views[0].root.getRootNode().activeElement === __fxopt.views[0].stage")


def test_pointing_at_a_pass_shows_what_it_would_do_and_going_away_ends_it(visit: Open) -> None:
    visitor = visit()
    visitor.page.locator(".st-key-pass-C-row").hover()
    visitor.sees("would remove 1 node and change 1")
    visitor.wait_for_marks("head_norm", "removed")
    word = "getComputedStyle(__fxopt.views[0].stage, '::before').content"
    assert visitor.page.evaluate(word) == '"PREVIEW"'
    visitor.page.mouse.move(700, 5)
    visitor.wait_for_marks("head_norm")
    assert visitor.page.evaluate(word) == "none"
    visitor.sees_badge("original")
    visitor.page.get_by_role("button", name="Sites of Fold BatchNorm1d").focus()
    visitor.wait_for_marks("head_norm", "removed")


def test_a_preview_is_not_announced_as_if_it_were_so(visit: Open) -> None:
    visitor = visit()
    visitor.page.evaluate("(view => view.select(view.scene.find('head_norm'), 'now'))(__fxopt.views[0])")
    visitor.sees("matches here")
    visitor.page.locator(".st-key-pass-C-row").hover()
    visitor.wait_for_marks("head_norm", "removed")
    spoken = visitor.page.evaluate("(view => { view.speak(); return view.option.textContent; })(__fxopt.views[0])")
    assert spoken.startswith("norm, BatchNorm1d")
    assert "removed" not in spoken


LINES = """part => {
    const text = document.createRange();
    text.selectNodeContents(part);
    return new Set([...text.getClientRects()].map(line => Math.round(line.top))).size;
}"""


def test_in_a_narrow_list_a_name_stands_in_one_line_and_the_reason_of_a_near_miss_is_read_whole(visit: Open) -> None:
    visitor = visit()
    listed = visitor.page.locator(".pass-list")
    for narrow in (False, True):
        if narrow:  # as beside a bar to scroll with
            listed.evaluate("list => { list.style.width = `${list.clientWidth - 15}px`; }")
        names = listed.locator(".pass-name").all()
        assert {name.inner_text() for name in names if name.evaluate(LINES) > 1} == set()
        assert len(names) > 1
    reason = listed.locator(".pass-miss .pass-note").last
    expect(reason).to_contain_text("not a Conv2d")
    assert reason.evaluate("part => part.scrollHeight <= part.clientHeight && part.scrollWidth <= part.clientWidth")


def test_what_rests_on_a_pass_is_asked_about_before_it_goes_off(visit: Open) -> None:
    visitor = visit()
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.scene.find('block1_attention_query') >= 0")
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    visitor.switch("FuseBiasInLinear")
    visitor.sees_badge("11 sites on")
    visitor.switch("MergeLinears")
    expect(visitor.page.get_by_role("alert")).to_contain_text("rest on this and would go off too")
    expect(visitor.is_on("MergeLinears")).to_be_checked()
    visitor.page.get_by_role("button", name="Turn off all the same").click()
    expect(visitor.is_on("MergeLinears")).not_to_be_checked()
    expect(visitor.page.get_by_role("alert")).to_have_count(0)


def test_copies_are_switched_together(visit: Open) -> None:
    visitor = visit()
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.scene.find('block1_attention_query') >= 0")
    visitor.page.get_by_role("button", name="Sites of Merge linears").click()
    visitor.page.locator("label", has_text="block*.attention.query, all 2 copies").click()
    visitor.sees_badge("2 sites on")


def test_fifty_quick_switches_end_as_the_last_one_says(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    for _ in range(49):
        visitor.switch(FOLD)
    visitor.sees_badge("restored, bit for bit")
    expect(visitor.is_on(FOLD)).not_to_be_checked()


def test_no_click_in_the_graph_is_lost_to_a_quick_switch_after_it(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    for number in range(6):
        name = ("stem_relu", "stem_conv")[number % 2]
        visitor.click_node(name)
        visitor.switch(FOLD)
        visitor.sees_badge("4 sites on" if number % 2 else "restored, bit for bit")
        expect(visitor.page.locator(".st-key-inspected code").first).to_have_text(name)


def test_no_module_opened_in_the_graph_is_lost_to_a_quick_switch_after_it(visit: Open) -> None:
    visitor = visit()
    visitor.page.get_by_role("button", name="Fold", exact=True).click()
    visitor.wait("view.scene.find('@stem') >= 0 && view.scene.groups.size > 0")
    for number in range(3):
        visitor.page.evaluate("__fxopt.views[0].toggle('stem')")
        visitor.switch(FOLD)
        visitor.sees_badge("restored, bit for bit" if number % 2 else "4 sites on")
        visitor.wait(
            f"view.scene.groups.size > 0 && (view.scene.index.has('@stem')) === {str(number % 2 == 1).lower()}"
        )


def test_search_steps_through_what_it_finds(visit: Open) -> None:
    visitor = visit()
    visitor.page.wait_for_function("!document.querySelector('[data-stale=true]')")  # and so the keys are listened to
    press(visitor, "/")
    visitor.page.keyboard.type("norm$|^relu")
    visitor.page.wait_for_function("/found$/.test(__fxopt.views[0].chrome.found.textContent)")
    press(visitor, "Enter")
    first = visitor.page.evaluate("__fxopt.views[0].selectedName")
    visitor.page.get_by_role("button", name="Next one found").click()
    visitor.wait(f"view.selectedName !== {json.dumps(first)}")
    visitor.page.get_by_role("button", name="Previous one found").click()
    visitor.wait(f"view.selectedName === {json.dumps(first)}")


def test_keys_follow_the_data_in_the_graph_and_the_active_node_is_announced(visit: Open) -> None:
    visitor = visit()
    visitor.page.evaluate("__fxopt.views[0].stage.focus()")
    press(visitor, "ArrowDown", "ArrowDown")
    visitor.sees("matches at")
    announced = visitor.page.evaluate(
        """(() => { const {stage} = __fxopt.views[0];
        return stage.getRootNode().getElementById(stage.getAttribute('aria-activedescendant')).textContent })()"""
    )
    assert "Conv2d" in announced
    assert "Fold BatchNorm2d would apply" in announced


def test_a_click_runs_the_page_once_and_a_switch_once(visit: Open) -> None:
    """The page is run again for the visitor's acts alone."""
    visitor = visit()
    visitor.page.evaluate(
        """globalThis.asked = globalThis.runs = 0;
        const { send } = WebSocket.prototype;
        WebSocket.prototype.send = function (message) { globalThis.asked++; return send.call(this, message); };
        new MutationObserver((changes) => {
            // A run that is over by now was running in between.
            globalThis.runs += changes.filter(({ target, oldValue }) =>
                oldValue === 'running' && target.dataset.testScriptState !== 'running').length;
        }).observe(document.body, { subtree: true, attributes: true, attributeOldValue: true,
                                    attributeFilter: ['data-test-script-state'] })"""
    )
    visitor.click_node("stem_conv")
    visitor.sees("matches at")
    visitor.page.mouse.move(700, 5)
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    assert 1 <= visitor.page.evaluate("globalThis.asked") <= 4, "so many runs were asked for"
    assert visitor.page.evaluate("globalThis.runs") <= 4, "one that is over within a frame of the browser is not seen"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_our_parts(page: Page, serve: Callable[..., str], scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    visitor = Visitor(page, serve(APP))
    assert serious(page) == []
    press(visitor, "ArrowRight")
    visitor.sees("matches here")
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("tab", name="Nodes").click()
    visitor.sees("Choose a row")
    assert serious(page) == []
    page.get_by_role("tab", name="Code").click()
    for shown in ("Difference", "Now"):
        page.locator(".st-key-drawer").get_by_text(shown, exact=True).click()
        visitor.sees("stem_conv")
        page.mouse.move(700, 5)
        settled(page.locator(".st-key-drawer"))
        assert serious(page) == []
    page.get_by_role("button", name="Keys").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []


def test_axe_finds_nothing_serious_in_the_views_the_tabs_and_the_lessons(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    found: dict[str, list[str]] = {}
    for view in ("Side by side", "Diff"):
        page.get_by_role("radio", name=view).click()
        page.wait_for_function("number => __fxopt.views.length === number", arg=2 if view == "Side by side" else 1)
        found[view] = serious(page)
    tabs = {"Cost": "The most: ", "Time line": "The model as it was opened", "Your rule": "Rules that come with"}
    for tab, seen in tabs.items():
        page.get_by_role("tab", name=tab).click()
        visitor.sees(seen)
        found[tab] = serious(page)
    page.get_by_role("button", name="Lessons").click()
    visitor.sees("Each one leads you")
    settled(page.get_by_test_id("stSidebar"))
    found["Lessons"] = serious(page)
    assert not any(found.values()), found


STREAMLITS_OWN = (r"^<pre",)
"""Parts that Streamlit itself draws: code that scrolls, which axe wants among the stops of the Tab key. Browsers put it
there by themselves (Firefox always did, Chromium does since version 130)."""


AT_REST = """!document.querySelector('[data-stale=true], [data-test-script-state=running]') &&
    document.getAnimations().every(
    (one) => one.playState !== "running" || one.effect?.getComputedTiming().endTime === Infinity)"""
"""No part waits to be drawn anew, and no color is on its way to another."""


def serious(page: Page) -> list[str]:
    """The faults of serious and critical impact that axe-core finds, once the page is at rest."""
    page.mouse.move(0, 0)  # a tooltip would appear at any time
    page.wait_for_function(AT_REST)
    found: list[dict[str, Any]] = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{violation['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:200]}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
        if not any(re.search(own, node["html"]) for own in STREAMLITS_OWN)
    ]


ALL_CHANGED = {
    "nodes": "1,341 → 1,353", "matrix products": "185 → 161", "parameters": "109.5 M → 108.4 M",
    "weights": "437.9 MB → 433.1 MB", "FLOPs": "22.35 G → 21.15 G", "error": "1.4e-06", "latency": "165 ms → 148 ms",
}  # fmt: skip
"""The figures above the graph of a model of the size of BERT, all of them known and changed."""
FILL = """(told) => {
    for (const figure of document.querySelectorAll(".summary .figure"))
        figure.lastElementChild.innerHTML = `<strong>${told[figure.firstElementChild.textContent]}</strong>`;
    const line = document.querySelector(".summary");
    return line.scrollWidth - line.clientWidth;
}"""


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
def test_large_type_fits_the_window(visit: Open, size: tuple[int, int]) -> None:
    visitor = visit()
    page = visitor.page
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.get_by_role("button", name="Large type").click()
    page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '19px'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    visitor.wait("view.theme.scale > 1.2 && view.camera.zoom > 1.2")
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("radio", name="Diff").click()
    page.get_by_role("tab", name="Code").click()
    expect(page.locator(".fx-play")).to_be_visible()
    visitor.wait("view.stageSize()[1] > 0.14 * innerHeight")
    signs = page.locator(".fx-sign-applied, .fx-sign-changed, .fx-sign-removed").all()
    assert len(signs) == 3
    assert all(sign.evaluate("one => parseFloat(getComputedStyle(one).borderRadius) * 2 >= one.offsetHeight")
               for sign in signs), "round, as in the graph"  # fmt: skip
    visitor.rests()
    assert page.evaluate(FILL, ALL_CHANGED) <= 0


def test_another_batch_keeps_the_passes_on(visit: Open) -> None:
    visitor = visit()
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    field = visitor.page.get_by_role("spinbutton", name="Batch")
    field.fill("3")
    field.press("Enter")
    visitor.sees("batch norm at batch 3")
    visitor.sees_badge("4 sites on")


def test_a_switch_right_after_another_batch_is_not_lost(visit: Open) -> None:
    visitor = visit()
    field = visitor.page.get_by_role("spinbutton", name="Batch")
    for batch in (5, 6):
        field.fill(str(batch))
        field.press("Enter")
        visitor.switch("FoldBatchNorm")
        visitor.sees(f"batch norm at batch {batch}")
        visitor.sees_badge("5 sites on" if batch == 5 else "restored, bit for bit")


def test_the_graph_is_announced_as_the_one_that_is_chosen(visit: Open) -> None:
    visitor = visit()
    for chosen in ("Diff", "Original", "Now"):
        visitor.page.get_by_role("radio", name=chosen).click()
        expect(visitor.page.locator(".fx-stage")).to_have_attribute(
            "aria-label", re.compile(f"^Graph of Digits: convolutions and batch norm, {chosen.lower()}:")
        )


def test_an_approximate_pass_is_asked_for_labeled_and_comes_back_with_the_address(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")
    visitor.rests()  # the list of the model before has the button as well
    page.get_by_role("button", name="Linears in bfloat16").click()
    expect(visitor.is_on("CastLinearsToBFloat16")).not_to_be_checked()
    visitor.rests()
    page.reload()
    page.wait_for_function("globalThis.__fxopt?.views?.length === 1")
    expect(visitor.is_on("CastLinearsToBFloat16")).not_to_be_checked()
    expect(page.get_by_text("The address asks for things")).to_have_count(0)
    if not supports(torch.bfloat16):
        visitor.sees("no instructions for bfloat16")
        return
    visitor.switch("CastLinearsToBFloat16")
    visitor.sees_badge("13 sites on")
    page.get_by_role("tab", name="Numerics").click()
    visitor.sees("Linears in bfloat16: approximate, so that a difference is meant")
    visitor.rests()
    page.reload()
    page.wait_for_function("globalThis.__fxopt?.views?.length === 1")
    visitor.sees_badge("13 sites on")
    expect(visitor.is_on("CastLinearsToBFloat16")).to_be_checked()
    expect(page.get_by_role("button", name="Linears in bfloat16", exact=True)).to_have_count(0)
