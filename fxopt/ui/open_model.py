"""The models that are open: captured, kept for all visitors together, read and never changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st
from torch import nn
from torch.fx import GraphModule

from fxopt.capture import CaptureReport, capture
from fxopt.models import Inputs, ModelSource

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
def captured(
    key: str,
    stamp: str,
    batch: int,
    sequence: int | None,
    _source: ModelSource,
    _progress: Callable[[str], bool] | None = None,
) -> OpenModel:
    """The captured model of a source. Where `_progress` returns False, the capture ends and nothing is kept."""
    model = built(key, stamp, _source)
    args, kwargs = _source.inputs(model, batch, sequence)
    return OpenModel(_source, model, batch, sequence, (args, kwargs), capture(model, args, kwargs, progress=_progress))
