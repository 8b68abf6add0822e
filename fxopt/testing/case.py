"""A model that laws are checked on."""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_map_only

from fxopt.evidence.float64 import in_float64, run_in_float64
from fxopt.evidence.running import run
from fxopt.tracing import capture


@dataclass(frozen=True, eq=False)
class Case:
    """A model that laws are checked on."""

    name: str
    model: nn.Module
    inputs: tuple[tuple[Any, ...], ...]
    """One or more tuples of positional arguments."""
    captured: GraphModule = field(repr=False)
    """Its graph, which shares modules and weights with the model."""
    pristine: GraphModule = field(repr=False)
    """A copy with memory of its own."""
    skipped: list[str] = field(default_factory=list)
    """The checks left out for this model, with the reasons."""

    @classmethod
    def of(cls, name: str, model: nn.Module, *inputs: tuple[Any, ...]) -> Case:
        """Return the case of a model, which is captured, or of a graph module, which is taken as it is."""
        gm = model if isinstance(model, GraphModule) else capture(model, inputs[0])
        return cls(name, model, inputs, gm, copied(gm))

    def graph(self) -> GraphModule:
        """Return a fresh copy of the graph, free to be changed."""
        return copied(self.pristine)

    @cached_property
    def expected(self) -> list[tuple[list[torch.Tensor], list[torch.Tensor] | None]]:
        """For each of the inputs, the outputs before any pass, and the outputs without rounding.

        The latter are None where the model cannot run in float64, and `skipped` says so.
        """
        old = [tensors(run(self.graph(), x, {})) for x in self.inputs]
        narrow: dict[str, None] = {}
        try:
            with torch_may_copy():
                wide = in_float64(self.pristine)
            exact = [tensors(run_in_float64(wide, x, {}, narrow)) for x in self.inputs]
        except Exception as error:  # noqa: BLE001 - a model may fail in any way in another precision than its own
            why = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            self.skipped.append(f"{self.name}: no float64 reference ({why}); outputs are compared with those before")
            return [(before, None) for before in old]
        if narrow:
            self.skipped.append(f"{self.name}: {', '.join(narrow)} runs in its own precision in the reference as well")
        return list(zip(old, exact, strict=True))

    @cached_property
    def special(self) -> list[tuple[str, tuple[Any, ...], list[torch.Tensor]]]:
        """The first inputs with zeros of both signs, with the ends of the range and with numbers that are not finite.

        Each comes with its name and the outputs before any pass. Inputs that the model refuses are `skipped`.
        """
        found = []
        for kind, values in _SPECIAL.items():
            args = tree_map_only(torch.Tensor, partial(_with_values, values=values), self.inputs[0])
            try:
                found.append((kind, args, tensors(run(self.graph(), args, {}))))
            except Exception as error:  # noqa: BLE001 - a model may refuse such numbers in any way
                self.skipped.append(f"{self.name}: it takes no {kind} ({type(error).__name__})")
        return found


_SPECIAL: dict[str, Callable[[torch.finfo], tuple[float, ...]]] = {
    "signed zeros": lambda info: (-0.0, 0.0),
    "the largest and smallest numbers": lambda info: (info.max, info.min, info.tiny, -info.tiny / 4, info.tiny / 2),
    "infinities": lambda info: (math.inf, -math.inf),
    "NaN": lambda info: (math.nan,),
}


def _with_values(tensor: torch.Tensor, values: Callable[[torch.finfo], tuple[float, ...]]) -> torch.Tensor:
    """Return a copy of a tensor of floats or complex numbers in which some numbers are the special `values`."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.layout is not torch.strided:
        return tensor
    changed = tensor.detach().clone()
    numbers = torch.view_as_real(changed) if changed.is_complex() else changed
    special = torch.tensor(values(torch.finfo(tensor.dtype)), dtype=numbers.dtype)
    # every third number, so that rows and columns have them at different places beside ordinary ones
    places = torch.arange(numbers.numel()).reshape(numbers.shape)
    numbers.copy_(torch.where(places % 3 == 0, special[places // 3 % len(special)], numbers))
    return changed


def tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


@contextlib.contextmanager
def torch_may_copy() -> Iterator[None]:
    """Silence torch's warning about the way in which it copies exported programs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".isinstance.treespec, LeafSpec", FutureWarning)
        yield


def copied(thing: Any) -> Any:
    with torch_may_copy():
        return copy.deepcopy(thing)
