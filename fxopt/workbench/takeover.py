"""Sites of one pass that a later one has rewritten: switching the first one off changes less than it seems to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fxopt.workbench.states import PassState


def taken_over(states: Sequence[PassState], state: PassState) -> Mapping[str, int]:
    """Return the passes that have rewritten sites which `state` leaves off, each with the count of those sites.

    Args:
        states: of all passes and edits on the workbench, in the order in which they run.
        state: one of them.
    """
    left = [set(site.rewritten or site.nodes[:1]) for site in state.sites if not site.on]
    found: dict[str, int] = {}
    for other in states[list(states).index(state) + 1 :]:
        gone = {name for site in other.sites if site.on for name in (*site.removed, *site.changed)}
        count = sum(not gone.isdisjoint(site) for site in left)
        if count:
            found[other.name] = count
    return found
