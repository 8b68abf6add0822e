"""The open models: captured, kept for all visitors together, and read-only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import streamlit as st
from torch import nn
from torch.fx import GraphModule

from fxopt.core.weight_cache import WeightCache
from fxopt.errors import remarks
from fxopt.evidence import Demand, EvidenceError, demand_of
from fxopt.models import ZOO, Inputs, ModelSource
from fxopt.tracing import CaptureReport, CaptureStore, capture
from fxopt.ui.large import Stage, built_apart, captured_apart, inputs_apart
from fxopt.ui.limits import check_demand
from fxopt.ui.once import Latest, Once
from fxopt.ui.own_models import OwnModel
from fxopt.ui.workshop import is_workshop
from fxopt.view import GraphView, VisibleGraph, default_unfolded, visible
from fxopt.workbench import Workbench

MODELS, CAPTURES = (32, 64) if is_workshop() else (3, 6)
"""The number of models and captures that are kept in memory, for all visitors together; a workshop has small ones."""

ANSWERS, FEWEST_ANSWERS, NODES = 64, 8, 50_000
"""So many pictures and tables are kept of a capture: of large graphs fewer, with so many nodes in all."""
MEASURED = 16
"""So many measurements are kept of a capture, for those who waited for them in line."""


@dataclass(frozen=True, eq=False)
class OpenModel:
    """A captured model, read-only, as all visitors share it."""

    source: ModelSource
    model: nn.Module
    batch: int
    sequence: int | None
    inputs: Inputs
    workbench: Workbench
    """A workbench whose passes stay off: visitors work on others like it (`Workbench.another`)."""

    once: Once
    """Plain data of it, and of the graphs that passes make of it."""

    remarks: tuple[str, ...] = ()
    """The warnings of its build and its capture, in sentences: weights that fit nowhere, NaN in them."""
    latest: Latest = field(default_factory=lambda: Latest(MEASURED))
    """The latest measurements of the graphs that passes make of it."""

    @property
    def pristine(self) -> GraphModule:
        return self.workbench.pristine

    @cached_property
    def view(self) -> GraphView:
        return GraphView.of(self.pristine)

    @cached_property
    def blocks(self) -> frozenset[str]:
        """The modules that are open in the first picture."""
        return default_unfolded(self.view)

    @cached_property
    def first_picture(self) -> VisibleGraph:
        return visible(self.view, self.blocks)

    @property
    def begins_on(self) -> bool:
        """Whether the first pass is on as the page opens: that of a graph that is compared with its original."""
        return isinstance(self.source, OwnModel) and self.source.after is not None

    @property
    def report(self) -> CaptureReport:
        return self.pristine.meta.get("fxopt", CaptureReport("given"))

    @property
    def sizes(self) -> str:
        return _sizes(self.batch, self.sequence)

    @cached_property
    def demand(self) -> Demand:
        """The demand of one run on the example."""
        args, kwargs = self.inputs
        return demand_of(self.pristine, args, kwargs)


def _sizes(batch: int, sequence: int | None) -> str:
    return f"batch {batch}" + (f", sequence {sequence}" if sequence is not None else "")


def _checked_demand(subject: str, model: nn.Module, args: Any, kwargs: Any) -> Demand | None:
    """Return the demand of a run, which may be begun; None of a model that asks for the value of a number.

    Raises:
        ModelError: it takes more than a visitor may use.
    """
    try:
        demand = demand_of(model, args, kwargs)
    except EvidenceError:
        return None  # its capture says more
    check_demand(subject, demand)
    return demand


_MODERATE = Demand(0, 0, {})
"""Stands for that of a model of the picker as it opens."""
_WEIGHTS: WeakKeyDictionary[nn.Module, WeightCache] = WeakKeyDictionary()
"""By model, the weights that passes compute: the same at all sizes at which it is captured."""


@st.cache_resource(max_entries=MODELS, show_spinner=False)
def built(key: str, stamp: str, _source: ModelSource) -> tuple[nn.Module, tuple[str, ...]]:
    """Return the model of a source, and the remarks on it. `stamp` changes with the files behind `key`."""
    with remarks() as made:
        return built_apart(_source), tuple(made)


def _kept_capture(key: str, model: nn.Module, args: Any, kwargs: Any, progress: Stage) -> GraphModule:
    """Return the capture of a model whose weights are always the same."""
    return CaptureStore.of_this_user().capture(key, model, args, kwargs, progress)


def _new_capture(key: str, model: nn.Module, args: Any, kwargs: Any, progress: Stage) -> GraphModule:
    return capture(model, args, kwargs, progress=progress)


def _go_on(stage: str) -> bool:
    """Stand in for a listener."""
    return True


@st.cache_resource(max_entries=CAPTURES, show_spinner=False)
def captured(
    key: str,
    stamp: str,
    batch: int,
    sequence: int | None,
    _source: ModelSource,
    _progress: Callable[[str], bool] | None = None,
) -> OpenModel:
    """Return the captured model of a source. If `_progress` returns False, the capture ends and is dropped."""
    model, made = built(key, stamp, _source)
    args, kwargs = inputs_apart(_source, model, batch, sequence, _progress or _go_on)
    if isinstance(_source, OwnModel):
        _ = _source.graph  # what its capture says of a model that does not run comes before the size of a run
    demand: Demand | None = _MODERATE
    if _source not in ZOO or (batch, sequence) != _source.sizes.checked(_source.title, None, None):
        demand = _checked_demand(f"{_source.title} at {_sizes(batch, sequence)}", model, args, kwargs)
    weights = _WEIGHTS.setdefault(model, WeightCache.as_large_as(model))
    with remarks() as of_capture:
        if isinstance(_source, OwnModel):
            gm = _source.graph
            made = (*made, *_source.remarks)
        else:
            way = _kept_capture if _source in ZOO else _new_capture
            gm = captured_apart(lambda stage: way(key, model, args, kwargs, stage), model, _progress or _go_on, demand)
        passes = _source.passes() if isinstance(_source, OwnModel) else None
        workbench = Workbench(gm, passes=passes, weights=weights)
    workbench.release()
    fitting = NODES // len(workbench.pristine.graph.nodes)
    once = Once(max(FEWEST_ANSWERS, min(ANSWERS, fitting)))
    opened = OpenModel(_source, model, batch, sequence, (args, kwargs), workbench, once, (*made, *of_capture))
    _ = opened.first_picture  # here, where others who ask for the same model wait, and is made once
    return opened
