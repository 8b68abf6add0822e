"""Rich display in notebooks: a graph, a scan and a workbench are drawn as on the page, by the stand-alone component.

Comparisons without a graph are tables: parameters, outputs, latencies, and the steps of a pipeline.

Values of fxopt's own classes are `Displayed`: their ``_repr_mimebundle_`` finds the renderers here. A `GraphModule` is
torch's, so a formatter is registered for it where IPython runs, as in Jupyter, JupyterLab and VS Code, at the first use
of a public name: `import fxopt` alone imports nothing. The text of a REPL stays the fallback. An output is a frame
without access to the notebook, works without a server and a network, and is saved with the notebook.
"""

from __future__ import annotations

import html
import sys
from typing import Any

from torch.fx import GraphModule

from fxopt.core import Ledger, Log, Match, Pass, Scan
from fxopt.display import html_of
from fxopt.evidence import LatencyReport, NumericsReport, ParameterTable
from fxopt.ui.markdown import counted
from fxopt.ui.marks import marks_of
from fxopt.ui.report import comparison_html, details, latency_html, numerics_html, table, table_of
from fxopt.ui.standalone import standalone_html
from fxopt.view import GraphView, default_unfolded, layout, visible
from fxopt.view.marks import resolve
from fxopt.view.revealing import opening_for
from fxopt.workbench import MissState, PassState, Workbench
from fxopt.workbench.states import site_state

HEIGHT = 520
"""Of an output, in pixels."""


def graph_html(gm: GraphModule) -> str:
    """Return a graph, and the changes of passes in force as a table, as one HTML page."""
    view = GraphView.of(gm)
    entries = [(entry.name, entry.site, str(len(entry.patch.changes))) for entry in Ledger.entries_of(gm)]
    below = (
        details(f"{counted(len(entries), 'site')} rewritten", table(("pass", "site", "changes"), entries))
        if entries
        else ""
    )
    return standalone_html(layout(visible(view, default_unfolded(view))), title=gm._get_name(), below=below)


def scan_html(scan: Scan[Match]) -> str | None:
    """Return the graph of a scan with its matches and near misses marked, and their list; None if there is none.

    There is none either where the graph has lost a node of the scan since.
    """
    anchors = [*(match.anchor for match in scan.matches), *(miss.anchor for miss in scan.misses)]
    if not anchors or not isinstance(scan.pass_, Pass) or any(anchor._erased for anchor in anchors):
        return None
    gm = anchors[0].graph.owning_module
    if not isinstance(gm, GraphModule):
        return None
    sites = tuple(site_state(scan.pass_, match) for match in scan.matches)
    state = PassState(scan.pass_, False, sites, tuple(map(MissState.of, scan.near_misses)), 0.0)
    view = GraphView.of(gm)
    opened = default_unfolded(view)
    opened |= opening_for([view], [site.nodes for site in sites[:1]], opened).modules
    picture = layout(visible(view, opened))
    marks = resolve(marks_of([state], state.name), picture.graph, [state.name])
    below = details(state.in_words, table(("match", "effect"), [(one.site, one.explanation) for one in sites]), True)
    if state.misses:
        rows = [(miss.site, miss.reason, miss.remedy) for miss in state.misses]
        below += details(f"{len(rows)} left alone", table(("near miss", "reason", "remedy"), rows))
    return standalone_html(picture, marks, title=state.name, below=below)


def workbench_html(wb: Workbench) -> str:
    """Return the comparison of the original graph and the present one as one HTML page."""
    return comparison_html(wb, wb.pristine._get_name())


def parameters_html(parameters: ParameterTable) -> str:
    """Return the parameters of each module before and after."""
    return details(repr(parameters), table_of(parameters.frame), is_open=True)


def log_html(log: Log) -> str:
    """Return the steps of a pipeline that changed something, with the changes and the time of each."""
    columns = ("step", "changes", "ms")
    rows = [(step.title, "\n".join(step.explained()), f"{step.seconds * 1000:.1f}") for step in log.changed]
    return details(repr(log), table(columns, rows), is_open=True)


def framed(page: str | None) -> str | None:
    """Return a page as an element of a notebook's output: it runs scripts, and reaches nothing outside of itself."""
    if page is None:
        return None
    source = html.escape(page, quote=True)
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" style="width: 100%; height: {HEIGHT}px; border: 1px solid '
        f'#8886" srcdoc="{source}"></iframe>'
    )


def display_richly(shell: Any = None) -> None:
    """Register the formatter of graphs in an IPython shell, by default in the one that runs here, if any.

    It is that for HTML, which a terminal never asks for.
    """
    if shell is None and "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
    if shell is not None:
        shell.display_formatter.formatters["text/html"].for_type(GraphModule, lambda gm: framed(graph_html(gm)))


@html_of.register
def _(scan: Scan) -> str | None:  # type: ignore[type-arg]  # singledispatch takes no parameters of a class
    return framed(scan_html(scan))


@html_of.register
def _(wb: Workbench) -> str | None:
    return framed(workbench_html(wb))


html_of.register(ParameterTable, parameters_html)
html_of.register(NumericsReport, numerics_html)
html_of.register(LatencyReport, latency_html)
html_of.register(Log, log_html)
