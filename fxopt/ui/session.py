"""Session of a visitor: a workbench on the open model, the view state, and a memo of the answers made for both.

Captured models are shared and read-only; each session belongs to one visitor. Acts change it (`fxopt.ui.acts`,
`fxopt.ui.viewing`); whatever is drawn is read here.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any

from torch.fx import GraphModule

from fxopt.edits import Edit
from fxopt.evidence import LatencyReport, NumericsReport
from fxopt.ui.drawn import Drawn
from fxopt.ui.foreseen import Foreseen
from fxopt.ui.job import GraphJob, Job
from fxopt.ui.memo import RECENT, Memo
from fxopt.ui.open_model import OpenModel
from fxopt.ui.outcomes import EditOutcome, RecipeOutcome
from fxopt.ui.pictures import PackedLayout
from fxopt.ui.view_state import Compared, Shown, ViewState
from fxopt.view import GraphView, PassStyle, styles_of
from fxopt.view.revealing import Opening, opening_for
from fxopt.workbench import Choice, PassState, Workbench
from fxopt.workbench.descent import Descent, descent
from fxopt.workbench.representatives import Representative, representatives
from fxopt.workbench.timeline import Act


@dataclass(eq=False)
class Session:
    """One visitor's workbench and view of it, and the work that runs for them."""

    opened: OpenModel
    workbench: Workbench = field(init=False)
    view: ViewState = field(init=False)
    memo: Memo = field(init=False)
    outcome_of_edit: EditOutcome | None = None
    """The outcome of the last edits, shown in the inspector."""
    outcome_of_recipe: RecipeOutcome | None = None
    """The outcome of the last uploaded recipe, if there was one."""
    compared: tuple[Choice, ...] | None = None
    """The choices of passes for which outputs of a large model are compared."""
    comparison: GraphJob[NumericsReport] | None = None
    """The last comparison of outputs, if there was one."""
    measurement: GraphJob[LatencyReport] | None = None
    """The last measurement of latency, if there was one."""
    searches: dict[str, GraphJob[Any]] = field(default_factory=dict)
    """The last search of each kind among the sites; see `fxopt.ui.site_search`."""
    picture: PackedLayout | None = None
    """The picture of the graphs that was drawn last."""
    laying_out: tuple[Hashable, Job[PackedLayout]] | None = None
    """The picture that is to be drawn, and the work on it."""
    acted: int = 0
    """The number of the visitor's acts on the passes: each act is answered, also one that changes nothing."""
    drawn: Drawn = field(default_factory=Drawn)
    """The record of the panels of the page."""
    foreseen: Foreseen = field(default_factory=Foreseen)
    """The pictures that the browser paints ahead of Python's answer."""
    listeners: dict[str, Callable[[Session], None]] = field(default_factory=dict)
    """By name of a component, the function that applies the visitor's acts there; see `listen`."""

    at_rest: dict[str, Callable[[], None]] = field(default_factory=dict)
    """By name, the ends of what runs for the session elsewhere; called once when it rests."""

    def __post_init__(self) -> None:
        self.identity = uuid.uuid4().hex
        """By it a message of the browser names this session; the same model at other sizes goes on with it."""
        self.seen = time.monotonic()
        """The time of the visitor's last act."""
        self.rested = False
        """The mark of a session that rests while its visitor is connected, but away."""
        self.at_work = threading.RLock()
        """Held by whoever acts on the session or draws it."""
        self.workbench = self.opened.workbench.another()
        self.memo = Memo(self.opened, self.workbench)
        looked_at = next((state.name for state in self.workbench.states if state.sites), "")
        self.view = ViewState(looked_at=looked_at, unfolded=self.opened.blocks)
        if self.opened.begins_on:
            first = self.workbench.states[0].name
            self.workbench.turn_on(first)
            self.view = replace(self.view, looked_at=first, together="Diff")
        self.begun = self.workbench.choices, self.view
        """The state in which the model opens, which an address without a state leads to."""

    def listen(self, to: str, obey: Callable[[Session], None]) -> None:
        """Let `obey` apply to this session the visitor's acts at `to`, which was drawn just now.

        `obey` is given the session rather than holding it: a session that held itself would wait for a collection.
        """
        self.listeners[to] = obey

    def resume(self, other: Session) -> None:
        """Go on where another session with the same model, at other sizes, is."""
        before = other.workbench
        self.workbench.choose(before.choices, (*before.added, *before.edits))
        self.view = other.view.resumed()
        self.identity = other.identity

    def rest(self) -> None:
        """Release all that can be made again; the visitor's choices stay.

        The rest are reference cycles of torch.fx, for Python to collect.
        """
        with self.at_work:
            if self.laying_out is not None:
                self.laying_out[1].cancel()
            self.picture = self.laying_out = None
            self.stop_comparing()
            self.stop_searching()
            while self.at_rest:
                self.at_rest.popitem()[1]()
            self.memo.clear()
            self.workbench.release()

    def is_seen(self) -> float:
        """Take note that the visitor is here; return the seconds that they were away, if the session rests: else 0."""
        now = time.monotonic()
        away, self.seen = (now - self.seen if self.rested else 0.0), now
        self.rested = False
        return away

    def stop_comparing(self) -> None:
        """End the comparison of outputs that runs, and let its result go."""
        if self.comparison is not None:
            self.comparison.job.cancel()
        self.comparison = None

    def stop_searching(self) -> None:
        """End the searches among the sites that run, and let their results go."""
        for search in self.searches.values():
            search.job.cancel()
        self.searches = {}

    # ---- the graphs

    @property
    def open_modules(self) -> frozenset[str]:
        """The modules that are open in the picture."""
        opened = self.opening.modules - self.view.closed_at(self.workbench.choices)
        return self.view.unfolded | self.view.revealed | opened

    @property
    def opening(self) -> Opening:
        """The modules that Diff opens by itself: those in which something has changed, one for all of its copies."""
        if self.view.together != "Diff" or not self.is_compared:
            return Opening(frozenset())
        views = [self.view_of("Original"), self.view_of("Now")]
        act, unfolded = self.difference, self.view.unfolded
        groups = [one.nodes for one in self.changes] or ([act.nodes] if act is not None else [])
        key = (self.workbench.choices, unfolded, self.since)
        return self.memo.remember("opening", key, lambda: opening_for(views, groups, unfolded), answers=RECENT)

    @property
    def changes(self) -> tuple[Representative, ...]:
        """The sites that are on, or that came between two compared states, one for all of its copies."""
        bench, views = self.workbench, (self.view_of("Original"), self.view_of("Now"))
        return self.memo.remember(
            "changes",
            (bench.choices, self.since),
            lambda: representatives(map(self.in_comparison, bench.states), *views),
            answers=RECENT,
        )

    @property
    def descent(self) -> Descent:
        """The nodes of the original graph, each with a node that it became."""
        if not self.workbench.is_changed:
            return ()
        return self.memo.remember("descent", self.workbench.choices, lambda: descent(self.workbench), answers=RECENT)

    @property
    def compared_acts(self) -> Compared | None:
        """The states of the time line that are compared; None where the graph is compared with the original."""
        compared = self.view.compared
        return compared if compared is not None and compared.difference.after == self.workbench.choices else None

    @property
    def since(self) -> tuple[Choice, ...] | None:
        """The choices of the first of two compared states; None where the graph is compared with the original."""
        return self.difference.before if self.difference is not None else None

    @property
    def difference(self) -> Act | None:
        """The difference between the two states that are compared, if two are."""
        compared = self.compared_acts
        return compared.difference if compared is not None else None

    @property
    def is_compared(self) -> bool:
        """Whether the two graphs of the picture may differ."""
        return self.workbench.is_changed or self.since is not None

    @property
    def graph_before(self) -> GraphModule:
        """The graph with which the current one is compared in the picture, to be read."""
        since = self.since
        if since is None:
            return self.opened.pristine
        return self.memo.remember("graph before", since, lambda: self.workbench.trial(since))

    @property
    def compared_states(self) -> list[PassState]:
        """The passes and edits in the order of their letters, without the sites that two compared states share."""
        return [self.in_comparison(state) for state in self.colored_states]

    def in_comparison(self, state: PassState) -> PassState:
        """Return the state without the sites that are on in both of two compared states, if two are compared."""
        act = self.difference
        if act is None:
            return state
        sites = (site for site in state.sites if not site.on or (state.name, site.site) in act.came)
        return replace(state, sites=tuple(sites))

    def graph_of(self, shown: Shown) -> GraphModule:
        """Return one of the graphs, to be read: while all passes are off, both are the same."""
        return self.workbench.current if shown == "Now" and self.workbench.is_changed else self.opened.pristine

    def view_of(self, shown: Shown) -> GraphView:
        """Return one of the graphs of the picture as plain data; the first is the first of two compared states."""
        since = self.since
        if shown == "Original" and since is not None:
            return self.memo.remember("view before", since, lambda: GraphView.of(self.graph_before), answers=RECENT)
        if shown == "Original" or not self.workbench.is_changed:
            return self.opened.view
        return self.memo.once("view", lambda: GraphView.of(self.workbench.current))

    @property
    def was_changed(self) -> bool:
        """Whether any pass was switched since the model was opened."""
        return self.workbench.can_undo or self.workbench.can_redo

    @property
    def is_restored(self) -> bool:
        return self.memo.remember("restored", self.workbench.choices, lambda: self.workbench.is_restored)

    # ---- the passes

    @property
    def styles(self) -> dict[str, PassStyle]:
        """The letter and color of each pass and edit, by name; they stay through any move, removal or undo.

        A style names its pass or edit in words: ``Fold BatchNorm2d``, ``Set args[1] of div to 2.0``.
        """
        known = self.workbench.known
        told = [pass_.summary if isinstance(pass_, Edit) else pass_.label for pass_ in known]
        return dict(zip((pass_.name for pass_ in known), styles_of(told)))

    def is_edit(self, pass_name: str) -> bool:
        return any(edit.name == pass_name for edit in self.workbench.known if isinstance(edit, Edit))

    def called(self, pass_name: str) -> str:
        """Return the name of a pass in words; that of a pass which is not here, as it is."""
        style = self.styles.get(pass_name)
        return style.name if style is not None else pass_name

    @property
    def colored_states(self) -> list[PassState]:
        """The passes and edits in the order of their letters, independent of the order in which they run.

        An edit that was taken away is there without a site, so that the others keep their letters.
        """
        states = {state.name: state for state in self.workbench.states}
        return [states.get(one.name) or PassState(one, False, (), (), 0.0) for one in self.workbench.known]

    @property
    def listed_passes(self) -> list[PassState]:
        """The passes as they run."""
        return [state for state in self.workbench.states if not isinstance(state.pass_, Edit)]

    @property
    def looked_at_state(self) -> PassState | None:
        """The state of the pass in focus."""
        return next((state for state in self.workbench.states if state.name == self.view.looked_at), None)

    @property
    def looked_at_places(self) -> list[str]:
        """The sites of the pass in focus, then its near misses."""
        state = self.looked_at_state
        return [*(site.site for site in state.sites), *(miss.site for miss in state.misses)] if state else []

    @property
    def entered(self) -> tuple[str, str, bool] | None:
        """The switch that the key Enter moves: pass, site or an empty string, and whether it is on.

        It is that of the selected site of the pass in focus, or of the pass if none is selected; None at a near miss.
        """
        state, selected = self.looked_at_state, self.view.selected
        if state is None:
            return None
        site = next((site for site in state.sites if site.site == selected), None)
        if site is not None:
            return state.name, site.site, site.on
        if (state.sites or state.on) and selected not in [miss.site for miss in state.misses]:
            return state.name, "", state.on
        return None


def is_acting(state: PassState) -> bool:
    """Return whether a pass has something to do here, or was switched on."""
    return bool(state.sites) or state.on
