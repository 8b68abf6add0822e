"""States of the page that are looked at and compared: each a name, and the way there from the page as it opens."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.browser.visitor import FOLD, Visitor, press

WINDOW = {"width": 1440, "height": 900}
README = "page"
"""The state of which the README has the picture."""
SETTLED_MS = 700
"""After which nothing moves any more: fonts and tables come last."""


def _on(visitor: Visitor) -> None:
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    visitor.page.mouse.move(700, 5)


def _view(name: str) -> Callable[[Visitor], None]:
    def see(visitor: Visitor) -> None:
        _on(visitor)
        visitor.page.get_by_role("radio", name=name).click()

    return see


def _tab(name: str) -> Callable[[Visitor], None]:
    def see(visitor: Visitor) -> None:
        _on(visitor)
        visitor.page.get_by_role("tab", name=name).click()

    return see


def _point(visitor: Visitor) -> None:
    visitor.page.locator(".st-key-pass-D-row").hover()
    visitor.sees("would remove 5 nodes")


def _node(visitor: Visitor) -> None:
    visitor.click_node("stem_norm")
    visitor.sees("What the passes say")


def _miss(visitor: Visitor) -> None:
    visitor.page.locator("[class*=st-key-miss-B-at-forked_norm] button").first.click()
    visitor.page.locator("[class*=st-key-current-miss-]").wait_for()


def _taken_over(visitor: Visitor) -> None:
    visitor.switch("FoldBatchNorm")
    visitor.sees_badge("5 sites on")
    visitor.page.mouse.move(700, 5)


def _outputs(visitor: Visitor) -> None:
    _tab("Numerics")(visitor)
    visitor.sees("The first node that differs")


def _measured(visitor: Visitor) -> None:
    _tab("Latency")(visitor)
    visitor.page.get_by_role("button", name="Measure").click()
    visitor.page.locator(".st-key-drawer h5").wait_for(timeout=120_000)


def _keys(visitor: Visitor) -> None:
    press(visitor, "?")
    visitor.sees("Words of this page")


def _large(visitor: Visitor) -> None:
    visitor.page.get_by_role("button", name="Large type").click()
    visitor.page.mouse.move(700, 5)


def _alone(visitor: Visitor) -> None:
    for panel in ("list of passes", "inspector"):
        visitor.page.get_by_role("separator", name=f"Width of the {panel}").click()


def _lesson(visitor: Visitor) -> None:
    visitor.page.get_by_role("button", name="Lessons").click()
    visitor.page.locator("[class*=st-key-lesson-] button").nth(1).click()
    visitor.page.locator(".st-key-lesson-line").wait_for()


def _recipe(visitor: Visitor) -> None:
    _on(visitor)
    visitor.page.get_by_role("button", name="Recipe").click()
    visitor.sees("Save this work")
    visitor.page.mouse.move(700, 5)


def _edited(visitor: Visitor) -> None:
    _transformer(visitor)
    page = visitor.page
    page.evaluate("__fxopt.views[0].select(__fxopt.views[0].scene.find('truediv'), 'now')")
    page.get_by_text("Edit by hand").click()
    page.get_by_role("textbox", name="args[1], other").fill("2.0")
    page.get_by_role("button", name="Apply").click()
    visitor.sees("Undo with Ctrl+Z")


def _transformer(visitor: Visitor) -> None:
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")


def _merged(visitor: Visitor) -> None:
    _transformer(visitor)
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    visitor.page.get_by_role("radio", name="Diff").click()
    visitor.page.get_by_role("tab", name="Parameters").click()


def _time_line(visitor: Visitor) -> None:
    _transformer(visitor)
    visitor.switch("MergeLinears")
    visitor.sees_badge("2 sites on")
    visitor.switch("ChangeTrueDivToMulByInverse")
    visitor.sees_badge("4 sites on")
    visitor.page.get_by_role("tab", name="Time line").click()
    visitor.page.get_by_role("button", name="Compare before and after act 1").click()
    visitor.sees("Act 1 alone")
    visitor.page.mouse.move(700, 5)


def _play(visitor: Visitor) -> None:
    _merged(visitor)
    visitor.page.get_by_role("button", name="The graph before").click()
    visitor.page.get_by_role("button", name="One site forward").click()


def _tour(visitor: Visitor) -> None:
    _keys(visitor)
    visitor.page.get_by_role("button", name="Take the tour of this page").click()
    visitor.sees("1 of 5")
    visitor.page.get_by_role("button", name="Next", exact=True).click()


def _edge(visitor: Visitor) -> None:
    middle = visitor.page.evaluate("__fxopt.views[0].edgePoints('stem_conv', 'stem_norm')[2]")
    visitor.page.mouse.click(middle["x"], middle["y"], button="right")


def _cost(visitor: Visitor) -> None:
    _tab("Cost")(visitor)
    visitor.sees("The most: ")


def _readme(visitor: Visitor) -> None:
    _view("Diff")(visitor)
    visitor.click_node("stem_conv")
    visitor.sees("What the passes say")
    visitor.page.mouse.move(700, 5)


def _architecture(title: str, subject: str) -> Callable[[Visitor], None]:
    def see(visitor: Visitor) -> None:
        visitor.pick(title)
        visitor.wait(f"view.subject === '{subject}'")
        visitor.page.mouse.move(700, 5)

    return see


def _bert_diff(visitor: Visitor) -> None:
    _architecture("BERT-base", "bert-base")(visitor)
    visitor.switch("MergeLinears")
    visitor.sees_badge("12 sites on")
    visitor.page.get_by_role("radio", name="Diff").click()
    visitor.page.mouse.move(700, 5)
    visitor.wait("view.scene.names.includes('query_key_value_merged')")


STATES: Mapping[str, Callable[[Visitor], None]] = {
    "open": lambda visitor: None,
    "preview": _point,
    "pass-on": _on,
    "taken-over": _taken_over,
    "original": _view("Original"),
    "side-by-side": _view("Side by side"),
    "diff": _view("Diff"),
    "node": _node,
    "near-miss": _miss,
    "parameters": _tab("Parameters"),
    "numerics": _outputs,
    "latency": _measured,
    "code": _tab("Code"),
    "nodes": _tab("Nodes"),
    "keys": _keys,
    "large-type": _large,
    "graph-alone": _alone,
    "recipe": _recipe,
    "edited": _edited,
    "merged": _merged,
    "time-line": _time_line,
    "play": _play,
    "tour": _tour,
    "edge-menu": _edge,
    "cost": _cost,
    "rule": _tab("Your rule"),
    "lesson": _lesson,
    "bert": _architecture("BERT-base", "bert-base"),
    "bert-diff": _bert_diff,
    "gpt2": _architecture("GPT-2", "gpt2"),
    README: _readme,
}

COMPARED = ("open", "pass-on", "diff", "near-miss", "parameters")
"""Those that the tests compare: each has panels that the others have not, and no figure of time in large type. The way
to another model is left out: which site is in view there, and which pass is open, depends on the moment of each act."""
