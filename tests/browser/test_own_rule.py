"""A rule written in the page: it lights up in the graph while it is typed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from fxopt.ui.rule_tab import LOST
from tests.browser.serving import ROOT, answering, free_port
from tests.browser.visitor import Visitor, switch_of

RULE = """@fxopt.rewrite
def mine(x: torch.Tensor, c: float | int):
    yield x / c
    fxopt.require(c == 2, f"the divisor is {c}")
    return x * 0.5
"""
pytestmark = pytest.mark.browser


def test_a_rule_is_written_lights_up_and_is_checked(page: Page, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--allow-code", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with answering(command, port, tmp_path / "log.txt", tmp_path, environment):
        visitor = Visitor(page, f"http://127.0.0.1:{port}?model=lesson_divisions")
        page.get_by_role("tab", name="Your rule").click()
        expect(page.get_by_text("remove_one").first).to_be_visible(timeout=180_000)  # torch is imported there
        picture(page, "begun")
        editor = page.frame_locator("iframe[title*=ace]").locator("#root textarea.ace_text-input")
        write(editor, "@fxopt.rewrite\ndef mine(x:")
        expect(page.get_by_text("this is not Python yet").first).to_be_visible(timeout=180_000)
        picture(page, "fault")
        completes(page, editor)
        write(editor, RULE)
        expect(page.get_by_text("1 match, 2 near misses").first).to_be_visible(timeout=180_000)
        picture(page, "found")
        check = page.get_by_role("button", name="Check the laws")
        check.click()
        expect(page.get_by_text("mine obeys").first).to_be_visible(timeout=180_000)
        picture(page, "checked")
        write(editor, RULE.replace("mine", "newest"))
        check.dispatch_event("click")  # before the editor sends the text
        expect(page.get_by_text("newest obeys").first).to_be_visible(timeout=180_000)
        put = page.get_by_role("button", name="Put into the list")
        expect(put).to_be_enabled(timeout=180_000)
        put.click()
        expect(page.get_by_text(LOST)).to_be_visible(timeout=60_000)
        switch = page.locator(switch_of("newest"))
        expect(switch).to_have_count(1, timeout=60_000)
        visitor.rests()
        page.reload()
        expect(page.get_by_text("has not been run. Read it first")).to_be_visible(timeout=120_000)
        expect(page.frame_locator("iframe[title*=ace]").locator(".ace_content")).to_contain_text("def newest")
        expect(switch).to_have_count(0)
        picture(page, "loaded anew")
        page.get_by_role("button", name="Put it into the list again").click()
        expect(switch).to_have_count(1, timeout=180_000)
        switch.locator("label").click()
        visitor.sees_badge("1 site on")
        picture(page, "in the list")
        page.get_by_role("button", name="Undo").click()
        visitor.sees_badge("restored, bit for bit")
        page.get_by_role("button", name="Undo").click()
        expect(switch).to_have_count(0, timeout=60_000)
        page.goto("about:blank")  # before its server ends


def completes(page: Page, editor: Locator) -> None:
    """Type names of which the editor has none in its text, and take their completions by key."""
    frame = page.frame_locator("iframe[title*=ace]")
    content, offered = frame.locator("#root .ace_content"), frame.locator(".ace_autocomplete .ace_line")
    write(editor, "# mine")
    for begun, name, written in (
        ("\n@fx", "fxopt.rewrite", "@fxopt.rewrite"),
        ("\nfxopt.req", "require", "fxopt.require"),
    ):
        page.keyboard.type(begun, delay=120)  # as a person types
        expect(offered.filter(has_text=name)).to_be_visible(timeout=60_000)
        picture(page, f"completes {name}")
        page.keyboard.press("Tab")
        expect(content).to_contain_text(written)


def write(editor: Locator, text: str) -> None:
    """Put a text in place of the one that is there, at once: the completion of brackets is for those who type."""
    editor.press("Control+a")
    editor.page.keyboard.insert_text(text)


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")
