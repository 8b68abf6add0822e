"""Runs of the current graph on the example, within the limits of a visitor."""

from __future__ import annotations

from fxopt.edits.probe import Probe, Seen
from fxopt.evidence import Demand, demand_of, stopping_unless
from fxopt.evidence.running import run
from fxopt.ui.acts import alone
from fxopt.ui.job import Progress
from fxopt.ui.large import killable
from fxopt.ui.limits import check_demand
from fxopt.ui.presence import presence
from fxopt.ui.session import Session


@alone
def run_example(session: Session) -> None:
    """Run the graph as it is now on the example, for its probes."""
    check_runs(session)
    current, inputs, is_here = session.workbench.current, session.opened.inputs, presence()
    probes = [module for module in current.modules() if isinstance(module, Probe)]

    def work(progress: Progress) -> list[Seen | None]:
        with stopping_unless(lambda: progress(0)):
            run(current, *inputs)
        return [probe.seen for probe in probes]

    for probe, seen in zip(probes, killable(work, demands(session))(lambda share: is_here()), strict=True):
        probe.seen = seen


def demands(session: Session) -> list[Demand]:
    """Return the demands of a run of the original and, where it was edited, of the graph as it is now."""
    found = [session.opened.demand]
    if session.workbench.edits:
        found.append(demand_of(session.workbench.current, *session.opened.inputs))
    return found


def check_runs(session: Session, factor: int = 1, beside: int = 0) -> None:
    """Check that the graph may be run on the example; see `fxopt.ui.limits.check_demand`.

    Passes keep the demand; an edit by hand may make a graph that takes any amount.
    """
    for demand in demands(session):
        check_demand(f"{session.opened.source.title} at {session.opened.sizes}", demand, factor, beside)
