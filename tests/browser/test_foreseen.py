"""The picture that an act leads back to is painted before Python has answered; a picture never seen is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, WebSocketRoute

from tests.browser.visitor import APP, FOLD, Visitor

pytestmark = pytest.mark.browser


class Line:
    """The line from the server to the page, which can be held."""

    def __init__(self, page: Page) -> None:
        self.held: list[str | bytes] | None = None
        page.route_web_socket("**/_stcore/stream", self._connect)

    def _connect(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def hear(message: str | bytes) -> None:
            if self.held is None:
                route.send(message)
            else:
                self.held.append(message)

        server.on_message(hear)
        self.route = route

    def hold(self) -> None:
        self.held = []

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for message in held:
            self.route.send(message)


@pytest.fixture
def line(page: Page) -> Line:
    return Line(page)


@pytest.fixture
def visitor(page: Page, line: Line, serve: Callable[..., str]) -> Visitor:
    """Someone who has switched a pass on and off, and is there when nothing runs any more."""
    visitor = Visitor(page, serve(APP))
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.switch(FOLD)
    visitor.sees_badge("restored, bit for bit")
    rest(visitor)
    return visitor


def rest(visitor: Visitor) -> None:
    visitor.rests()
    visitor.page.wait_for_timeout(1200)


def look_at_both(visitor: Visitor) -> None:
    """Both graphs side by side, each seen with the pass on and off."""
    visitor.page.get_by_role("radio", name="Side by side").click()
    visitor.page.wait_for_function("__fxopt.views.length === 2 && __fxopt.views.every((view) => view.ready)")
    for badge in ("4 sites on", "restored, bit for bit"):
        visitor.switch(FOLD)
        visitor.sees_badge(badge)
    rest(visitor)


def never_ahead(visitor: Visitor) -> None:
    """No graph was painted ahead of the server by the last acts."""
    for _ in range(5):
        assert not visitor.page.evaluate("__fxopt.views.some((view) => view.word.isAhead)")
        visitor.page.wait_for_timeout(60)


def press(visitor: Visitor, key: str) -> None:
    visitor.page.evaluate("document.activeElement?.blur()")
    visitor.page.keyboard.press(key)


def undo_by_button(visitor: Visitor) -> None:
    visitor.page.get_by_role("button", name="Undo").click()


@pytest.mark.parametrize(
    "act",
    [
        lambda visitor: visitor.switch(FOLD),
        lambda visitor: press(visitor, "Enter"),
        lambda visitor: press(visitor, "Control+z"),
        undo_by_button,
    ],
    ids=["switch", "Enter", "Ctrl+Z", "Undo"],
)
def test_an_act_is_painted_before_the_server_has_answered(
    visitor: Visitor, line: Line, act: Callable[[Visitor], None]
) -> None:
    line.hold()
    act(visitor)
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    visitor.sees_badge("restored, bit for bit")
    line.let_go()
    visitor.sees_badge("4 sites on")
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    visitor.wait("!view.word.isAhead")
    visitor.switch(FOLD)
    visitor.wait_for_marks("stem_conv", "matched")
    visitor.sees_badge("restored, bit for bit")


def test_both_graphs_side_by_side_are_painted_ahead(visitor: Visitor, line: Line) -> None:
    look_at_both(visitor)
    line.hold()
    visitor.switch(FOLD)
    kinds = "(view.marks.get(view.scene.find('stem_norm')) ?? []).map((mark) => mark[0]).join()"
    visitor.page.wait_for_function(
        f"""(([before, now]) => before === "removed" && now === "")(["graph before", "graph"].map((key) => {{
            const view = __fxopt.views.find((one) => one.key === key);
            return {kinds};
        }}))"""
    )
    line.let_go()
    visitor.sees_badge("4 sites on")


def test_what_was_never_seen_waits_for_the_server(visitor: Visitor, line: Line) -> None:
    line.hold()
    visitor.page.locator("[class*=st-key-site-B-at-] label").first.click()  # alone, it leads somewhere else
    never_ahead(visitor)
    visitor.wait("![...view.marks.values()].flat().some(([kind]) => kind === 'applied')")
    line.let_go()
    visitor.sees_badge("1 site on")
    visitor.wait("[...view.marks.values()].flat().some(([kind]) => kind === 'applied')")


def test_a_second_act_waits_for_the_answer_to_the_first(visitor: Visitor, line: Line) -> None:
    line.hold()
    visitor.switch(FOLD)
    visitor.wait("view.word.isAhead")
    visitor.page.keyboard.press("Control+z")
    visitor.page.wait_for_timeout(300)
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    line.let_go()
    visitor.sees_badge("restored, bit for bit")
    visitor.wait_for_marks("stem_conv", "matched")
    visitor.wait("!view.word.isAhead")


def test_what_the_server_does_not_confirm_is_taken_back(visitor: Visitor, line: Line) -> None:
    line.hold()
    visitor.switch(FOLD)
    visitor.wait_for_marks("stem_conv", "applied", "changed")
    visitor.wait_for_marks("stem_conv", "matched")
    visitor.wait("!view.word.isAhead")
    line.let_go()
    visitor.sees_badge("4 sites on")
    visitor.wait_for_marks("stem_conv", "applied", "changed")


def test_a_switch_waits_for_the_answer_to_a_selection(visitor: Visitor, line: Line) -> None:
    line.hold()
    visitor.click_node("stem_relu")
    visitor.wait("view.selectedName === 'stem_relu'")
    visitor.switch(FOLD)
    never_ahead(visitor)
    line.let_go()
    visitor.sees_badge("4 sites on")
    visitor.wait("view.selectedName === 'stem_relu'")


def test_a_switch_waits_for_the_answer_to_what_was_chosen_in_a_list(visitor: Visitor, line: Line) -> None:
    """An option is neither a button nor a switch, but changes the picture as well."""
    line.hold()
    visitor.page.get_by_role("combobox", name="Cost").click()
    visitor.page.get_by_role("option", name="Cost: parameters").click()
    visitor.page.wait_for_timeout(400)
    visitor.switch(FOLD)
    never_ahead(visitor)
    line.let_go()
    visitor.sees_badge("4 sites on")
    visitor.wait("Object.keys(view.bars).length > 0")


def test_what_takes_long_is_not_taken_back_while_it_runs(visitor: Visitor) -> None:
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    rest(visitor)
    visitor.page.evaluate("""() => {
        const { word } = __fxopt.views[0];
        globalThis.taken = 0;
        const app = document.createElement("i");  // says that the page runs, as a long run would
        app.dataset.testScriptState = "running";
        word.foresee("on-FuseBatchNorm2dInConv2d");
        document.body.append(app);
        clearTimeout(word.timer);
        word.takeBack();
        globalThis.taken = [word.isAhead];
        app.remove();
        clearTimeout(word.timer);
        word.takeBack();
        globalThis.taken.push(word.isAhead);
    }""")
    assert visitor.page.evaluate("taken") == [True, False]
    visitor.wait_for_marks("stem_conv", "applied", "changed")


def test_acts_that_come_back_to_the_same_are_answered(visitor: Visitor) -> None:
    """The server may obey both presses before it draws: all is then as before, but the browser is ahead."""
    visitor.page.evaluate("document.activeElement?.blur()")
    ahead = visitor.page.evaluate("""() => {
        const enter = () => new KeyboardEvent("keydown", { key: "Enter", bubbles: true });
        document.body.dispatchEvent(enter());
        const { isAhead } = __fxopt.views[0].word;
        document.body.dispatchEvent(enter());
        return isAhead;
    }""")
    assert ahead
    visitor.page.wait_for_function("__fxopt.keys.acts.waiting.length === 0")
    visitor.page.wait_for_function("!__fxopt.views[0].word.isAhead", timeout=2_000)
    visitor.wait_for_marks("stem_conv", "matched")
    visitor.sees_badge("restored, bit for bit")


def test_an_act_in_one_graph_holds_back_the_other(visitor: Visitor, line: Line) -> None:
    look_at_both(visitor)
    line.hold()
    visitor.page.evaluate("(view => view.select(view.scene.find('stem_conv'), 'now'))(__fxopt.views[1])")
    visitor.switch(FOLD)
    never_ahead(visitor)
    line.let_go()
    visitor.sees_badge("4 sites on")
