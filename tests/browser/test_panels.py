"""A visitor's act draws the panels again that it changes, and no wait holds the page up."""

from __future__ import annotations

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.serving import served
from tests.browser.visitor import APP, FOLD, Visitor, switch_of

pytestmark = pytest.mark.browser


def test_a_click_in_the_graph_draws_the_graph_and_the_inspector_alone(page: Page, serve: Callable[..., str]) -> None:
    frames: list[bytes] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(bytes(frame))))
    visitor = Visitor(page, serve(APP))

    def drawn_by(act: Callable[[], None], seen: Callable[[], None]) -> set[bytes]:
        visitor.rests()
        frames.clear()
        act()
        seen()
        visitor.rests()
        return {name for name in panels if any(name in frame for frame in frames)}

    others = {b"-pass list", b"-history", b"-every module", b"-graph bar"}
    panels = {b"-graph", b"-asked pass", *others}
    opened = drawn_by(
        lambda: visitor.pick("Digits: a small transformer"),
        lambda: visitor.wait("view.subject === 'digits_transformer'"),
    )
    assert others < opened
    inspected = page.locator(".st-key-inspected code").first
    clicked = drawn_by(lambda: visitor.click_node("patches"), lambda: expect(inspected).to_have_text("patches"))
    assert clicked == panels - others


def test_what_is_done_at_once_is_seen_everywhere(page: Page, serve: Callable[..., str]) -> None:
    """The browser sends a click in the graph, a switch and a key together; only one of them decides the drawing."""
    visitor = Visitor(page, serve(APP))
    for on in (True, False, True):
        name = "stem_relu" if on else "stem_conv"
        page.wait_for_function(  # a row that is looked at from now on, or no more, is for a moment not there
            """([name, selector]) => {
                const view = __fxopt.views[0];
                const row = document.querySelector(`${selector} label`);
                if (!row) return false;
                view.select(view.scene.find(name), "now");
                row.querySelector("input").click();
                document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
                return true;
            }""",
            arg=[name, switch_of(FOLD)],
        )
        visitor.sees_badge("4 sites on" if on else "restored, bit for bit")
        expect(page.locator(".st-key-inspected code").first).to_have_text(name)
        expect(page.locator("[class*=st-key-pass-][class*=looked-at]")).to_have_count(1)
        visitor.wait(f"view.selectedName === '{name}'")


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file without which the layout engine waits before it begins."""
    gate, engine = tmp_path / "gate", tmp_path / "engine"
    gate.touch()
    program = Path(sys.executable).parent / "graphviz-pure"
    engine.write_text(f'#!/bin/sh\nwhile [ ! -e {gate} ]; do sleep 0.1; done\nexec {program} "$@"\n')
    engine.chmod(engine.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("FXOPT_DOT", str(engine))
    return gate


def test_the_page_can_be_used_while_a_layout_is_being_made(page: Page, tmp_path: Path, gate: Path) -> None:
    with served(APP, log=tmp_path / "log.txt") as url:
        visitor = Visitor(page, url)
        first = page.evaluate("__fxopt.views[0].layoutId")
        gate.unlink()
        page.get_by_role("button", name="Fold", exact=True).click()
        visitor.sees("Laying out")
        visitor.click_node("stem_relu")
        expect(page.locator(".st-key-inspected code").first).to_have_text("stem_relu", timeout=15_000)
        assert page.evaluate("__fxopt.views[0].layoutId") == first, "it is still being made"
        # Another one is asked for: nobody waits for the folded one any more.
        page.get_by_role("button", name="Unfold", exact=True).click()
        gate.touch()
        expect(page.get_by_text("Laying out")).to_have_count(0, timeout=60_000)
        visitor.wait("view.scene.groups.size === 0")
        expect(page.locator(".st-key-inspected code").first).to_have_text("stem_relu")
        page.goto("about:blank")  # before the server ends


def test_quick_acts_leave_nothing_of_a_panel_that_became_shorter(page: Page, serve: Callable[..., str]) -> None:
    """The second run begins at the end of the first, before the browser hears of it, and draws the drawer alone."""
    visitor = Visitor(page, serve(Path(__file__).with_name("held_script.py")))
    later = page.get_by_role("button", name="Run later: ")
    for name, tab in (("FoldBatchNorm", "Code"), (FOLD, "Time line"), ("FoldBatchNorm", "Nodes")):
        visitor.rests()
        page.evaluate(
            """([selector, tab]) => {
                document.querySelector(`${selector} label input`).click();  // the row of another pass becomes shorter
                const tabs = [...document.querySelectorAll(".st-key-drawer [role=tab]")];
                setTimeout(() => tabs.find((one) => one.textContent.trim() === tab).click(), 100);
            }""",
            arg=[switch_of(name), tab],
        )
        expect(page.locator(f"[class*=looked-at] {switch_of(name)}")).to_be_visible()
        expect(page.get_by_role("tabpanel", name=tab).locator("[data-testid=stVerticalBlock] *").first).to_be_visible()
        visitor.rests()
        expect(later).to_have_count(1)
