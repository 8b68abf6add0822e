"""Progress in a lesson whose text changes: equal tasks keep theirs."""

from __future__ import annotations

import pytest

from fxopt.lessons import Progress, Snapshot, lesson_of
from tests.lessons.small import TEXT


@pytest.fixture
def third() -> Progress:
    """A learner at the third step, who has passed the first, and skipped the second."""
    progress = Progress(lesson_of(TEXT))
    first = progress.now
    first.has_begun = first.is_done = first.is_right = True
    first.tries = 2
    progress.go(1)
    progress.skip()
    assert progress.at == 2
    return progress


def states(progress: Progress) -> list[str]:
    return [
        "passed" if progress.has_passed(i) else "skipped" if one.was_skipped else "to do"
        for i, one in enumerate(progress.steps)
    ]


def test_steps_that_an_edit_leaves_as_they_are_keep_their_progress(third: Progress) -> None:
    assert states(third) == ["passed", "skipped", "to do"]
    for old, new in (
        ("Compare both.", "Compare them."),
        ("---\n\n## Fold", "---\n\n\n\n## Fold"),
        ("minutes: 5", "minutes: 6"),
    ):
        assert old in TEXT
        other = third.carried_to(lesson_of(TEXT.replace(old, new)))
        assert (states(other), other.at, other.steps[0].tries) == (["passed", "skipped", "to do"], 2, 2)


def test_a_step_that_changed_begins_anew_and_the_learner_stays_at_theirs(third: Progress) -> None:
    other = third.carried_to(lesson_of(TEXT.replace("The graph has", "It has")))
    assert (states(other), other.at, other.steps[0].tries) == (["skipped", "skipped", "to do"], 2, 0)
    moved = third.carried_to(lesson_of(TEXT.replace("needs: {model: small}", "needs: {model: other}")))
    assert states(moved) == ["skipped", "skipped", "to do"], "the first step begins with another model"


def test_a_step_whose_words_alone_changed_keeps_its_progress_and_gets_the_figures_that_they_speak_of() -> None:
    before = Progress(lesson_of(TEXT))
    before.begin(Snapshot("small", figures={"nodes.before": 4}))
    words = TEXT.replace("The graph has {nodes.before} nodes.", "It has {nodes.before} nodes, {modules.now} modules.")
    for old, new in (("[look, point,", "[see, point,"), ("highlight: [pass:FoldBatchNorm, node:_1]\n", "")):
        assert old in words
        words = words.replace(old, new)
    after = before.carried_to(lesson_of(words))
    assert after.now.has_begun
    after.recall(Snapshot("small", figures={"nodes.before": 3, "modules.now": 2}))
    assert after.now.before == {"nodes.before": 4, "modules.now": 2}, "what was seen then stays"


def test_progress_follows_a_step_to_its_new_place(third: Progress) -> None:
    head, fold, count, compare = TEXT.split("## ")[:1] + TEXT.replace("### ", "@@@ ").split("## ")[1:]
    text = "## ".join([head, compare, fold, count]).replace("@@@ ", "### ")
    other = third.carried_to(lesson_of(text))
    assert ([step.id for step in other.lesson.steps], other.at) == (["compare", "fold-it", "count"], 0)
    assert states(other) == ["to do", "passed", "skipped"]
    shorter = third.carried_to(lesson_of("## ".join([head, fold]).replace("@@@ ", "### ")))
    assert (states(shorter), shorter.at) == (["passed"], 0)
    assert third.at == 2
