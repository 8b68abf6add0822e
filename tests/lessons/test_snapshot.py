"""The facts of a workbench as plain data, and conditions over them."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
import torch

from fxopt.edits import Insert
from fxopt.lessons import LessonError, Snapshot
from fxopt.lessons.conditions import condition_of
from fxopt.lessons.facts import RULE, PassFacts, RuleFacts
from fxopt.lessons.figures import FIGURES
from fxopt.lessons.lesson import Lesson
from fxopt.lessons.needs import Needs
from fxopt.lessons.settings import settings_of
from fxopt.lessons.snapshot import _BY_HEAD, Seen, snapshot_of
from fxopt.lessons.vocabulary import Known
from fxopt.lessons.walking import Walk
from fxopt.recipes import Recipe
from tests.lessons.small import opened, timed

PASSES = ("FoldBatchNorm", "MergeLinears")


def holds(condition: str, now: Snapshot) -> bool:
    return condition_of(settings_of(condition, 1), Known(PASSES)).holds(now)


NOW = Snapshot(
    model="small",
    passes={"FoldBatchNorm": PassFacts(True, {"a": True, "b": False}, ("c",)), "MergeLinears": PassFacts()},
    edits={"Insert(a, ReLU)": True, "Delete(b)": False},
    selected="a",
    focus="FoldBatchNorm",
    view="Diff",
    tab="Latency",
    numerics="rounding",
    latency="faster",
    rule=RuleFacts(("mul",), {"mul_1": "the factor is 2"}, laws="10 laws"),
    is_original=False,
    was_changed=True,
    figures={"nodes.before": 5, "nodes.now": 4, "error.max_abs": None, "verdict.numerics": "fine"},
)

TRUE = [
    "{model: small}", "{site_on: [FoldBatchNorm, a]}", "{sites_on: {exactly: 1}}", "{edits: {exactly: 1}}",
    "{sites_on: {at_least: 1, at_most: 2, of: FoldBatchNorm}}", "{sites_on: {exactly: 0, of: MergeLinears}}",
    "{focus: FoldBatchNorm}", "{selected: a}", "{view: Diff}", "{tab: Latency}", "{numerics: rounding}",
    "{numerics: compared}", "{latency: faster}", "{latency: measured}", "{fingerprint: changed}",
    "{figure: {of: nodes.now, exactly: 4}}", "{figure: {of: nodes.now, below: nodes.before}}",
    "{figure: {of: nodes.now, above: 3.5, at_most: 4}}", "{not: {restored: true}}",
    "{rule: answered}", "{rule: lawful}", "{rule_matches: mul}", "{rule_misses: mul_1}",
    "{all: [{view: Diff}, {any: [{view: Now}, {tab: Latency}]}]}",
]  # fmt: skip
FALSE = [
    "{model: other}", "{site_on: [FoldBatchNorm, b]}", "{site_on: [FoldBatchNorm, c]}", "{site_on: [MergeLinears, a]}",
    "{sites_on: {above: 1}}", "{edits: {below: 1}}", "{selected: b}", "{numerics: identical}", "{latency: slower}",
    "{fingerprint: original}", "{restored: true}", "{figure: {of: error.max_abs, at_least: 0}}",
    "{figure: {of: nodes.now, below: error.max_abs}}", "{figure: {of: nodes.now, above: 3, below: 4}}",
    "{rule: faulty}", "{rule: unlawful}", "{rule_matches: mul_1}", "{rule_misses: mul}",
    "{any: [{view: Now}, {view: Original}]}", "{not: {view: Diff}}",
]  # fmt: skip


@pytest.mark.parametrize("condition", TRUE)
def test_a_condition_holds(condition: str) -> None:
    assert holds(condition, NOW)


@pytest.mark.parametrize("condition", FALSE)
def test_a_condition_does_not_hold(condition: str) -> None:
    assert not holds(condition, NOW)


def test_a_rule_is_in_the_states_that_its_answer_shows() -> None:
    assert RuleFacts(fault="line 1: no").states == ("faulty",)
    assert RuleFacts(("mul",), fault="law: ...", breaks_law=True).states == ("answered", "unlawful")
    assert RuleFacts(laws="no site, so nothing was checked").states == ("answered",), "no site proves nothing"
    told = {state for rule in (RuleFacts(fault="x"), RuleFacts(("a",), laws="x"), RuleFacts(fault="x", breaks_law=True))
            for state in rule.states}  # fmt: skip
    assert told == RULE.keys()
    for state in RULE:
        assert not holds(f"{{rule: {state}}}", replace(NOW, rule=None))


def test_restored_is_the_original_after_a_change() -> None:
    back = replace(NOW, is_original=True)
    assert holds("{restored: true}", back)
    assert not holds("{restored: true}", replace(back, was_changed=False))


def test_a_condition_for_the_opposite_is_written_with_not() -> None:
    with pytest.raises(LessonError, match=r"write \{not"):
        holds("{restored: false}", NOW)


def lesson(figures: tuple[str, ...] = ()) -> Lesson:
    class Speaking(Lesson):
        @property
        def figures(self) -> tuple[str, ...]:
            return figures

    return Speaking("x", "X", 1, "", Needs("small"), (), ())


def test_a_snapshot_is_plain_data_of_the_real_state() -> None:
    names = (
        "nodes.before", "nodes.delta", "module_calls.now", "modules.now", "products.now", "parameters.delta",
        "bytes.delta", "flops.now", "sites.FoldBatchNorm", "on.FoldBatchNorm", "misses.FoldBatchNorm",
        "users._0.before", "users._1.now", "rows._0.now", "columns._0.now", "element.2.before.1.weight",
        "element.99.before.1.weight",
        "error.max_abs", "error.elements", "latency.ratio", "argument._0.now", "inverse._0.now", "verdict.latency",
        "reason.FoldBatchNorm._1", "explanation.FoldBatchNorm._1", "fingerprint.before", "fingerprint.now",
    )  # fmt: skip
    walk = Walk(lesson(names), opened, timed(0.5))
    first = walk.snapshot()
    assert first.is_original
    assert not first.was_changed
    walk.wb.turn_on("FoldBatchNorm")
    walk.wb.edit(Insert("_0", "Tanh"))
    walk.compare()
    walk.measure()
    now = walk.snapshot()
    assert json.loads(json.dumps(asdict(now)))["model"] == "small"
    assert now.passes["FoldBatchNorm"].sites == {"_1": True}
    assert (now.is_original, now.was_changed, list(now.edits.values())) == (False, True, [True])
    assert (now.numerics, now.latency) == ("different", "faster")
    found = now.figures
    assert (found["nodes.before"], found["nodes.delta"], found["module_calls.now"]) == (5, 0, 3)
    assert (found["parameters.delta"], found["bytes.delta"]) == (-8, -4 * 16 - 8)
    assert (found["users._0.before"], found["users._1.now"], found["rows._0.now"], found["columns._0.now"]) == (
        1,
        None,
        4,
        3,
    )
    assert (found["element.2.before.1.weight"], found["element.99.before.1.weight"]) == (1.0, None)
    assert (found["latency.ratio"], found["error.elements"]) == (2.0, 2 * 4 * 4 * 4)
    assert found["fingerprint.before"] != found["fingerprint.now"]
    assert found["reason.FoldBatchNorm._1"] is None
    assert "_1 only scales" in str(found["explanation.FoldBatchNorm._1"])
    assert "2.00x faster" in str(found["verdict.latency"])
    walk.wb.undo()
    later = walk.snapshot()
    assert (later.numerics, later.latency) == ("", ""), "reports are of the graph as it was"
    assert later.figures["error.max_abs"] is None


def test_every_figure_can_be_computed() -> None:
    assert _BY_HEAD.keys() == FIGURES.keys()


def test_an_argument_is_the_one_in_the_graph_and_its_inverse_is_computed() -> None:
    from fxopt import Workbench

    class Division(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 49

    wb = Workbench(Division(), (torch.ones(2),))
    wb.turn_on("ChangeTrueDivToMulByInverse")
    names = ("argument.truediv.before", "argument.truediv.now", "inverse.truediv.now")
    assert tuple(snapshot_of(wb, Seen(), names).figures.values()) == (49, 1 / 49, 1 / (1 / 49))


def test_needs_bring_a_workbench_to_a_recipe_and_undo_takes_it_back() -> None:
    wb, _ = opened(Needs("small"))
    Needs("small", on={"FoldBatchNorm": None}).begin(wb)
    assert wb.state_of("FoldBatchNorm").sites_on == 1
    recipe = Recipe.of(wb)
    wb.undo()
    assert wb.is_restored
    Needs("small", recipe=recipe).begin(wb)
    assert wb.state_of("FoldBatchNorm").sites_on == 1
    with pytest.raises(LessonError, match=r"line 7: .*no site _9"):
        Needs("small", on={"FoldBatchNorm": ("_9",)}, line=7).begin(wb)
    assert wb.state_of("FoldBatchNorm").sites_on == 1
