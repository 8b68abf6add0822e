"""The public objects as a REPL prints them: in a few words, and without addresses of memory."""

import inspect
import re
from enum import Enum
from types import ModuleType

import pytest
import torch
from torch import nn

import fxopt
import fxopt.core
import fxopt.edits
import fxopt.evidence
import fxopt.recipes
import fxopt.view
import fxopt.workbench
from fxopt.core import GraphIndex, Ledger, layer_of
from fxopt.evidence import compare_outputs, parameter_table
from fxopt.view import GraphView, layout, visible

SPACES: list[ModuleType] = [fxopt, fxopt.core, fxopt.edits, fxopt.evidence, fxopt.view, fxopt.recipes, fxopt.workbench]


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(4, 3), nn.Linear(4, 5), nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x).sum() + self.k(x).sum() + self.v(torch.relu(x)).sum() / 3 / x.sum()


X = torch.rand(2, 4)


@pytest.fixture
def gm() -> torch.fx.GraphModule:
    return fxopt.capture(Two(), [X])


def public_classes() -> list[type]:
    found = {getattr(space, name) for space in SPACES for name in space.__all__}
    return sorted((one for one in found if inspect.isclass(one)), key=lambda one: one.__qualname__)


@pytest.mark.parametrize("kind", public_classes())
def test_every_public_class_says_how_its_objects_print(kind: type) -> None:
    assert issubclass(kind, Enum | BaseException) or kind.__repr__ is not object.__repr__


def test_a_scan_says_whose_it_is_what_each_match_would_do_and_why_not_elsewhere(gm: torch.fx.GraphModule) -> None:
    told = str(fxopt.ChangeTrueDivToMulByInverse().scan(gm))
    assert re.fullmatch(
        r"ChangeTrueDivToMulByInverse: 1 match, 1 near miss\n"
        r"  match truediv: .*1 / 3.*\n"
        r"  miss  truediv_1: the divisor sum_4 .*",
        told,
    ), told
    assert repr(fxopt.ChangeTrueDivToMulByInverse().scan(gm)) == told


def test_a_scan_of_many_sites_is_short_in_a_repl_and_whole_in_print() -> None:
    gm = torch.fx.symbolic_trace(lambda x: sum(x / 3 for _ in range(15)))
    fxopt.annotate(gm, torch.rand(2))
    scan = fxopt.ChangeTrueDivToMulByInverse().scan(gm)
    assert len(str(scan).splitlines()) == 16
    assert repr(scan).splitlines()[10:] == [str(scan).splitlines()[10], "  and 5 more; print(scan) lists all"]


def test_a_scan_still_prints_after_its_nodes_have_gone(gm: torch.fx.GraphModule) -> None:
    scan = fxopt.MergeLinears().scan(gm)
    fxopt.MergeLinears()(gm)
    gm.graph.eliminate_dead_code()
    assert "match q" in str(scan)


def test_objects_print_in_a_few_words_without_weights_and_addresses(gm: torch.fx.GraphModule) -> None:
    merge, wb = fxopt.MergeLinears(), fxopt.Workbench(gm)
    scan = merge.scan(gm)
    wb.turn_on(merge)
    index = GraphIndex(gm)
    view = GraphView.of(gm)
    things = [
        *(merge, scan, *scan.matches, *scan.misses, wb, *wb.states, fxopt.Recipe.of(wb), gm.meta["fxopt"], index),
        *(fxopt.compose(merge, fxopt.FuseGelu()), fxopt.as_pass(lambda gm: gm)),
        *(Ledger.of(wb.current), *Ledger.entries_of(wb.current), Ledger.entries_of(wb.current)[0].patch),
        *(
            layer_of(scan.matches[0].anchor, index),
            view,
            visible(view, frozenset()),
            layout(visible(view, frozenset())),
        ),
        *(parameter_table(gm, wb.current), compare_outputs(gm, wb.current, [((X,), {})]), fxopt.core.Fingerprint()),
    ]
    long = {type(one).__name__: repr(one) for one in things if len(repr(one)) > 700}
    strange = [repr(one) for one in things if re.search(r"0x[0-9a-f]{6}|tensor\(", repr(one))]
    assert (long, strange) == ({}, [])


def test_passes_print_as_the_calls_that_make_them() -> None:
    merge = fxopt.MergeLinears(keep="view")
    assert repr(fxopt.compose(merge, fxopt.FuseGelu(), until_stable=True)) == (
        "compose(MergeLinears(keep='view'), FuseGelu(), until_stable=True)"
    )
