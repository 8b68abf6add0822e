"""The family of an operation, which decides the color of a box and only that."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch.fx import Node

from fxopt.graph.nodes import module_of
from fxopt.graph.operator_table import (
    ACTIVATIONS,
    ATTENTION,
    CONVOLUTIONS,
    POINTWISE,
    PRODUCTS,
    SEVERAL_PARTS,
    VIEWS,
    VIEWS_OR_COPIES,
    is_tagged_pointwise,
)
from fxopt.graph.operators import name_of

KINDS: dict[str, str] = {
    "io": "input, output",
    "linear": "linear",
    "conv": "convolution, pooling",
    "norm": "normalization",
    "activation": "activation",
    "attention": "matmul, attention",
    "embedding": "embedding",
    "arithmetic": "arithmetic",
    "shape": "shape",
    "constant": "constant",
    "other": "other",
    "group": "folded module",
}
"""Every kind with the words that a legend uses for it."""

_BY_OPERATOR = (
    ("linear", {"linear", "addmm"}),
    ("conv", CONVOLUTIONS),
    ("attention", PRODUCTS | ATTENTION | {"softmax", "log_softmax"}),
    ("activation", ACTIVATIONS),
    ("arithmetic", POINTWISE),
    ("shape", VIEWS | SEVERAL_PARTS | VIEWS_OR_COPIES),
)
"""The kinds of operators that the table knows; the first that fits wins."""

# Modules go by their names, and so do operators that neither the table nor torch's tag knows. The first pattern that
# fits a name wins, so the order matters: `LayerNorm` is a norm before `layer` means anything, and the `Conv1D` of
# transformers is a linear layer while torch's `Conv1d` is none.
_PATTERNS = (
    ("linear", r"Linear|^linear$|Conv1D|addmm"),
    ("conv", r"(?i:conv|pool(?:ing|\d|$))"),
    ("attention", r"(?i:attention|matmul|bmm|einsum|softmax|^mm$|^dot$|RNN|LSTM|GRU)"),
    ("norm", r"(?i:norm)"),
    ("embedding", r"(?i:embedding|one_hot)"),
    ("activation", r"(?i:relu|gelu|silu|swish|tanh|sigmoid|elu|glu|mish|softplus|activation|hardtanh)"),
    (
        "shape",
        r"(?i:view|reshape|transpose|permute|flatten|squeeze|expand|^cat$|concat|stack|split|chunk|getitem"
        r"|contiguous|^size$|^shape$|^dim$|numel|unbind|repeat|^t$|narrow|select|slice|movedim|swap|roll"
        r"|fold|^pad$|getattr|gather|arange|tile|broadcast)",
    ),
    (
        "arithmetic",
        r"(?i:add|sub|mul|div|pow|sqrt|mean|sum|neg|exp|log|cos|sin|where|mask|max|min|abs|cumsum|var|std"
        r"|clamp|^eq$|^ne$|^lt$|^le$|^gt$|^ge$|and|or|not|invert|erf|round|floor|ceil|square|reciprocal|tri[lu])",
    ),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)


def kind_of(node: Node) -> str:
    """Return the family of `node`, one of `KINDS`."""
    if node.op in ("placeholder", "output"):
        return "io"
    if node.op == "get_attr":
        return "constant"
    if node.op == "call_module":
        module = module_of(node)
        # A subclass is drawn as its base class: its own name may say nothing.
        return kind_of_names(base.__name__ for base in type(module).__mro__[:-2])
    target = node.target
    if isinstance(target, type):
        return "other"
    name = name_of(target, node.op == "call_method").strip("_")
    known = (kind for kind, names in _BY_OPERATOR if name in names)
    if kind := next(known, "arithmetic" if is_tagged_pointwise(name) else ""):
        return kind
    return kind_of_names([name or str(target)])


def kind_of_names(names: Iterable[str]) -> str:
    """Return the family of the first name that belongs to one.

    >>> kind_of_names(["MyProjection", "Linear"])
    'linear'
    """
    for name in names:
        for kind, pattern in _COMPILED:
            if pattern.search(name):
                return kind
    return "other"
