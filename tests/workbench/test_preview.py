"""A preview tells the effect of a switch, and has none itself."""

from __future__ import annotations

import pytest

from fxopt import fingerprint
from fxopt.core import FxoptError
from fxopt.passes import ALL_PASSES
from fxopt.workbench import Workbench
from fxopt.workbench.preview import Preview, preview
from tests.examples import EXAMPLES, Example
from tests.quick import third

PASSES = [kind.__name__ for kind in ALL_PASSES]


def names(wb: Workbench) -> set[str]:
    return {node.name for node in wb.current.graph.nodes}


def parameters(wb: Workbench) -> int:
    return sum(parameter.numel() for parameter in wb.current.parameters())


def calls(wb: Workbench) -> int:
    return sum(node.op.startswith("call_") for node in wb.current.graph.nodes)


@pytest.mark.parametrize("example", third(EXAMPLES), ids=lambda example: example.name)
def test_switching_does_what_the_preview_said(example: Example) -> None:
    wb = Workbench(example.graph())
    for name in [*PASSES, *PASSES]:  # on, and off again
        told = preview(wb, name)
        before, had, called, was_on = names(wb), parameters(wb), calls(wb), wb.state_of(name).on
        (wb.turn_off if was_on else wb.turn_on)(name)
        assert told.turns_on is not was_on
        assert set(told.created) == names(wb) - before
        assert set(told.removed) == before - names(wb)
        assert told.parameters_delta == parameters(wb) - had
        assert told.ops_delta == calls(wb) - called
        if not was_on:
            changed = {node for site in wb.state_of(name).sites for node in site.changed}
            assert changed <= {*told.changed, *told.removed, *told.created}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_preview_of_any_site_changes_nothing(example: Example) -> None:
    wb = Workbench(example.graph())
    pristine, current = fingerprint(wb.pristine), fingerprint(wb.current)
    choices, weights = wb.choices, {id(parameter) for parameter in wb.current.parameters()}
    for state in wb.states:
        preview(wb, state.name)
        for site in state.sites:
            assert preview(wb, state.name, site.site).sites == {site.site}
        names_of = [site.site for site in state.sites]
        assert preview(wb, state.name, names_of).sites == set(names_of)
    assert (fingerprint(wb.pristine), fingerprint(wb.current)) == (pristine, current)
    assert wb.choices == choices
    assert {id(parameter) for parameter in wb.current.parameters()} == weights
    assert wb.is_restored


def merging() -> Workbench:
    example = next(one for one in EXAMPLES if Workbench(one.graph()).state_of("MergeLinears").sites)
    return Workbench(example.graph())


def test_what_would_appear_is_told_beside_a_node_that_is_there() -> None:
    wb = merging()
    told = preview(wb, "MergeLinears")
    assert told.created
    assert len(told.near) == len(told.created)
    assert set(told.near) <= names(wb)


def test_turning_off_is_told_as_the_way_back() -> None:
    wb = merging()
    on = preview(wb, "MergeLinears")
    wb.turn_on("MergeLinears")
    off = preview(wb, "MergeLinears")
    assert not off.turns_on
    assert (off.created, off.removed) == (on.removed, on.created)
    assert set(off.changed) == set(on.changed)
    assert (off.parameters_delta, off.ops_delta) == (-on.parameters_delta, -on.ops_delta)


def test_a_preview_of_what_is_not_there_is_refused() -> None:
    wb = merging()
    with pytest.raises(FxoptError, match="no pass Nothing"):
        preview(wb, "Nothing")
    with pytest.raises(FxoptError, match="no site nowhere"):
        preview(wb, "MergeLinears", "nowhere")


def test_a_pass_that_finds_nothing_would_change_nothing() -> None:
    told = Preview("MergeLinears", None, True)
    assert told.is_empty
    assert str(told) == "nothing would change"
    assert str(Preview("P", None, True, removed=("a",), parameters_delta=-2000)) == "1 removed; −2,000 parameters"
