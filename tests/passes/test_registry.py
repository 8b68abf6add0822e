"""The registry: one line for each pass, and no pass knows another."""

import ast
import inspect
import sys
from pathlib import Path

import fxopt
from fxopt import (
    ALL_PASSES,
    CastLinearsToBFloat16,
    CompileRegions,
    DelegateRegions,
    JoinLinears,
    MergeLinears,
    Pass,
    PlanRegions,
    QuantizeLinears,
    Rule,
    RuleSet,
)
from fxopt.passes import _classes

ON_REQUEST = {CastLinearsToBFloat16, CompileRegions, DelegateRegions, JoinLinears, PlanRegions, QuantizeLinears}
"""Passes that the page does not run by itself: three make one node of many, three are approximate."""


def imported_by(module: str) -> set[str]:
    tree = ast.parse(Path(inspect.getfile(sys.modules[module])).read_text())
    froms = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return froms | {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}


def test_every_pass_and_rule_of_the_folder_is_registered_once() -> None:
    folder = Path(inspect.getfile(MergeLinears)).parent
    modules = [f"fxopt.passes.{file.stem}" for file in folder.glob("*.py") if file.stem != "__init__"]
    here = [thing for module in modules for thing in vars(sys.modules[module]).values()]
    found = {thing for thing in here if isinstance(thing, type) and issubclass(thing, Pass)}
    kinds = {kind for kind in found if not inspect.isabstract(kind)}
    kinds |= {type(thing) for thing in here if isinstance(thing, Rule)}
    in_sets = {type(rule) for kind in kinds if issubclass(kind, RuleSet) for rule in kind.rules}
    own = {kind for kind in kinds - in_sets if kind.__module__ in modules}
    assert sorted(own - ON_REQUEST, key=str) == sorted(ALL_PASSES, key=str)


@fxopt.rewrite
def scale(x, *, by: float = 2.0):
    """Replace `x + x` with `x * by`."""
    yield x + x
    return x * by


def test_a_rule_is_registered_as_it_is_with_its_options() -> None:
    kinds = _classes(MergeLinears, scale, scale.with_options(by=3.0))
    assert kinds[0] is MergeLinears
    assert [kind().signature for kind in kinds[1:]] == [scale.signature, scale.with_options(by=3.0).signature]
    assert {(kind.__name__, kind().name, kind().summary) for kind in kinds[1:]} == {("scale", "scale", scale.summary)}


def test_no_pass_imports_another() -> None:
    homes = {kind.__module__ for kind in ALL_PASSES}
    for home in homes:
        assert not imported_by(home) & (homes | {"fxopt.passes"}), home


def test_each_pass_has_a_short_name_of_its_own_and_says_what_it_needs() -> None:
    labels = [kind().label for kind in ALL_PASSES]
    assert len(set(labels)) == len(labels)
    assert all(0 < len(label) <= 22 for label in labels), labels
    assert all(kind().needs for kind in ALL_PASSES)


def test_a_pass_without_a_name_in_plain_words_has_that_of_its_class() -> None:
    class MakeLinear2dFaster(MergeLinears):
        label = Pass.label

    assert MakeLinear2dFaster().label == "Make Linear2d Faster"
