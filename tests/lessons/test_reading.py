"""A lesson file: its parts come back as they were written, and each mistake is an error with line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxopt.lessons import LessonError, lesson_of, load_lesson
from fxopt.lessons.figures import filled
from tests.lessons.small import TEXT

PICTURED = TEXT.replace("highlight: [pass", "picture: {file: wave.svg, shows: A wave}\nhighlight: [pass", 1)


def test_a_step_may_have_a_picture_in_the_folder_of_its_lesson(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in (folder / "wave.svg", folder / "wave.py", tmp_path / "wave.svg"):
        file.write_text("<svg/>")
    lesson = folder / "lesson.md"
    lesson.write_text(PICTURED)
    picture = load_lesson(lesson).steps[0].picture
    assert picture is not None
    assert (picture.file, picture.shows) == ((folder / "wave.svg").resolve(), "A wave")
    for name, told in (
        ("../wave.svg", "in the folder of the lesson"), (str(tmp_path / "wave.svg"), "in the folder of the lesson"),
        ("wave.py", "no picture that the page can show"), ("sea.svg", "cannot be read"),
    ):  # fmt: skip
        lesson.write_text(PICTURED.replace("wave.svg", name))
        with pytest.raises(LessonError, match=rf"line 14: .*{told}"):
            load_lesson(lesson)
    (folder / "wave.svg").write_bytes(bytes(2**20 + 1))
    lesson.write_text(PICTURED)
    with pytest.raises(LessonError, match="1,048,577 bytes"):
        load_lesson(lesson)
    with pytest.raises(LessonError, match="pictures lie beside the file"):
        lesson_of(PICTURED)


def test_a_lesson_has_the_steps_of_its_file_in_order() -> None:
    lesson = lesson_of(TEXT)
    assert (lesson.id, lesson.title, lesson.minutes, lesson.after) == ("small", "A small lesson", 5, ("another",))
    assert [step.id for step in lesson.steps] == ["fold-it", "count", "compare"]
    fold, count, _ = lesson.steps
    assert fold.text == "The graph has {nodes.before} nodes."
    assert fold.explanation == "It lost {parameters.delta} parameters."
    assert fold.question is not None
    assert [choice.text for choice in fold.question.choices] == ["as many", "one less"]
    assert [one.in_words for one in fold.highlight] == ["the pass FoldBatchNorm", "the node _1"]
    assert count.done is None
    assert count.question is not None
    assert count.question.is_near(96, 100)
    assert not count.question.is_near(94, 100)
    assert set(lesson.figures) == {
        "nodes.before", "nodes.now", "nodes.delta", "parameters.delta", "parameters.before", "parameters.now",
    }  # fmt: skip


WRONG = {
    "no header": (TEXT, TEXT.removeprefix("---\n"), 1, "begins with a header"),
    "header lacks id": ("id: small\n", "", 2, "'id' is missing"),
    "unknown in header": ("minutes: 5", "minuts: 5", 4, "did you mean 'minutes'?"),
    "minutes": ("minutes: 5", "minutes: few", 4, "has to be a whole number"),
    "id with spaces": ("id: small", "id: A Small One", 2, "as a-small-one"),
    "count of 5,000 digits": ("minutes: 5", f"minutes: {'5' * 5000}", 4, "5,000 digits"),
    "infinite bound": ("{of: nodes.delta, exactly: 0}", "{of: nodes.delta, exactly: 1e999}", 19, "not finite"),
    "bound that is no number": ("{of: nodes.delta, exactly: 0}", "{of: nodes.delta, exactly: nan}", 19, "not finite"),
    "a tag": ("minutes: 5", "minutes: !!int 5", 4, "no tags"),
    "date that is none": ("{compare: true}]", "{edit: {edit: Delete, arguments: {node: 2026-13-45}}}]", 55, "a date"),
    "argument of 5,000 digits": ("{compare: true}]", f"{{edit: {{edit: Delete, arguments: {{node: {'5' * 5000}}}}}}}]",
                                 55, "a number or a date"),
    "tag in an argument": ("{compare: true}]", "{edit: {edit: Delete, arguments: {node: !!int abc}}}]", 55, "no tags"),
    "no YAML": ("minutes: 5", "minutes: [5", 5, "no YAML"),
    "an alias": ("minutes: 5", "minutes: &m 5", 4, "no anchors"),
    "twice": ("minutes: 5", "minutes: 5\nminutes: 6", 5, "stands here twice"),
    "unknown in needs": ("{model: small}", "{model: small, bach: 2}", 5, "did you mean 'batch'?"),
    "unknown pass in needs": ("{model: small}", "{model: small, on: {FoldBatchNom: all}}", 5, "'FoldBatchNorm'?"),
    "wrong recipe": ("{model: small}", "{model: small, recipe: {steps: []}}", 5, "'fxopt_recipe' with the version"),
    "both": ("{model: small}", "{model: small, recipe: {}, on: {}}", 5, "leave out"),
    "no steps": (TEXT[TEXT.index("## Fold") :], "", 8, "there is none"),
    "text before": ("## Fold it", "Hello\n\n## Fold it", 9, "before the first step"),
    "title twice": ("## Count", "## Fold it", 32, "two steps"),
    "no settings": ("```step\nask:\n  question: How many p", "```yaml\nask:\n  question: How many p", 32, "no blocks"),
    "nothing to do": ("done: {all", "dune: {all", 53, "did you mean 'done'?"),
    "unknown control": ("highlight: [pass:FoldBatchNorm", "highlight: [graf", 14, "did you mean 'graph'?"),
    "unknown kind": ("node:_1", "noode:_1", 14, "did you mean 'node'?"),
    "unknown pass": ("pass:FoldBatchNorm", "pass:FoldBatchNorms", 14, "did you mean 'FoldBatchNorm'?"),
    "unknown fact": ("done: {site_on", "done: {side_on", 23, "did you mean 'site_on'?"),
    "unknown tab": ("{tab: Numerics}, {c", "{tab: Numeric}, {c", 55, "did you mean 'Numerics'?"),
    "not in a condition": ("{not: {numerics: different}}", "{nor: {numerics: different}}", 53, "did you mean 'not'?"),
    "verdict": ("{numerics: compared}", "{numerics: comparable}", 53, "did you mean 'compared'?"),
    "site": ("done: {site_on: [FoldBatchNorm, _1]}", "done: {site_on: [FoldBatchNorm]}", 23, "[pass, node]"),
    "two facts": ("done: {site_on: [", "done: {view: Now, site_on: [", 23, "one name, and this has 2"),
    "no bound": ("{of: nodes.delta, exactly: 0}", "{of: nodes.delta}", 19, "give one of exactly"),
    "unknown figure": ("{of: nodes.delta, exactly: 0}", "{of: notes.delta, exactly: 0}", 19, "did you mean 'nodes'?"),
    "form of a figure": ("{of: nodes.delta, exactly: 0}", "{of: nodes, exactly: 0}", 19, "form than nodes.WHEN"),
    "text as a number": ("{of: nodes.delta, exactly: 0}", "{of: verdict.numerics, exactly: 0}", 19, "is a text"),
    "figure in a text": ("It lost {parameters.delta}", "It lost {parameter.delta}", 29, "did you mean 'parameters'?"),
    "state in a text": ("It lost {parameters.delta}", "It lost {parameters.after}", 29, "there is no WHEN 'after'"),
    "one answer": ("    - text: one less\n      holds: {figure: {of: nodes.delta, exactly: -1}}\n", "", 18, "two"),
    "same answers": ("text: one less", "text: as many", 18, "the same text"),
    "number and answers": ("  number: parameters.before\n", "", 38, "'answers' to choose from, or the 'number'"),
    "tolerance": ("tolerance: 5%", "tolerance: some", 40, "as 5%"),
    "otherwise": ('  otherwise: "Open the tab: it says {parameters.before}."\n', "", 38, "'otherwise' is missing"),
    "two hints": ("[look, point, ", "[look, ", 24, "3 hints"),
    "no solution": ("solution: {turn_on: [FoldBatchNorm, _1]}\n", "", 14, "belong together"),
    "unknown act": ("{compare: true}]", "{compere: true}]", 55, "did you mean 'compare'?"),
    "not true": ("{compare: true}]", "{compare: false}]", 55, "has to be true"),
    "no edit": ("{compare: true}]", "{edit: {edit: Delet, arguments: {}}}]", 55, "fxopt has no edit"),
    "words": ("Look at the numbers.", "word " * 61, 33, "61 words, and may have 60"),
    "32 steps": (TEXT, TEXT + "".join(f"\n## Step {i}\n\nText.\n" for i in range(29)), 170, "and may have 31"),
    "needs and reset": ("done: {all", "needs: {model: a}\nreset: {model: a}\ndone: {all", 54, "leave out 'reset'"),
    "reset of the first step": ("done: {site_on", "reset: {model: a}\ndone: {site_on", 23, "leave out 'reset'"),
    "other heading": ("### Explanation", "### Why", 28, "'### Explanation'"),
    "no text": ("Look at the numbers.\n", "", 32, "has no text"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_mistake_is_an_error_with_its_line_and_what_was_expected(kind: str) -> None:
    old, new, line, told = WRONG[kind]
    assert old in TEXT
    with pytest.raises(LessonError) as caught:
        lesson_of(TEXT.replace(old, new, 1))
    assert told in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize("text", ["!!python/object/apply:os.system [echo]", "__import__('os')", "{" * 2000, "*a"])
def test_a_condition_is_data_and_is_never_run(text: str) -> None:
    with pytest.raises(LessonError):
        lesson_of(TEXT.replace("{site_on: [FoldBatchNorm, _1]}", text, 1))


def test_a_file_that_is_none_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(LessonError, match=r"gone\.md.*cannot be read"):
        load_lesson(tmp_path / "gone.md")
    with pytest.raises(LessonError, match="cannot be read"):
        load_lesson(tmp_path)
    binary = tmp_path / "binary.md"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LessonError, match="no UTF-8"):
        load_lesson(binary)
    binary.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(LessonError, match="at most"):
        load_lesson(binary)
    file = tmp_path / "wrong.md"
    file.write_text(TEXT.replace("minutes: 5", "minutes: x"))
    with pytest.raises(LessonError, match=r"wrong\.md, line 4: "):
        load_lesson(file)


def test_figures_are_told_in_words_and_unknown_ones_as_a_dash() -> None:
    figures = {"nodes.delta": -1, "bytes.now": 4096, "inverse.div.now": 48.99999999999999, "nodes.now": None,
               "error.max_abs": 1.19e-06, "parameters.delta": 3}  # fmt: skip
    told = filled("{nodes.delta} {bytes.now} {inverse.div.now} {nodes.now} {error.max_abs} {parameters.delta}", figures)
    assert told == "−1 4,096 48.99999999999999 – 1.2·10⁻⁶ +3"
