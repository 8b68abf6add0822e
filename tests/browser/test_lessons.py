"""A learner at the page: each lesson from its first step to its code, and the controls that lessons speak of."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from fxopt.lessons import Lesson, lesson_named, lessons
from fxopt.lessons.acts import Act
from fxopt.lessons.hand_in import read
from fxopt.lessons.lesson import Step
from fxopt.ui.lesson_places import PLACES
from tests.browser.test_own_rule import write
from tests.browser.test_passes_on_the_page import serious
from tests.browser.visitor import APP, FOLD, MOMENT_MS, TOUR_ENDED, Open, Visitor, settled

pytestmark = pytest.mark.browser

ANSWERS: dict[str, tuple[str | int, ...]] = {
    "nodes-and-modules": (1, 0, 2), "a-graph-is-no-chain": ("2", "1", "77"),
    "the-first-division": (0, 1), "the-second-division": (1, 0), "the-way-back-by-arithmetic": (1, 0),
    "the-way-back-in-fxopt": (1, 0),
    "the-bias-trap": (1, 0, 2), "the-formula-with-numbers": ("-0.341", "-0.375", "77"), "not-every-norm": ("2", "77"),
    "products-of-one-input": ("72", "48", "77"), "the-work": (1, 0, 2),
    "the-bias-as-a-column": (2, 0, 1),
    "back-to-the-last-bit": (1, 0), "sites-that-rest-on-others": (2, 0, 1),
    "norms-behind-convolutions": ("1", "5", "77"), "a-shared-module": (1, 0), "a-hook": (1, 0),
    "the-write": ("6", "77"),
    "a-change-of-nothing": (1, 0), "the-control": (1, 0),
    "two-that-improve": ("1", "2", "77"),
    "a-pattern-and-its-replacement": ("3", "2", "4"), "without-the-condition": (1, 0), "a-law-breaks": (1, 0),
    "the-condition-with-a-reason": (1, 0), "a-view-that-is-written-to": (1, 0),
}  # fmt: skip
"""By step the right answer, then the wrong ones: numbers of choices, or texts. `tests/lessons` proves them."""


WAIT_MS = 60_000
LINES_OF_TEXT, LINE_HEIGHT = 4, 30
"""So many are seen of the text of a step, before anything is scrolled; and their height in pixels."""


def sees(part: Locator) -> None:
    expect(part).to_be_visible(timeout=WAIT_MS)


class Learner:
    """Someone in a lesson."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor, self.page = visitor, visitor.page
        self.panel = self.page.get_by_test_id("stSidebar")

    def takes_large_type(self) -> None:
        self.page.get_by_role("button", name="Large type").click()
        self.page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '19px'")

    def opens(self, lesson: Lesson) -> None:
        if not self.page.locator(".st-key-close-lessons").count():
            self.page.get_by_role("button", name="Lessons").click()
        back = self.page.locator(".st-key-lesson-list button")
        sees(back.or_(self.panel.get_by_role("heading", name="Lessons", exact=True)))
        if back.count():
            back.click()
        self.panel.get_by_role("button", name=re.compile(rf"\d\. {re.escape(lesson.title)}$")).click()

    def walks(self, lesson: Lesson) -> None:
        """Walk it by its solutions, with each wrong answer before the right one."""
        for step in lesson.steps:
            heading = self.panel.get_by_role("heading", name=step.title, exact=True)
            expect(heading).to_be_in_viewport(timeout=WAIT_MS)
            if step.needs is not None or step is lesson.steps[0]:
                self.panel.get_by_role("button", name="Begin", exact=True).click()
                sees(self.panel.get_by_role("button", name="Begin it anew"))
            if step.highlight:
                sees(self.page.locator(".lesson-outline:visible").first)
            self.sees_what_is_asked(step)
            if step is lesson.steps[0]:
                self.asks_for_hints()
            if step.question is None:
                self.acts(step)
                sees(self.panel.get_by_text("Done.", exact=True))
            elif step.id in ANSWERS:
                self.answers(step, *ANSWERS[step.id])
            else:
                self.answers_by_the_machine(step)
            picture(self.page, f"{lesson.id} {step.id} right")
            if step is not lesson.steps[-1]:
                self.page.locator(".st-key-next-step button").click()

    def sees_what_is_asked(self, step: Step) -> None:
        """See, as a step begins and without scrolling, the first lines of its text, and what it asks for."""
        asked = self.panel.locator(".st-key-next-act" if step.question is None else ".st-key-question")
        parts = asked.locator("p:visible, label:has(input), input[type=text], button")
        expect(parts.last).to_be_visible(timeout=WAIT_MS)
        for part in parts.all():
            expect(part).to_be_in_viewport(ratio=1, timeout=WAIT_MS)
        picture(self.page, f"{step.title} begins")
        part = '[data-testid="stElementContainer"]'
        text, question = self.panel.locator(f"{part}:has(h3) + {part}").bounding_box(), asked.bounding_box()
        assert text is not None
        assert question is not None
        room = question["y"] - text["y"]
        assert room >= min(LINES_OF_TEXT * LINE_HEIGHT, text["height"]), f"{room} pixels for the text"

    def asks_for_hints(self) -> None:
        for number in range(1, 4):
            self.page.locator(".st-key-hint button").click()
            sees(self.panel.get_by_text(f"Hint {number}."))

    def answers(self, step: Step, right: str | int, *wrong: str | int) -> None:
        before = ""
        for i, answer in enumerate(wrong):
            self.gives(answer)
            if i == 0 and step.done is not None:
                self.panel.get_by_text("Your prediction").wait_for()
                picture(self.page, f"{step.id} asked")
                self.acts(step)
            before = self.hears(before)
            assert before, f"{answer} is right"
            assert "–" not in before, "a figure is unknown"
            expect(self.page.locator(".st-key-next-step")).to_have_count(0, timeout=WAIT_MS)
            picture(self.page, f"{step.id} wrong {i}")
        self.gives(right)
        assert not self.hears(before)

    def answers_by_the_machine(self, step: Step) -> None:
        """Answer a question about a measurement: the run decides which answer is right."""
        assert step.question is not None
        before = ""
        for i in range(len(step.question.choices)):
            self.gives(i)
            if i == 0:
                self.panel.get_by_text("Your prediction").wait_for()
                self.acts(step)
            before = self.hears(before)
            if not before:
                return
            expect(self.page.locator(".st-key-next-step")).to_have_count(0, timeout=WAIT_MS)
        raise AssertionError("no answer was right")

    def hears(self, before: str) -> str:
        """Wait for the judgement of an answer, and return its counter-example, another than `before`; "" if right."""
        agreed, told = (
            self.panel.get_by_text("The run agrees with you."),
            self.page.locator(".st-key-counter-example [data-testid=stMarkdownContainer]"),
        )
        deadline, last = time.monotonic() + 120, ""
        while time.monotonic() < deadline:
            if agreed.count():
                expect(self.page.locator(":is(.st-key-next-step, .st-key-lessons-again)")).to_be_in_viewport(
                    timeout=WAIT_MS
                )
                return ""
            text = "".join(told.all_inner_texts()).strip()
            if text not in ("", before) and text == last:
                expect(told).to_be_in_viewport(timeout=WAIT_MS)
                return text
            last = text
            self.page.wait_for_timeout(MOMENT_MS)
        raise AssertionError(f"no judgement comes; the last one was {before!r}")

    def gives(self, answer: str | int) -> None:
        if isinstance(answer, str):
            field = self.panel.get_by_role("textbox", name="Your number")
            field.fill(answer)
            field.press("Tab")
        else:
            self.panel.get_by_role("radio").nth(answer).press("Space")
        self.page.locator(".st-key-predict button").click()

    def acts(self, step: Step) -> None:
        for act in step.solution:
            self.does(act)

    def does(self, act: Act) -> None:
        """Do an act of a solution with the real control."""
        page, name = self.page, act.what.get("is", "")
        if act.name in ("turn_on", "turn_off"):
            self.switches(act.what["pass"], act.what["node"], act.name == "turn_on")
        elif act.name == "edit_off":
            page.get_by_role("switch", name="forked_relu").first.press("Space")
        elif act.name == "select":
            self.selects(name)
        elif act.name == "tab":
            self.opens_tab(name)
        elif act.name == "compare":
            self.opens_tab("Numerics")  # which compares by itself
        elif act.name == "measure":
            self.opens_tab("Latency")
            button = page.locator(".st-key-measure button:enabled")
            expect(button).to_have_count(1, timeout=WAIT_MS)
            button.click()
        elif act.name == "reverse_all":
            page.get_by_role("button", name="Reverse all").click()
        elif act.name == "write":
            editor = page.frame_locator("iframe[title*=ace]").locator("#root textarea.ace_text-input")
            write(editor, name)
        else:
            assert act.name == "check_rule", act.name
            page.get_by_role("button", name="Check the laws").click()

    def switches(self, name: str, node: str | None, on: bool) -> None:
        page = self.page
        if node is None:
            switch = self.visitor.is_on(name)
            if on and switch.is_checked():  # with some sites: off, and then on with all
                self.visitor.switch(name)
                expect(switch).not_to_be_checked(timeout=WAIT_MS)
            self.visitor.switch(name)
            if name == "MergeLinears" and not on:  # others rest on it, and the page asks
                page.get_by_role("button", name="Turn off all the same").click()
            expect(switch).to_be_checked(checked=on, timeout=WAIT_MS)
            return
        site = page.locator(f'[class~="st-key-on-{name}-at-{node}"]').get_by_role("checkbox")
        row = page.locator(f".st-key-icon-sites-of-{name} button").first
        if not site.count() and row.get_attribute("aria-expanded") == "false":
            row.click()
        copies = page.locator(f'[class*="st-key-copies-of-{name}-at-"]')
        sees(site.or_(copies.first).first)
        for i in range(copies.count()):
            if site.count():
                break
            copies.nth(i).locator("summary").click()
            sees(copies.nth(i).get_by_role("checkbox").first)
        site.press("Space")

    def selects(self, name: str) -> None:
        self.visitor.wait("true")
        field = self.page.get_by_label("Find nodes by name")
        field.fill(f"^{name}$")
        self.page.wait_for_function(r"/^\d+ found$/.test(__fxopt.views[0].chrome.found.textContent)")
        field.press("Enter")

    def opens_tab(self, name: str) -> None:
        tab = self.page.get_by_role("tab", name=name, exact=True)
        if tab.get_attribute("aria-selected") != "true":
            tab.click()


CIRCLES = """() => {
  const paint = document.createElement("canvas").getContext("2d");
  const light = (...colors) => {
    for (const color of colors) { paint.fillStyle = color; paint.fillRect(0, 0, 1, 1); }
    const parts = [...paint.getImageData(0, 0, 1, 1).data.slice(0, 3)].map((one) => one / 255);
    const [r, g, b] = parts.map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const panel = document.querySelector("[data-testid=stSidebar]");
  const ground = getComputedStyle(panel).backgroundColor;
  return [...panel.querySelectorAll("[data-testid=stRadioOption] > div > div:first-child")].map((circle) => {
    const [a, b] = [light(ground), light(ground, getComputedStyle(circle).borderTopColor)];
    return Math.max(a, b) / Math.min(a, b);
  });
}"""
"""The contrast of the circle of each answer with the panel (WCAG 1.4.11 asks for 3)."""

BROKEN = """() => {
  const content = document.querySelector("[data-testid=stSidebarUserContent]");
  const codes = [...content.querySelectorAll(":not(pre) > code")].filter((one) => one.textContent.length <= 12);
  const broken = new Set(codes.length ? [] : ["there is no code"]);
  for (let width = 200; width <= 300; width += 2) {
    content.style.width = `${width}px`;
    for (const one of codes) {
      const text = document.createRange();
      text.selectNodeContents(one);
      if (new Set([...text.getClientRects()].map((box) => box.top)).size > 1) broken.add(one.textContent);
    }
  }
  content.style.width = "";
  return [...broken];
}"""
"""The pieces of short code in the sentences of the panel that stand in two lines, at some width of the panel."""


def test_the_panel_has_no_serious_fault_and_a_reload_comes_back_to_the_step_but_no_sent_link_does(
    page: Page, with_code: str, browser: Browser
) -> None:
    learner, lesson = Learner(Visitor(page, with_code)), lesson_named("division")
    page.get_by_role("button", name="Lessons").click()
    sees(learner.panel.get_by_role("heading", name="Lessons", exact=True))
    assert serious(page) == []
    learner.opens(lesson)
    learner.panel.get_by_role("button", name="Begin", exact=True).click()
    sees(learner.panel.get_by_role("button", name="Begin it anew"))
    step = lesson.steps[0]
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.wait_for_function(f"({CIRCLES})().every((contrast) => contrast >= 3)")
    learner.gives(1)
    learner.panel.get_by_text("Your prediction").wait_for()
    learner.acts(step)
    assert page.evaluate(BROKEN) == []
    told = learner.hears("")
    assert "identical bits" in told
    expect(page.locator(".lesson-status")).to_have_text(told.strip())
    assert serious(page) == []
    learner.gives(0)
    assert not learner.hears(told)
    page.wait_for_url(re.compile("lesson=division_0_p2"))
    page.reload()
    sees(learner.panel.get_by_text("The run agrees with you."))
    expect(learner.panel.get_by_role("radio").nth(0)).to_be_checked()
    learner.visitor.sees_badge("1 site on")
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    context.add_init_script(TOUR_ENDED)
    try:
        other = Learner(Visitor(context.new_page(), page.url))
        other.visitor.sees_badge("1 site on")
        sees(other.panel.get_by_role("button", name="Begin", exact=True))
        assert other.panel.get_by_text("The run agrees with you.").count() == 0
    finally:
        context.close()
    page.locator(".st-key-close-lessons button").first.click()
    expect(page.locator(".lesson-outline")).to_have_count(0, timeout=WAIT_MS)
    page.wait_for_url(re.compile(r"lesson=\.division_0_p2"))
    page.reload()
    page.get_by_role("button", name="Lessons").click()
    sees(learner.panel.get_by_text("The run agrees with you."))


@pytest.fixture
def learner(page: Page, with_code: str) -> Learner:
    return Learner(Visitor(page, with_code))


WALKED = [lesson.id for lesson in lessons()]
"""Lessons by their id; `tests/lessons` and `tests/ui` walk the others, without a browser."""


@pytest.mark.parametrize("name", WALKED)
def test_a_lesson_is_walked_with_each_wrong_answer_first_and_ends_with_its_code(name: str, learner: Learner) -> None:
    lesson = lesson_named(name)
    # Large type on a small window, where questions and judgements have their place below the edge of the panel.
    learner.page.set_viewport_size({"width": 1280, "height": 720})
    learner.takes_large_type()
    learner.opens(lesson)
    learner.walks(lesson)
    expect(learner.page.locator(".lesson-outline")).to_have_count(0, timeout=WAIT_MS)
    code = learner.panel.get_by_test_id("stCode").last
    found = read(code.inner_text(), [lesson.id])
    assert (found.passed, found.steps) == (len(lesson.steps), len(lesson.steps))
    known = [ANSWERS[step.id] for step in lesson.steps if step.id in ANSWERS]
    assert found.tries >= sum(map(len, known))


class Keys:
    """The keyboard alone, in large type and the dark theme."""

    def __init__(self, learner: Learner) -> None:
        self.page, self.panel = learner.page, learner.panel

    def to(self, control: Locator) -> None:
        """Go to a control by the Tab key, from wherever the focus is."""
        sees(control)
        for _ in range(300):
            if control.evaluate("(one) => one === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"the Tab key does not lead to {control}")

    def presses(self, name: str) -> None:
        self.to(self.panel.get_by_role("button", name=name, exact=True))
        self.page.keyboard.press("Enter")

    def answers(self, number: int) -> None:
        """Choose an answer: the Tab key leads to the one that is chosen, or to the first or last, and arrows on."""
        radios = self.panel.get_by_role("radio")
        chosen = radios.and_(self.page.locator(":checked"))
        self.to(chosen if chosen.count() else radios.first)
        self.page.keyboard.press("Space")
        while not radios.nth(number).is_checked():
            self.page.keyboard.press("ArrowDown")
        self.presses("Answer again" if chosen.count() and self.judged.count() else "Predict")

    @property
    def judged(self) -> Locator:
        return self.page.locator(".st-key-counter-example")

    def selects(self, name: str) -> None:
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("/")
        field = self.page.get_by_label("Find nodes by name")
        expect(field).to_be_focused()
        self.page.keyboard.type(f"^{name}$")
        self.page.wait_for_function(r"/^\d+ found$/.test(__fxopt.views[0].chrome.found.textContent)")
        self.page.keyboard.press("Enter")

    def goes_to_the_lesson(self) -> None:
        self.to(self.page.get_by_role("button", name="Go to the lesson"))
        self.page.keyboard.press("Enter")
        expect(self.panel.locator("h3").first).to_be_focused()

    def goes_on(self) -> None:
        self.goes_to_the_lesson()
        self.presses("Next")


def test_a_lesson_is_walked_by_keys_alone_in_large_type_and_the_dark_theme(learner: Learner) -> None:
    page, panel, lesson, keys = learner.page, learner.panel, lesson_named("what-a-graph-is"), Keys(learner)
    page.emulate_media(color_scheme="dark")
    keys.to(page.get_by_role("button", name="Large type"))
    page.keyboard.press("Enter")
    page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '19px'")
    keys.to(page.get_by_role("button", name="Lessons", exact=True))
    page.keyboard.press("Enter")
    sees(panel.get_by_role("heading", name="Lessons", exact=True))
    keys.goes_to_the_lesson()
    keys.presses(f"1. {lesson.title}")
    keys.presses("Begin")
    sees(panel.get_by_role("button", name="Begin it anew"))
    learner.visitor.wait("true")
    keys.presses("Hint 1 of 3")
    sees(panel.get_by_text("Hint 1."))
    assert serious(page) == []
    keys.selects("stem_conv")
    sees(panel.get_by_text("Done.", exact=True))
    keys.goes_on()
    keys.answers(0)
    sees(panel.get_by_text("Your prediction"))
    keys.selects("pool_1")
    told = learner.hears("")
    expect(page.locator(".lesson-status")).to_have_text(told)
    assert serious(page) == []
    picture(page, "keys counter-example")
    keys.goes_to_the_lesson()
    keys.answers(1)
    assert not learner.hears(told)
    keys.goes_on()
    keys.to(panel.get_by_role("textbox", name="Your number"))
    page.keyboard.type("2")
    keys.presses("Predict")
    sees(panel.get_by_text("Your prediction"))
    keys.selects("stem_relu")
    assert not learner.hears("")
    keys.goes_on()
    keys.presses("Begin")
    sees(panel.get_by_role("button", name="Begin it anew"))
    keys.selects("block2_attention_norm")
    sees(panel.get_by_text("That was the lesson."))
    assert serious(page) == []
    picture(page, "keys end")


def test_every_control_that_a_lesson_may_name_is_on_the_page(visit: Open) -> None:
    visitor = visit()
    page = visitor.page
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("tab", name="Latency").click()
    page.locator(PLACES["measure"]).wait_for()
    for name, place in PLACES.items():
        if name not in ("compare", "edits", "rule", "check rule"):  # of large models, of a node, and of a rule
            expect(page.locator(place).first, name).to_be_attached()
    visitor.click_node("stem_conv")
    page.locator(PLACES["edits"]).wait_for()


def picture(page: Page, name: str) -> None:
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


IN_THE_WAY = """() => {
  const wide = (one) => one.scrollWidth > one.clientWidth + 1;
  const all = (place) => [...document.querySelectorAll(place)];
  const parts = [".st-key-graph-bar", ".summary", ".st-key-bar", ".st-key-history", ".st-key-inspected", ".pass-name"];
  const cut = parts.filter((part) => all(part).some(wide));
  const boxes = all(".st-key-bar > *, .st-key-history > *").map((one) => one.getBoundingClientRect());
  const seen = boxes.filter((box) => box.width > 1).sort((a, b) => a.left - b.left);
  const over = seen.slice(1).filter((box, i) => box.left < seen[i].right - 1);
  return [...cut, ...over.map((box) => `overlap at ${Math.round(box.left)}`)];
}"""
"""The parts of the page that are wider than their place, and the parts of the bar that lie on each other."""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 720), (1440, 900), (1920, 1080)])
def test_a_lesson_cuts_no_control_also_in_large_type(
    page: Page, serve: Callable[..., str], size: tuple[int, int], theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    visitor = Visitor(page, serve(APP))
    visitor.pick("Digits: a small transformer")
    visitor.wait("view.subject === 'digits_transformer'")
    page.get_by_role("button", name="Lessons").click()
    visitor.sees("Each one leads you")
    settled(page.get_by_test_id("stSidebar"))  # it slides in
    assert page.evaluate(IN_THE_WAY) == []
    page.get_by_role("button", name="Large type").click()
    page.wait_for_function("getComputedStyle(document.documentElement).fontSize === '19px'")
    settled(page.locator(".st-key-graph-bar"))
    page.mouse.move(size[0] / 2, size[1] / 2)
    page.wait_for_function(f"({IN_THE_WAY})().length === 0")
