"""The wait of a learner: `python -m tests.benchmarks.bench_lessons`. Run by hand; needs /usr/bin/chromium.

Walks the lessons in a real Chromium by their solutions, and prints for each step the time from the learner's last act
to its judgement in the panel: of a switch, a comparison, a measurement, or of an answer where the step asks for no act.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from fxopt.lessons import Lesson, lessons
from fxopt.lessons.acts import Act
from fxopt.lessons.lesson import Step
from tests.benchmarks.bench_page import CHROMIUM
from tests.benchmarks.figures import Figure, told
from tests.browser.serving import ROOT, answering, free_port
from tests.browser.test_lessons import ANSWERS, WAIT_MS, Learner
from tests.browser.visitor import TOUR_ENDED, Visitor

MOST_MS = 2000
READING_MS = 4000
"""The learner reads a step before acting; meanwhile the process for a rule of one's own begins."""
JUDGED = ".st-key-next-step:visible, .st-key-lessons-again:visible, .st-key-counter-example:visible"


class TimedLearner(Learner):
    """A learner with a watch."""

    def __init__(self, visitor: Visitor) -> None:
        super().__init__(visitor)
        self.begun = 0.0
        """The moment of the last act."""

    def does(self, act: Act) -> None:
        if act.name == "measure":
            self.opens_tab("Latency")
            self.page.locator(".st-key-measure button:enabled").wait_for(timeout=WAIT_MS)
        self.begun = time.perf_counter()
        super().does(act)

    def timed(self, lesson: Lesson) -> list[tuple[Step, float]]:
        """Walk a lesson with right answers, and return the milliseconds of each step."""
        found = []
        for step in lesson.steps:
            self.panel.get_by_role("heading", name=step.title, exact=True).wait_for(timeout=WAIT_MS)
            if step.needs is not None or step is lesson.steps[0]:
                self.panel.get_by_role("button", name="Begin", exact=True).click()
                self.panel.get_by_role("button", name="Begin it anew").wait_for(timeout=WAIT_MS)
            found.append((step, self._judged(step)))
            if step is not lesson.steps[-1]:
                self.page.locator(".st-key-next-step button").click()
        return found

    def _judged(self, step: Step) -> float:
        self.page.wait_for_timeout(READING_MS)
        answers = iter(ANSWERS.get(step.id, range(9))) if step.question is not None else iter(())
        if step.question is not None:
            self.begun = time.perf_counter()
            self.gives(next(answers))
        if step.done is not None:
            if step.question is not None:
                self.panel.get_by_text("Your prediction").wait_for()
            self.acts(step)
        self.page.locator(JUDGED).first.wait_for(timeout=WAIT_MS)
        milliseconds = (time.perf_counter() - self.begun) * 1000
        before = ""
        while self.page.locator(".st-key-counter-example").count():  # a measurement may judge otherwise
            before = self.hears(before)
            if not before:
                break
            self.gives(next(answers))
        return milliseconds


def bench(browser: Browser, url: str, walked: Sequence[Lesson], repeats: int) -> list[Figure]:
    samples: dict[str, list[float]] = {}
    for _ in range(repeats):
        context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        context.add_init_script(TOUR_ENDED)
        learner = TimedLearner(Visitor(context.new_page(), url))
        for lesson in walked:
            learner.opens(lesson)
            for step, milliseconds in learner.timed(lesson):
                samples.setdefault(f"{lesson.id}: {step.id}", []).append(milliseconds)
        context.close()
    return [Figure(name, found, most=MOST_MS) for name, found in samples.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--lesson", help="one lesson alone, by its id")
    arguments = parser.parse_args()
    walked = [one for one in lessons() if arguments.lesson in (None, one.id)]
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--allow-code", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    with (
        tempfile.TemporaryDirectory() as folder,
        answering(command, port, Path(folder) / "log.txt", Path(folder), environment),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        figures = bench(browser, f"http://127.0.0.1:{port}", walked, arguments.repeats)
        browser.close()
    print(told(figures))


if __name__ == "__main__":
    main()
