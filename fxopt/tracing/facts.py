"""Facts of an input besides its sizes and values, and modes of the process, that a forward may decide by.

A recording runs on one example, which answers a question like ``x.is_contiguous()`` once and for all. So the questions
are noted, and the verification tries inputs, and modes, with the other answers; see `trials.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, Node

from fxopt.graph.nodes import SourceLine

Change = Callable[[torch.Tensor], torch.Tensor | None]
"""Gives a tensor of the same values, as far as its dtype holds them, of which a fact is another; None if it cannot."""


def changed_by(change: Change, x: torch.Tensor) -> torch.Tensor | None:
    """Return `x` as it is after a change; None where there is no such change, as of the strides of a sparse tensor."""
    try:
        return change(x)
    except RuntimeError:  # torch has no such operation on this kind of tensor
        return None


@dataclass(frozen=True)
class Fact:
    """A fact of a tensor: `of` puts it into words, `others` give tensors of which it is another.

    ``asked_by`` are the methods, properties and functions of torch that tell it. ``of_values`` says that it passes from
    an input to values computed from it, but not through a layer with weights.
    """

    of: Callable[[torch.Tensor], str]
    others: tuple[Change, ...]
    asked_by: frozenset[str]
    remedies: Mapping[str, str] = field(default_factory=dict)
    """By what `of` says of an input that is taken: the code that makes such a one."""
    of_values: bool = False

    def remedy(self, name: str, accepted: Iterable[str]) -> str:
        """Return the code that makes an input called `name` one that is accepted, as the beginning of a remedy."""
        if any(each.startswith("is torch.") for each in accepted):
            return f"give {name}.to({next(iter(accepted)).removeprefix('is ')}), or "
        found = [self.remedies[each].format(name) for each in accepted if each in self.remedies]
        return f"give {found[0]}, or " if found else ""


@dataclass(frozen=True)
class Mode:
    """A mode of torch: `of` puts it into words, and `trial` turns it on in this thread; None if it is one for all."""

    of: Callable[[], str]
    asked_by: frozenset[str]
    trial: Callable[[], contextlib.AbstractContextManager[Any]] | None = None


@dataclass(frozen=True)
class Ask:
    """A question of forward for a fact of the tensor of `node`."""

    name: str
    node: Node | None
    line: SourceLine | None


# ---------------------------------------------------------------- memory
def _format(x: torch.Tensor) -> str:
    if x.layout is not torch.strided:
        return "has no strides"
    if x.is_contiguous():
        return "is contiguous"
    ranks = {4: torch.channels_last, 5: torch.channels_last_3d}
    in_format = x.dim() in ranks and x.is_contiguous(memory_format=ranks[x.dim()])
    return "is in the format channels_last" if in_format else "is not contiguous"


def _contiguous(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous()


def _spaced(x: torch.Tensor) -> torch.Tensor | None:
    return torch.stack([x, x], -1)[..., 0] if x.dim() else None


def _swapped(one: int, other: int) -> Change:
    def change(x: torch.Tensor) -> torch.Tensor | None:
        fits = -x.dim() <= min(one, other) and max(one, other) < x.dim()
        return x.transpose(one, other).contiguous().transpose(one, other) if fits else None

    return change


def _channels_last(x: torch.Tensor) -> torch.Tensor | None:
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else None


def _ownership(x: torch.Tensor) -> str:
    if x.layout is not torch.strided:
        return "has no storage"
    whole = x.storage_offset() == 0 and x.untyped_storage().nbytes() == x.numel() * x.element_size()
    return "has a storage of its own" if whole and not x._is_view() else "is a part of another tensor"


def _part(x: torch.Tensor) -> torch.Tensor | None:
    return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape) if x.numel() else None


# ---------------------------------------------------------------- gradient, kind
def _gradient(x: torch.Tensor) -> str:
    if not x.requires_grad:
        return "requires no gradient"
    return "requires a gradient" if x.is_leaf else "comes from operations that a gradient passes"


def _requiring(x: torch.Tensor) -> torch.Tensor | None:
    return x.detach().requires_grad_() if _is_number(x) else None


def _computed(x: torch.Tensor) -> torch.Tensor | None:
    with torch.enable_grad():
        return x.detach().requires_grad_().clone() if _is_number(x) else None


def _is_number(x: torch.Tensor) -> bool:
    return x.is_floating_point() or x.is_complex()


def _to(dtype: torch.dtype, of: Callable[[torch.Tensor], bool]) -> Change:
    return lambda x: x.to(dtype) if x.dtype is not dtype and of(x) else None


def _is_whole(x: torch.Tensor) -> bool:
    return not _is_number(x) and x.dtype is not torch.bool


def _is_mask(x: torch.Tensor) -> bool:
    return not _is_number(x) and bool(((x == 0) | (x == 1)).all())


def _sparse(x: torch.Tensor) -> torch.Tensor | None:
    return x.to_sparse() if x.dim() and _is_number(x) else None


def _conjugated(x: torch.Tensor) -> torch.Tensor | None:
    return x.conj_physical().conj() if x.is_complex() else None


def _as_parameter(x: torch.Tensor) -> torch.Tensor | None:
    return nn.Parameter(x.detach(), requires_grad=False)


def _on(switch: bool) -> str:
    return "on" if switch else "off"


def _in_inference(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x.clone()


FACTS = {
    "memory format": Fact(
        _format,
        (_contiguous, _spaced, _swapped(-1, -2), _swapped(0, 1), _channels_last),
        frozenset({"is_contiguous", "stride", "dim_order", "is_non_overlapping_and_dense"}),
        {"is contiguous": "{}.contiguous()"},
    ),
    "storage": Fact(
        _ownership,
        (torch.clone, _part),
        frozenset({"storage_offset", "_is_view", "_base", "untyped_storage", "storage", "is_set_to"}),
        {"has a storage of its own": "{}.clone()"},
    ),
    "gradient": Fact(
        _gradient,
        (torch.Tensor.detach, _requiring, _computed),
        frozenset({"requires_grad", "is_leaf", "grad_fn", "retains_grad"}),
        {"requires no gradient": "{}.detach()"},
    ),
    "dtype": Fact(
        lambda x: f"is {x.dtype}",
        (
            _to(torch.float64, torch.is_floating_point), _to(torch.float32, torch.is_floating_point),
            _to(torch.float16, torch.is_floating_point), _to(torch.bfloat16, torch.is_floating_point),
            _to(torch.int32, _is_whole), _to(torch.int64, _is_whole), _to(torch.bool, _is_mask),
            _to(torch.int64, _is_mask), _to(torch.float32, _is_mask),
        ),
        frozenset(
            {"dtype", "is_floating_point", "is_complex", "is_signed", "element_size", "itemsize", "nbytes", "type"}
        ),
        of_values=True,
    ),
    "layout": Fact(
        lambda x: f"has the layout {x.layout}",
        (torch.Tensor.to_dense, _sparse),
        frozenset({"layout", "is_sparse", "is_sparse_csr", "is_coalesced"}),
        {"has the layout torch.strided": "{}.to_dense()"},
    ),
    "conjugation": Fact(
        lambda x: "is conjugated where it is read" if x.is_conj() else "holds its values as they are",
        (torch.resolve_conj, _conjugated),
        frozenset({"is_conj"}),
        {"holds its values as they are": "{}.resolve_conj()"},
    ),
    "class": Fact(
        lambda x: f"is {'a' if isinstance(x, nn.Parameter) else 'no'} parameter",
        (torch.Tensor.detach, _as_parameter),
        frozenset({"Parameter"}),
        {"is no parameter": "{}.detach()"},
    ),
    "origin": Fact(
        lambda x: f"was made {'under' if x.is_inference() else 'outside of'} inference_mode",
        (torch.clone, _in_inference),
        frozenset({"is_inference"}),
        {"was made outside of inference_mode": "{}.clone()"},
    ),
}  # fmt: skip
MODES = {
    "grad mode": Mode(
        lambda: _on(torch.is_grad_enabled()),
        frozenset({"is_grad_enabled"}) | FACTS["gradient"].asked_by,
        torch.enable_grad,
    ),
    "inference mode": Mode(
        lambda: _on(torch.is_inference_mode_enabled()),
        frozenset({"is_inference_mode_enabled"}) | FACTS["origin"].asked_by,
        torch.inference_mode,
    ),
    "autocast": Mode(
        lambda: _on(torch.is_autocast_enabled("cpu")),
        frozenset({"is_autocast_enabled", "get_autocast_dtype"}),
        lambda: torch.autocast("cpu", torch.bfloat16),
    ),
    "the default dtype": Mode(lambda: str(torch.get_default_dtype()), frozenset({"get_default_dtype"})),
    "deterministic algorithms": Mode(
        lambda: _on(torch.are_deterministic_algorithms_enabled()), frozenset({"are_deterministic_algorithms_enabled"})
    ),
}


def asked_facts(asks: Iterable[Ask], carriers: Collection[Node]) -> dict[str, SourceLine | None]:
    """Return the facts and modes that are asked for, each with the first line that does.

    Args:
        carriers: the nodes whose tensors get facts of their dtype from an input; see `carriers_of`.
    """
    found: dict[str, SourceLine | None] = {}
    for ask in asks:
        for name in _TOLD_BY.get(ask.name, ()):
            if name in MODES or not FACTS[name].of_values or ask.node in carriers:
                found.setdefault(name, ask.line)
    return found


def carriers_of(graph: Graph, has_weights: Callable[[Node], bool]) -> set[Node]:
    """Return the nodes whose values come from an input by other ways than through a layer with weights.

    Such a layer gives the dtype of its weights, or refuses another.
    """
    carriers: set[Node] = set()
    for node in graph.nodes:
        if node.op == "placeholder" or (not has_weights(node) and not carriers.isdisjoint(node.all_input_nodes)):
            carriers.add(node)
    return carriers


_TABLES: tuple[Mapping[str, Fact | Mode], ...] = (FACTS, MODES)
_TOLD_BY: dict[str, list[str]] = {}
for _name, _names in {name: each.asked_by for table in _TABLES for name, each in table.items()}.items():
    for _asking in _names:
        _TOLD_BY.setdefault(_asking, []).append(_name)


def tells_a_fact(name: str) -> bool:
    """Return whether a method, property or function of this name tells a fact or a mode."""
    return name in _TOLD_BY
