"""The models of whoever serves the page, given in Python: they come first in the picker."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from fxopt.core import Ledger, Pass, as_pass
from fxopt.errors import FxoptError, ModelError, remarks
from fxopt.graph.copying import shared_copy
from fxopt.models import Inputs, ModelSource, SizeRange, Sizes, model_source
from fxopt.passes import registered_passes
from fxopt.tracing import capture
from fxopt.ui.workshop import is_workshop, models_here

YOUR_CHANGES = "your changes"
"""The name of the pass that leads to the graph that someone's own code made."""

_numbers = itertools.count(1)


@dataclass(frozen=True, eq=False)
class OwnModel:
    """A model that this process holds, with the one example that it was captured with; see `OwnModel.of`."""

    title: str
    """Its name in the picker: ``model.py:make``."""
    model: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    captured: GraphModule | FxoptError
    """The graph, or the reason why there is none."""
    after: GraphModule | None = None
    """The graph that someone's own code made of it, to be compared."""
    remarks: tuple[str, ...] = ()
    """The warnings of its capture, in sentences."""
    stamp: str = field(default_factory=lambda: str(next(_numbers)))
    """Tells it from another model that was given under this name before."""

    @classmethod
    def of(
        cls,
        title: str,
        model: nn.Module,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        after: nn.Module | None = None,
    ) -> OwnModel:
        """Return the captured model. A capture that fails is kept as its error, for the page to show."""
        captured: GraphModule | FxoptError
        changed = None
        with remarks() as made:
            try:
                captured = _captured(model, args, kwargs)
                if after is not None:
                    changed = _captured(after, args, kwargs)
                    Ledger.of(changed).detach(changed)
            except FxoptError as error:
                captured = error
        return cls(title, model, tuple(args), dict(kwargs or {}), captured, changed, tuple(made))

    def passes(self) -> tuple[Pass[Any], ...]:
        """Return the passes of its workbench: the change into the graph `after`, if there is one, and all others."""
        others = tuple(kind() for kind in registered_passes())
        after = self.after
        if after is None:
            return others

        def your_changes(graph_module: GraphModule) -> GraphModule:
            """Change the graph into the one that your own code made of it."""
            return shared_copy(after)

        return (as_pass(your_changes, YOUR_CHANGES), *others)

    @property
    def graph(self) -> GraphModule:
        """The captured graph; raises the error of a capture that failed."""
        if isinstance(self.captured, FxoptError):
            raise self.captured
        return self.captured

    @property
    def key(self) -> str:
        return f"own:{self.title}"

    @property
    def description(self) -> str:
        return f"A {type(self.model).__name__} that was given in Python, with its own example."

    @property
    def sizes(self) -> Sizes:
        tensors = [one for one in tree_leaves((self.args, dict(self.kwargs))) if isinstance(one, torch.Tensor)]
        batch = next((one.shape[0] for one in tensors if one.dim() and one.shape[0]), 1)
        return Sizes(SizeRange(batch, most=batch, least=batch))

    def build(self) -> nn.Module:
        """Return the model itself: the page only reads it."""
        return self.model

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        """Return the example; its sizes are its own."""
        return self.args, dict(self.kwargs)


def _captured(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any] | None) -> GraphModule:
    return capture(shared_copy(model) if isinstance(model, GraphModule) else model, args, kwargs)


_OWN: dict[str, OwnModel] = {}
"""By key, in the order of the picker. They belong to the process, as its command line does."""


_begins: tuple[str, str] = ("", "")


def begin_with(key: str, folder: str = "") -> None:
    """Let the page open on a model of its own picker, or a folder: ``fxopt app bert-base``."""
    global _begins
    _begins = key, folder


def beginning() -> tuple[str, str]:
    """Return key and folder of the model that the page opens on where its address names none."""
    return _begins if _begins[0] else (offered()[0].key, "")


def offer(models: Sequence[OwnModel]) -> None:
    """Offer these models in the picker, before the built-in ones, instead of those that were offered before.

    The page opens on the first of them.

    Raises:
        ModelError: two of them have one name.
    """
    if len({one.key for one in models}) < len(models):
        raise ModelError("two models have one name; give each once")
    _OWN.clear()
    _OWN.update({one.key: one for one in models})
    begin_with("")


def offer_also(model: OwnModel) -> None:
    """Offer one more model, as the first of the picker; it takes the place of one of the same name."""
    others = {key: one for key, one in _OWN.items() if key != model.key}
    _OWN.clear()
    _OWN.update({model.key: model} | others)


def withdraw(model: OwnModel) -> None:
    """Take a model out of the picker, unless another one has taken its place."""
    if _OWN.get(model.key) is model:
        del _OWN[model.key]


def offered() -> tuple[ModelSource, ...]:
    """Return the models of the picker, in its order."""
    return (*tuple(_OWN.values()), *models_here())


def offered_source(key: str) -> ModelSource:
    """Return the model of the picker with this key.

    Raises:
        ModelError: there is none.
    """
    own = _OWN.get(key)
    if own is None and is_workshop() and key not in {source.key for source in models_here()}:
        raise ModelError(f"this workshop has no model {key!r}; choose one of the picker")
    return own if own is not None else model_source(key)
