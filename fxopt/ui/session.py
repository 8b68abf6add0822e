"""What a visitor has open and has chosen. Captured models are shared and never changed; a session never is."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import streamlit as st
from torch import nn
from torch.fx import GraphModule

from fxopt.capture import CaptureReport, capture
from fxopt.models import Inputs, ModelSource
from fxopt.view import GraphView, default_unfolded
from fxopt.workbench import Choice, Workbench

T = TypeVar("T")
Shown = Literal["Original", "Now"]

MODELS, CAPTURES = 3, 6
"""How many models and captures are kept in memory, for all visitors together."""


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A captured model, as all visitors share it: it is read, never changed."""

    source: ModelSource
    model: nn.Module
    batch: int
    sequence: int | None
    inputs: Inputs
    pristine: GraphModule

    @property
    def report(self) -> CaptureReport:
        return self.pristine.meta.get("fxopt", CaptureReport("given"))

    @property
    def sizes(self) -> str:
        return f"batch {self.batch}" + (f", sequence {self.sequence}" if self.sequence is not None else "")


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def built(key: str, stamp: str, _source: ModelSource) -> nn.Module:
    """The model of a source. `stamp` changes where the files behind `key` do."""
    return _source.build()


@st.cache_resource(max_entries=CAPTURES, show_spinner=False)
def captured(key: str, stamp: str, batch: int, sequence: int | None, _source: ModelSource) -> OpenModel:
    model = built(key, stamp, _source)
    args, kwargs = _source.inputs(model, batch, sequence)
    return OpenModel(_source, model, batch, sequence, (args, kwargs), capture(model, args, kwargs))


@dataclass(eq=False)
class Session:
    """One visitor's workbench, and what is looked at on the page."""

    opened: OpenModel
    workbench: Workbench = field(init=False)
    looked_at: str = ""
    """The name of the pass whose sites are shown; empty for none."""
    selected: str = ""
    """A node of the graph by name, or a folded module as ``@path``; empty for none."""
    shown: Shown = "Now"
    unfolded: frozenset[str] = frozenset()
    listed: int = 0
    """How many sites of the looked-at pass are listed, beyond the first few."""
    compared: tuple[Choice, ...] | None = None
    """The choices of passes for which outputs of a large model are compared."""
    measurement: Any = None
    """The last measurement of latency (`fxopt.ui.latency_tab.Measurement`), if there was one."""

    def __post_init__(self) -> None:
        self.workbench = Workbench(self.opened.pristine)
        self._kept: dict[str, tuple[Hashable, Any]] = {}
        self.unfolded = default_unfolded(self.view_of("Original"))
        self.looked_at = next((state.name for state in self.workbench.states if state.sites), "")

    def remember(self, what: str, key: Hashable, make: Callable[[], T]) -> T:
        """The answer to `what` at `key`, made where the last answer was for another key."""
        kept = self._kept.get(what)
        if kept is None or kept[0] != key:
            kept = self._kept[what] = (key, make())
        answer: T = kept[1]
        return answer

    # ---- the graphs

    def graph_of(self, shown: Shown) -> GraphModule:
        return self.workbench.current if shown == "Now" else self.opened.pristine

    def view_of(self, shown: Shown) -> GraphView:
        if shown == "Original":
            return self.remember("original view", None, lambda: GraphView.of(self.opened.pristine))
        return self.remember("view", self.workbench.choices, lambda: GraphView.of(self.workbench.current))

    @property
    def was_changed(self) -> bool:
        """Whether any pass was switched since the model was opened."""
        return self.workbench.can_undo or self.workbench.can_redo

    @property
    def is_restored(self) -> bool:
        return self.remember("restored", self.workbench.choices, lambda: self.workbench.is_restored)

    # ---- what widgets do

    def switch(self, name: str, widget: str) -> None:
        """Bring a pass to what its switch says."""
        on = bool(st.session_state[widget])
        (self.workbench.turn_on if on else self.workbench.turn_off)(name)
        self.look_at(name)

    def switch_site(self, name: str, site: str, widget: str) -> None:
        on = bool(st.session_state[widget])
        (self.workbench.turn_on if on else self.workbench.turn_off)(name, site)

    def look_at(self, name: str) -> None:
        """Show the sites of a pass; the name of the one that is shown, or an empty one, shows none."""
        if name != self.looked_at:
            self.looked_at, self.listed = name, 0

    def list_more(self) -> None:
        self.listed += 20

    def select(self, name: str) -> None:
        self.selected = name

    def show(self, shown: Shown) -> None:
        self.shown = shown

    def fold(self, path: str) -> None:
        """Fold an open module, or open a folded one."""
        self.unfolded = self.unfolded ^ {path}

    def ask_to_compare(self) -> None:
        self.compared = self.workbench.choices
