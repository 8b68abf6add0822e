"""The modules that can be put into a graph by hand, each written as Python would: ``ReLU``, ``Dropout(p=0.1)``.

All are without parameters, so building one draws no random number. A spec is parsed, but not run: a name of the
catalog, and literal values.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from fxopt.core import Unmet
from fxopt.edits.probe import Probe


@dataclass(frozen=True)
class CatalogEntry:
    kind: Callable[..., nn.Module]
    parameters: tuple[str, ...] = ()
    """The parameters, in this order or by name."""
    example: str = ""
    """The form in which it is offered, where it needs a value."""
    fixed: Mapping[str, Any] = field(default_factory=dict)


CATALOG: Mapping[str, CatalogEntry] = {
    "Identity": CatalogEntry(nn.Identity),
    "Probe": CatalogEntry(Probe),
    "Dropout": CatalogEntry(nn.Dropout, ("p",), "Dropout(p=0.1)"),
    "ReLU": CatalogEntry(nn.ReLU),
    "GELU": CatalogEntry(nn.GELU, ("approximate",)),
    "SiLU": CatalogEntry(nn.SiLU),
    "Tanh": CatalogEntry(nn.Tanh),
    "Sigmoid": CatalogEntry(nn.Sigmoid),
    "LeakyReLU": CatalogEntry(nn.LeakyReLU, ("negative_slope",), "LeakyReLU(negative_slope=0.01)"),
    "ELU": CatalogEntry(nn.ELU, ("alpha",)),
    "ReLU6": CatalogEntry(nn.ReLU6),
    "Mish": CatalogEntry(nn.Mish),
    "Softplus": CatalogEntry(nn.Softplus, ("beta", "threshold")),
    "Softsign": CatalogEntry(nn.Softsign),
    "Hardswish": CatalogEntry(nn.Hardswish),
    "Hardsigmoid": CatalogEntry(nn.Hardsigmoid),
    "Hardtanh": CatalogEntry(nn.Hardtanh, ("min_val", "max_val")),
    "Softmax": CatalogEntry(nn.Softmax, ("dim",), "Softmax(dim=-1)"),
    "LogSoftmax": CatalogEntry(nn.LogSoftmax, ("dim",), "LogSoftmax(dim=-1)"),
    "LayerNorm": CatalogEntry(nn.LayerNorm, ("normalized_shape", "eps"), "", {"elementwise_affine": False}),
    "RMSNorm": CatalogEntry(nn.RMSNorm, ("normalized_shape", "eps"), "", {"elementwise_affine": False}),
    "MaxPool2d": CatalogEntry(nn.MaxPool2d, ("kernel_size", "stride", "padding"), "MaxPool2d(kernel_size=2)"),
    "AvgPool2d": CatalogEntry(nn.AvgPool2d, ("kernel_size", "stride", "padding"), "AvgPool2d(kernel_size=2)"),
    "Flatten": CatalogEntry(nn.Flatten, ("start_dim", "end_dim")),
}

OFFERED = tuple(entry.example or name for name, entry in CATALOG.items() if "normalized_shape" not in entry.parameters)
"""Specs for a visitor to choose from."""


def built(spec: str) -> nn.Module | Unmet:
    """Return the module of a spec for a trial, or the reason why there is none; `new_module` makes modules to keep.

    >>> built("Dropout(p=0.1)")
    Dropout(p=0.1, inplace=False)
    >>> built("Linear(2, 2)").reason
    'Linear is not in the catalog'
    """
    try:
        return new_module(spec)
    except SpecError as error:
        return error.unmet


class SpecError(ValueError):
    """A spec that names no module of the catalog; `unmet` holds the reason."""

    def __init__(self, unmet: Unmet) -> None:
        super().__init__(unmet.reason)
        self.unmet = unmet


def new_module(spec: str) -> nn.Module:
    """Return the module of a spec.

    Raises:
        SpecError: there is none.
    """
    name, positional, keywords = _parsed(spec)
    entry = CATALOG.get(name)
    if entry is None:
        raise SpecError(Unmet(f"{name} is not in the catalog", f"choose one of {', '.join(CATALOG)}", name, "a module of the catalog"))  # noqa: E501  # fmt: skip
    takes = ", ".join(entry.parameters) or "no value"
    given = dict(zip(entry.parameters, positional)) | keywords
    wrong = [key for key in keywords if key not in entry.parameters]
    if wrong or len(positional) > len(entry.parameters) or len(given) < len(positional) + len(keywords):
        raise SpecError(Unmet(f"{name} cannot be given {', '.join(wrong) or 'so many values'}", f"it takes {takes}", spec, takes))  # noqa: E501  # fmt: skip
    try:
        return entry.kind(**given, **entry.fixed)
    except (TypeError, ValueError) as error:
        raise SpecError(Unmet(f"{spec} cannot be made: {error}", f"it takes {takes}", spec, takes)) from None


def passes_through(module: nn.Module) -> bool:
    """Check that a module is sure to return its very input."""
    return type(module) in (nn.Identity, Probe) or (type(module) is nn.Dropout and not module.training)


def _parsed(spec: str) -> tuple[str, list[Any], dict[str, Any]]:
    try:
        tree = ast.parse(spec.strip(), mode="eval").body
        if isinstance(tree, ast.Name):
            return tree.id, [], {}
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
            keywords = {key.arg: ast.literal_eval(key.value) for key in tree.keywords if key.arg}
            if len(keywords) == len(tree.keywords):
                return tree.func.id, [ast.literal_eval(value) for value in tree.args], keywords
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # told below
    raise SpecError(Unmet(f"{spec!r} is not written like a module", "write it like Dropout(p=0.1)", spec, "Name(key=value)"))  # noqa: E501  # fmt: skip
