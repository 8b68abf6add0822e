"""Rich display: the pages that a notebook shows, in frames; and the text where nothing can be drawn."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import fxopt
from fxopt.display import Displayed
from fxopt.evidence import Round, compare_outputs, parameter_table, report_of
from fxopt.ui.notebook import display_richly, framed, graph_html, scan_html, workbench_html


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) + self.k(x) / 3 / x.sum()


@pytest.fixture
def gm() -> torch.fx.GraphModule:
    return fxopt.capture(Net(), (torch.rand(2, 4),))


class Formatter:
    """As that of IPython for one kind of output."""

    def __init__(self) -> None:
        self.known: dict[type, Callable[[Any], str | None]] = {}

    def for_type(self, kind: type, render: Callable[[Any], str | None]) -> None:
        self.known[kind] = render

    def __call__(self, thing: object) -> str | None:
        return next((self.known[kind](thing) for kind in type(thing).__mro__ if kind in self.known), None)


def bundle_of(thing: Displayed) -> str | None:
    """Return the HTML that a value gives of itself, and see that its text is there as well."""
    bundle = thing._repr_mimebundle_()
    assert bundle["text/plain"] == repr(thing)
    return bundle.get("text/html")


def test_a_graph_a_scan_and_a_workbench_are_frames_without_access_to_the_notebook(gm: torch.fx.GraphModule) -> None:
    formatter = Formatter()
    display_richly(SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": formatter})))
    wb = fxopt.Workbench(gm)
    wb.turn_on("MergeLinears")
    for shown in (formatter(gm), bundle_of(fxopt.MergeLinears().scan(gm)), bundle_of(wb)):
        assert shown is not None
        frame = re.fullmatch(
            r'<iframe sandbox="allow-scripts allow-downloads" style="[^"]*" srcdoc="([^"]*)"></iframe>', shown
        )
        assert frame is not None, shown[:300]
        assert html.unescape(frame[1]).startswith("<!doctype html>")
    assert formatter(nn.Linear(1, 1)) is None


def test_a_comparison_is_tables_of_plain_text(gm: torch.fx.GraphModule) -> None:
    wb = fxopt.Workbench(gm)
    wb.turn_on("MergeLinears")
    parameters = bundle_of(parameter_table(wb.pristine, wb.current))
    assert parameters is not None
    assert "<td>q_k_merged</td>" in parameters
    outputs = bundle_of(compare_outputs(wb.pristine, wb.current, [((torch.rand(2, 4),), {})]))
    assert outputs is not None
    assert "Outputs: " in outputs
    latency = bundle_of(report_of([Round(2.0, 1.0, 2.0)] * 9))
    assert latency is not None
    assert "<td>original / now</td><td>2.000" in latency
    with fxopt.record(gm) as log:
        fxopt.MergeLinears()(gm)
        log.step("<b>nothing</b>", lambda gm: None)
        log.step("<b>gone</b>", give_back)
    steps = bundle_of(log)
    assert steps is not None
    assert "<td>MergeLinears</td><td>q: " in steps
    assert "&lt;b&gt;gone" in steps
    assert "nothing" not in steps


SHELLS = {
    "a notebook": ("from ipykernel.zmqshell import ZMQInteractiveShell as Shell", ["text/html", "text/plain"]),
    "a terminal": ("from IPython.terminal.interactiveshell import TerminalInteractiveShell as Shell", ["text/plain"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("place", SHELLS)
def test_ipython_asks_each_value_for_what_its_place_shows(place: str, tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    imported, kinds = SHELLS[place]
    code = f"""
{imported}
shell = Shell.instance()
import fxopt, torch
gm = fxopt.capture(torch.nn.Sequential(torch.nn.Linear(2, 2)), (torch.rand(1, 2),))
for value in (gm, fxopt.PackLinears().scan(gm), fxopt.Workbench(gm)):
    shown, _ = shell.display_formatter.format(value)
    print(sorted(shown))
"""
    own = {**os.environ, "IPYTHONDIR": str(tmp_path), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own)
    assert done.stdout.splitlines()[:3] == [str(kinds)] * 3, done.stderr


def give_back(gm: torch.fx.GraphModule) -> None:
    """Let a graph return its input."""
    output = gm.graph.output_node()
    output.replace_input_with(output.all_input_nodes[0], next(iter(gm.graph.nodes)))


def test_each_page_has_its_tables(gm: torch.fx.GraphModule) -> None:
    scan = scan_html(fxopt.ChangeTrueDivToMulByInverse().scan(gm))
    assert scan is not None
    for told in ("1 of 1 sites", "sum_1 is not a constant number", "is rounded to"):
        assert told.replace("1 of", "0 of") in html.unescape(scan), told
    assert "sites rewritten" not in graph_html(gm)
    wb = fxopt.Workbench(gm)
    wb.turn_on("MergeLinears")
    assert "1 site rewritten" in graph_html(wb.current)
    assert "MergeLinears: 1 of 1 sites on" in workbench_html(wb)


def test_the_text_is_left_where_nothing_can_be_drawn(gm: torch.fx.GraphModule) -> None:
    assert framed(scan_html(fxopt.FuseGelu().scan(gm))) is None
    scan = fxopt.MergeLinears().scan(gm)
    assert scan_html(scan) is not None
    merged = scan.matches[0].anchor
    merged.replace_all_uses_with(merged.all_input_nodes[0])
    gm.graph.erase_node(merged)
    assert scan_html(scan) is None
    display_richly(None)  # no IPython here: nothing is registered, and nothing raised


def test_a_terminal_without_ipython_imports_nothing_for_it() -> None:
    code = "import sys, fxopt; fxopt.capture; names = 'fxopt.public', 'IPython', 'fxopt.ui.notebook'"
    code += "; print([name for name in names if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['fxopt.public']\n", "the first public name registers what there is to register"
