"""Session of a visitor: the open model and the choices.

Captured models are shared and read-only; each session belongs to one visitor.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, TypeVar

from torch.fx import GraphModule

from fxopt.core import FxoptError
from fxopt.edits import Edit
from fxopt.evidence import demand_of, stopping_unless
from fxopt.evidence.running import run
from fxopt.ui.drawn import Drawn
from fxopt.ui.fault import all_or_nothing
from fxopt.ui.foreseen import Foreseen
from fxopt.ui.job import Job
from fxopt.ui.limits import check_demand
from fxopt.ui.open_model import OpenModel
from fxopt.ui.pictures import PackedLayout
from fxopt.ui.presence import presence
from fxopt.ui.recent import keep_recent
from fxopt.ui.switches import Switch, Switches, widget_of
from fxopt.view import GraphView, PassStyle, styles_of
from fxopt.view.revealing import Opening, opening_for
from fxopt.workbench import Choice, PassState, Sites, Workbench
from fxopt.workbench.descent import Descent, descent
from fxopt.workbench.representatives import Representative, representatives

T = TypeVar("T")
Shown = Literal["Original", "Now"]
Together = Literal["Side by side", "Diff"]

RECENT = 4
"""So many of the last states keep their pictures and tables: the page is made for going back and forth."""


@dataclass(frozen=True)
class Question:
    """The question whether to turn something off that other sites rest on."""

    pass_name: str
    sites: Sites
    resting: tuple[tuple[str, str], ...]
    """The sites that would go off too: pairs of pass name and site."""
    removes: bool = False
    """Whether it is an edit, to be taken off the workbench, instead of a pass to be turned off."""


@dataclass(frozen=True, eq=False)
class Answer:
    """The outcome of the edits that were last asked for at a node."""

    node: str
    made: tuple[Edit, ...] = ()
    refusal: FxoptError | None = None
    """The reason why the next one was refused."""


Act = TypeVar("Act", bound=Callable[..., None])


def alone(act: Act) -> Act:
    """Let an act of a session wait for the run of the page, or the other act, that is at the session now; count it.

    Streamlit begins the run that a click asks for while the run before may still be in its callback or drawing, in
    another thread: with no lock, both would be at the workbench at once.
    """

    @functools.wraps(act)
    def waiting(self: Session, *args: Any, **kwargs: Any) -> None:
        with self.at_work:
            self.acted += 1
            with all_or_nothing(self):
                act(self, *args, **kwargs)

    return waiting  # type: ignore[return-value]


@dataclass(eq=False)
class Session:
    """One visitor's workbench, and the choices on the page."""

    opened: OpenModel
    workbench: Workbench = field(init=False)
    looked_at: str = ""
    """The name of the pass whose sites are shown, or empty."""
    selected: str = ""
    """A node of the graph by name, or a folded module as ``@path``, or empty."""
    shown: Shown = "Now"
    together: Together | None = None
    """The way in which both graphs are shown at once; `shown` is then the one whose nodes were last pointed at."""
    unfolded: frozenset[str] = frozenset()
    """The modules that the visitor has open."""
    revealed: frozenset[str] = frozenset()
    """The modules that are open besides for the node that was gone to last (`fxopt.ui.going`)."""
    closed: tuple[tuple[Choice, ...], frozenset[str]] = ((), frozenset())
    """The modules that the visitor has folded of those that Diff opens by itself, at which choices of passes."""
    gone_to: tuple[int, str, str] = (0, "", "")
    """The node that the graph is to move to: the number of the move, its name, and its place among others in words."""
    gone_at: tuple[Choice, ...] = ()
    """The choices of passes when the visitor went there."""
    only_acting: bool = False
    """Whether the list leaves out the passes that find no site here."""
    pointed_at: tuple[str, tuple[Choice, ...]] = ("", ())
    """The row of the list that the visitor points at, and the choices of passes when they did."""
    question: Question | None = None
    """The question to the visitor that is still open."""
    answer_to_edit: Answer | None = None
    """The outcome shown below the form of edits."""
    outcome_of_recipe: Any = None
    """The outcome of the last uploaded recipe (`fxopt.ui.recipe_form.Outcome`), if there was one."""
    listed: int = 0
    """The number of listed sites of the pass in focus, beyond the first few."""
    compared: tuple[Choice, ...] | None = None
    """The choices of passes for which outputs of a large model are compared."""
    comparison: Any = None
    """The last comparison of outputs (`fxopt.ui.numerics_tab.Comparison`), if there was one."""
    measurement: Any = None
    """The last measurement of latency (`fxopt.ui.latency_tab.Measurement`), if there was one."""
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

    def __post_init__(self) -> None:
        self.at_work = threading.RLock()
        """Held by whoever acts on the session or draws it."""
        self.workbench = self.opened.workbench.another()
        self._kept: dict[str, dict[Hashable, Any]] = {}
        self._switches = Switches()
        self._listening: dict[str, Callable[[Session], None]] = {}
        self.unfolded = self.opened.blocks
        self.looked_at = next((state.name for state in self.workbench.states if state.sites), "")

    def resume(self, other: Session) -> None:
        """Go on where another session with the same model, at other sizes, is.

        A click on one of its switches may be on its way, so the switches are taken over with their obeyed places.
        """
        self._switches = other._switches
        self.workbench.choose(other.workbench.choices, other.workbench.edits)
        self.looked_at, self.selected, self.listed = other.looked_at, other.selected, other.listed
        self.shown, self.together = other.shown, other.together
        self.unfolded, self.revealed, self.gone_to = other.unfolded, other.revealed, other.gone_to
        self.closed = other.closed
        self.only_acting = other.only_acting

    def rest(self) -> None:
        """Release all that can be made again; the visitor's choices stay.

        The rest are reference cycles of torch.fx, for Python to collect.
        """
        with self.at_work:
            if self.laying_out is not None:
                self.laying_out[1].cancel()
            self.picture = self.laying_out = None
            self.stop_comparing()
            self._kept.clear()
            self.workbench.release()

    def remember(self, question: str, key: Hashable, make: Callable[[], T], answers: int = 1) -> T:
        """Return the answer to `question` at `key`, made unless one of the last answers was for this key.

        Args:
            question: its name; each question has answers of its own.
            answers: the number that is kept. Give more than one only for plain data that depends on `key` alone: nodes
                and modules of the current graph are others once it comes back to the same choices.
        """
        kept = self._kept.setdefault(question, {})
        answer: T = kept[key] if key in kept else make()
        keep_recent(kept, key, answer, answers)
        return answer

    def once(self, question: str, make: Callable[[], T]) -> T:
        """Return plain data that depends on the current graph alone, as every visitor with the same choices has it."""
        bench, choices = self.workbench, self.workbench.choices
        pairs = zip_longest(bench.known, self.opened.workbench.passes)
        if any(mine is not other for mine, other in pairs) or any(state.error for state in bench.states):
            return self.remember(question, choices, make, answers=RECENT)  # passes, edits or a failure of one's own
        return self.opened.once.answer((question, choices), make)

    # ---- the graphs

    @property
    def open_modules(self) -> frozenset[str]:
        """The modules that are open in the picture."""
        opened = self.opening.modules - self.closed_at(self.workbench.choices)
        return self.unfolded | self.revealed | opened

    @property
    def opening(self) -> Opening:
        """The modules that Diff opens by itself: those in which something has changed, one for all of its copies."""
        if self.together != "Diff" or not self.workbench.is_changed:
            return Opening(frozenset())
        views = [self.view_of("Original"), self.view_of("Now")]
        groups = [one.nodes for one in self.changes]
        key = (self.workbench.choices, self.unfolded)
        return self.remember("opening", key, lambda: opening_for(views, groups, self.unfolded), answers=RECENT)

    @property
    def changes(self) -> tuple[Representative, ...]:
        """The sites that are on, one for all of its copies."""
        views = self.view_of("Original"), self.view_of("Now")
        return self.remember(
            "changes", self.workbench.choices, lambda: representatives(self.workbench.states, *views), answers=RECENT
        )

    @property
    def descent(self) -> Descent:
        """What the nodes of the original graph became."""
        if not self.workbench.is_changed:
            return ()
        return self.remember("descent", self.workbench.choices, lambda: descent(self.workbench), answers=RECENT)

    def closed_at(self, choices: tuple[Choice, ...]) -> frozenset[str]:
        """Return the modules that stay folded in Diff at these choices of passes, as the visitor has folded them."""
        return self.closed[1] if self.closed[0] == choices else frozenset()

    def unfold(self, paths: frozenset[str]) -> None:
        """Open these modules, and fold all others."""
        self.unfolded, self.revealed = paths, frozenset()
        self.closed = self.workbench.choices, self.opening.modules

    def graph_of(self, shown: Shown) -> GraphModule:
        """Return one of the graphs, to be read: while all passes are off, both are the same."""
        return self.workbench.current if shown == "Now" and self.workbench.is_changed else self.opened.pristine

    def view_of(self, shown: Shown) -> GraphView:
        if shown == "Original" or not self.workbench.is_changed:
            return self.opened.view
        return self.once("view", lambda: GraphView.of(self.workbench.current))

    @property
    def was_changed(self) -> bool:
        """Whether any pass was switched since the model was opened."""
        return self.workbench.can_undo or self.workbench.can_redo

    @property
    def is_restored(self) -> bool:
        return self.remember("restored", self.workbench.choices, lambda: self.workbench.is_restored)

    # ---- the passes

    @property
    def styles(self) -> dict[str, PassStyle]:
        """The letter and color of each pass and edit, by name; they stay through any move, removal or undo."""
        return {style.name: style for style in styles_of([pass_.name for pass_ in self.workbench.known])}

    @property
    def colored_states(self) -> list[PassState]:
        """The passes and edits in the order of their letters, independent of the order in which they run.

        An edit that was taken away is there without a site, so that the others keep their letters.
        """
        states = {state.name: state for state in self.workbench.states}
        return [states.get(one.name) or PassState(one, False, (), (), 0.0) for one in self.workbench.known]

    @property
    def listed_passes(self) -> list[PassState]:
        """The passes as they run; those without a site only if the visitor wants to see them."""
        states = [state for state in self.workbench.states if not isinstance(state.pass_, Edit)]
        return [state for state in states if not self.only_acting or acts(state)]

    @property
    def edits(self) -> list[PassState]:
        """The edits made by hand, the oldest first."""
        return [self.workbench.state_of(edit) for edit in self.workbench.edits]

    @property
    def looked_at_state(self) -> PassState | None:
        return next((state for state in self.workbench.states if state.name == self.looked_at), None)

    # ---- what widgets and keys do

    def switch_for(self, widget: str, name: str, sites: Sites, on: bool) -> Switch:
        """Return the switch to draw for a pass, or for some of its sites, at the place that shows the truth."""
        return self._switches.place(widget, name, sites, on)

    def listen(self, to: str, obey: Callable[[Session], None]) -> None:
        """Let `obey` apply to this session the visitor's acts at `to`, which was drawn just now.

        `obey` is given the session rather than holding it: a session that held itself would wait for a collection.
        """
        self._listening[to] = obey

    def obey(self) -> None:
        """Apply the visitor's acts since the last run. To be called before anything is drawn."""
        with self.at_work:
            for switch in self._switches.moved():
                self.acted += 1  # also where it comes too late: the browser may be ahead
                if self._is_there(switch):
                    self.turn(switch.pass_name, switch.sites, switch.place, widget=switch.widget)
            for obey in self._listening.values():
                with all_or_nothing(self):
                    obey(self)

    def _is_there(self, switch: Switch) -> bool:
        """Return whether the pass still has the sites of a switch: another act may have taken them away meanwhile."""
        state = next((state for state in self.workbench.states if state.name == switch.pass_name), None)
        sites = (switch.sites,) if isinstance(switch.sites, str) else switch.sites or ()
        return state is not None and {site.site for site in state.sites}.issuperset(sites)

    @alone
    def turn(self, name: str, sites: Sites, on: bool, sure: bool = False, widget: str = "") -> None:
        """Switch a pass or some of its sites; ask first, unless `sure`, if others rest on them and they go off.

        `widget` is the switch that was moved, if any.
        """
        bench, before = self.workbench, self.workbench.choices
        self.look_at(name)
        self.question = None
        if on:
            bench.turn_on(name, sites)
        elif not sure and (resting := bench.resting_on(name, sites)):
            self.question = Question(name, sites, resting)
        else:
            bench.turn_off(name, sites)
        if widget and not sure and self.question is None:
            self.foreseen.switched(widget, name, sites, on=on, start=before, bench=bench)

    @alone
    def answer(self, sure: bool) -> None:
        """Do the act that the question was about, or leave it."""
        question, self.question = self.question, None
        if question is not None and sure and question.removes:
            self.remove(question.pass_name, sure=True)
        elif question is not None and sure:
            self.turn(question.pass_name, question.sites, on=False, sure=True)

    @alone
    def edit(self, node: str, read: Callable[[], Sequence[Edit]]) -> None:
        """Make the edits that `read` reads from the form of a node, one after the other, until one is refused."""
        self.question = None
        made: list[Edit] = []
        refusal = None
        try:
            for edit in read():
                made.append(self.workbench.edit(edit))
        except FxoptError as error:
            refusal = error
        self.answer_to_edit = Answer(node, tuple(made), refusal)

    @alone
    def remove(self, name: str, sure: bool = False) -> None:
        """Take an edit away; ask first, unless `sure`, where others rest on it."""
        self.question = None
        if not sure and (resting := self.workbench.resting_on(name)):
            self.question = Question(name, None, resting, removes=True)
        else:
            self.workbench.remove(name)

    @alone
    def replay(self, do: Callable[[], Any]) -> None:
        """Do the work of a recipe by `do`, which returns the outcome to show."""
        self.question = self.answer_to_edit = None
        self.outcome_of_recipe = do()

    @alone
    def run_example(self) -> None:
        """Run the graph as it is now on the example, for its probes."""
        self.check_demand()
        with stopping_unless(presence()):
            run(self.workbench.current, *self.opened.inputs)

    def check_demand(self, factor: int = 1, beside: int = 0) -> None:
        """Check that the graph may be run on the example; see `fxopt.ui.limits.check_demand`.

        Passes keep the demand; an edit by hand may make a graph that takes any amount.
        """
        demands = [self.opened.demand]
        if self.workbench.edits:
            demands.append(demand_of(self.workbench.current, *self.opened.inputs))
        for demand in demands:
            check_demand(f"{self.opened.source.title} at {self.opened.sizes}", demand, factor, beside)

    @alone
    def undo(self) -> None:
        self.question = self.answer_to_edit = None
        self.workbench.undo()

    @alone
    def redo(self) -> None:
        self.question = self.answer_to_edit = None
        self.workbench.redo()

    @alone
    def reverse_all(self) -> None:
        self.question = self.answer_to_edit = None
        self.workbench.reverse_all()

    @alone
    def move(self, name: str, by: int) -> None:
        """Let a pass run earlier (-1) or later (1), as far as there is room."""
        states = [state.name for state in self.workbench.states]
        if name in states and 0 <= (to := states.index(name) + by) < len(states):
            self.workbench.move(name, to)

    @alone
    def place(self, name: str, before: str) -> None:
        """Let a pass run just before another one; just after the last one that is listed, where `before` is empty."""
        order = [state.name for state in self.workbench.states]
        listed = [state.name for state in self.listed_passes if state.name != name]
        last = listed[-1] if listed else ""
        if name not in order or (before or last) not in order:
            return
        order.remove(name)
        if before in order:
            self.workbench.move(name, order.index(before))
        elif not before:
            self.workbench.move(name, order.index(last) + 1)

    def look_at(self, name: str) -> None:
        """Show the sites of a pass; the name of the pass in focus, or an empty one, hides them."""
        if name != self.looked_at:
            self.looked_at, self.listed = name, 0

    @alone
    def step_pass(self, by: int, acting: bool = False) -> None:
        """Look at the next (1) or previous (-1) pass, or the next one that has a site."""
        names = [state.name for state in self.listed_passes + self.edits if not acting or acts(state)]
        if names:
            self.look_at(_beside(names, self.looked_at, by))

    def site_beside(self, by: int) -> str:
        """Return the next (1) or previous (-1) site of the pass in focus, then its near misses; empty without any."""
        state = self.looked_at_state
        names = [*(site.site for site in state.sites), *(miss.site for miss in state.misses)] if state else []
        return _beside(names, self.selected, by) if names else ""

    @alone
    def switch_current(self) -> None:
        """Switch the selected site of the pass in focus, or the pass if none is selected; a near miss stays."""
        if self.entered is not None:
            name, site, on = self.entered
            self.turn(name, site or None, not on, widget=widget_of(name, site))

    @property
    def entered(self) -> tuple[str, str, bool] | None:
        """The object of `switch_current`: pass, site or an empty string, and whether it is on. None at a near miss."""
        state = self.looked_at_state
        if state is None:
            return None
        site = next((site for site in state.sites if site.site == self.selected), None)
        if site is not None:
            return state.name, site.site, site.on
        if (state.sites or state.on) and self.selected not in [miss.site for miss in state.misses]:
            return state.name, "", state.on
        return None

    def list_more(self) -> None:
        self.listed += 20

    def select(self, name: str) -> None:
        self.selected = name

    def show(self, shown: Shown) -> None:
        self.shown = shown

    def fold(self, path: str) -> None:
        """Fold an open module, or open a folded one."""
        now = self.workbench.choices
        if path in self.open_modules:
            self.unfolded, self.revealed = self.unfolded - {path}, self.revealed - {path}
            self.closed = now, self.closed_at(now) | {path}
        else:
            self.unfolded |= {path}
            self.closed = now, self.closed_at(now) - {path}

    def stop_comparing(self) -> None:
        """End the comparison of outputs that runs, and let its result go."""
        if self.comparison is not None:
            self.comparison.job.cancel()
        self.comparison = None

    def ask_to_compare(self) -> None:
        self.stop_comparing()
        self.compared = self.workbench.choices


def acts(state: PassState) -> bool:
    """Return whether a pass has something to do here, or was switched on."""
    return bool(state.sites) or state.on


def _beside(names: Sequence[str], name: str, by: int) -> str:
    """Return the one after `name` (1) or before it (-1), in a circle; an end of `names` if it is missing there.

    >>> _beside("abc", "c", 1), _beside("abc", "", -1)
    ('a', 'c')
    """
    at = names.index(name) + by if name and name in names else min(by, 0)
    return names[at % len(names)]
