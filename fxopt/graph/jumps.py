"""Jumps: operations whose result changes in a step where a number crosses a bound, as floor, comparisons and argmax.

A number that is rounded otherwise may lie on the other side of the bound, and the result is then another one, for any
size of the difference: with ``x = 41 * 3``, ``floor(x / 41)`` is 3 and ``floor(x * (1 / 41))`` may be 2. So a rewrite
that is exact up to rounding leaves a site alone if its value reaches a jump through operations that work number by
number, or that only move or choose numbers, as a pool does. The end of a domain counts as a jump: behind 1, ``acos`` is
NaN. Those that mix numbers (matrix products, sums, softmax, norms) end the search: behind them all is mixed already,
and only numbers tell.

An index is an integer, which a float becomes by a jump; so ``one_hot`` and indexing need no entry of their own.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import Any

import torch
from torch import nn
from torch.fx import Node

from fxopt.graph.conditions import Condition, Unmet
from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import reads_metadata_only
from fxopt.graph.module_table import modules_of
from fxopt.graph.nodes import info_of, inputs_of, operation_name, target_name
from fxopt.graph.operator_names import canonical
from fxopt.graph.operator_table import (
    CASTS,
    COPIES,
    DROPOUTS,
    EDGES,
    JUMPS,
    LOOK_UPS,
    POINTWISE,
    SEVERAL_PARTS,
    VIEWS,
    VIEWS_OR_COPIES,
    is_tagged_pointwise,
)
from fxopt.graph.operators import calls_torchs_own

_QUANTIZING = ("quantize", "fake_quantize")
_CONVERSIONS = frozenset({"to", "type", "type_as", "to_copy", "view", "view_copy", "convert_element_type", "as_tensor",
                          "asarray"})  # fmt: skip
"""They jump where they give integers."""

_CONTINUOUS = (POINTWISE - JUMPS) | {
    *("logsigmoid", "tanhshrink", "expit", "isposinf", "isneginf", "pos", "radd", "rmul", "rtruediv", "rpow", "glu"),
    *("rrelu", "rrelu_with_noise", "rrelu_with_noise_functional", "complex", "polar", "outer", "ger", "kron", "diff"),
    *("cumsum", "cumprod", "logcumsumexp", "index_add", "scatter_add", "scatter_reduce", "index_reduce"),
    *("segment_reduce", "quantile", "nanquantile"),
}  # fmt: skip
"""Number by number, beside the operators that torch tags so; or of a few numbers, of one at the least."""

_SELECTIONS = frozenset({
    *("max", "min", "amax", "amin", "aminmax", "median", "nanmedian", "max_pool1d", "max_pool2d", "max_pool3d"),
    *("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "fractional_max_pool2d"),
    *("fractional_max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d", "interpolate", "upsample"),
    *("upsample_nearest", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"),
})  # fmt: skip
"""Each number of the result is one of the inputs'."""

_MOVES = _CONVERSIONS | VIEWS | SEVERAL_PARTS | VIEWS_OR_COPIES | COPIES | LOOK_UPS | DROPOUTS | CASTS | _SELECTIONS | {
    *("unsafe_view", "ravel", "broadcast_to", "broadcast_tensors", "setitem", "take", "take_along_dim", "put"),
    *("masked_select", "masked_scatter", "hstack", "vstack", "dstack", "row_stack", "column_stack", "split_with_sizes"),
    *("tensor_split", "hsplit", "vsplit", "dsplit", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "tile"),
    *("unfold", "repeat_interleave", "diag", "diagflat", "diagonal", "diag_embed", "linalg_diagonal", "fill_diagonal"),
    *("scatter", "index_put", "index_copy", "msort", "fliplr", "flipud", "rot90", "fft_fftshift", "fft_ifftshift"),
    *("fftshift", "ifftshift", "block_diag", "meshgrid", "cartesian_prod", "combinations", "atleast_1d", "atleast_2d"),
    *("atleast_3d", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle", "im2col"),
    *("pad_sequence", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d"),
    *("replication_pad2d", "replication_pad3d", "as_strided", "as_strided_copy", "as_strided_scatter", "unfold_copy"),
    *("slice_inverse", "resize", "resize_as", "set", "lift", "lift_fresh", "lift_fresh_copy", "flatten_dense_tensors"),
    *("to_dense", "real", "imag", "conj", "conj_physical", "resolve_conj", "resolve_neg", "view_as_real", "numpy_T"),
    *("view_as_complex", "mT", "mH", "matrix_H", "adjoint", "data", "requires_grad", "dequantize", "cpu", "cuda"),
    *("item", "tolist", "local_scalar_dense", "diagonal_copy", "unbind_copy", "split_copy", "split_with_sizes_copy"),
    *(f"{name}_copy" for name in VIEWS),
}  # fmt: skip
"""They move numbers, or convert them to another dtype. Without underscores around the name."""

_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "values"})

_PAIRS = frozenset({"topk", "sort", "kthvalue", "mode", "cummax", "cummin"})
_PAIRS_BY_DIMENSION = frozenset({"max", "min", "median", "nanmedian"})
"""By name: they give values, which are moved, and their places, which jump."""

_NORMS = {"norm": (1, "p"), "linalg_norm": (1, "ord"), "linalg_vector_norm": (1, "ord"), "dist": (2, "p"),
          "cdist": (2, "p"), "pdist": (1, "p"), "pairwise_distance": (2, "p"), "normalize": (1, "p")}  # fmt: skip
"""By name, the place and the name of the exponent: at 0 they count the numbers other than 0."""

_WRITES_WITH_A_CAST = frozenset({
    *("copy", "foreach_copy", "setitem", "fill", "masked_fill", "index_fill", "slice_scatter", "select_scatter"),
    *("diagonal_scatter", "as_strided_scatter"),
})  # fmt: skip
"""They write numbers of any dtype to their first tensor, of another dtype: fractions to integers."""

_MODULES = (
    *modules_of(_CONTINUOUS | _MOVES | {"softshrink"}),
    *(nn.Identity, nn.GLU, nn.RReLU, nn.Upsample, nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle, nn.Unfold),
    *(nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AdaptiveMaxPoolNd, nn.modules.pooling._MaxUnpoolNd),
    *(nn.modules.padding._ConstantPadNd, nn.modules.padding._ReflectionPadNd, nn.modules.padding._ReplicationPadNd),
    nn.modules.padding._CircularPadNd,
)
_JUMPING_MODULES = modules_of(JUMPS)


def jump_condition(node: Node, index: GraphIndex) -> Condition:
    """Require that the value of `node` reaches no jump through operations that work number by number or move them."""
    jump = index.cached_for_a_run(_jumps_behind, lambda: _jumps_behind(index)).get(node)
    return jump is None or Unmet(
        f"{node.name} reaches {jump.name} ({target_name(jump)}), where a number that is rounded otherwise may come out "
        "on the other side of a bound",
        remedy="leave it as it is; only a rewrite that gives the same bits is safe there",
        actual=f"read by {jump.name}",
        needed="the same bits, or no such operation behind it",
    )


def _jumps_behind(index: GraphIndex) -> dict[Node, Node]:
    """Return the nodes whose values reach a jump, each with the nearest one."""
    search = _Search(index)
    for node in index.gm.graph.nodes:
        if node.op.startswith("call_") and search.jumps(node):
            search.go_up(node, node)
    while search.todo:
        node = search.todo.popleft()
        if search.passes_on(node):
            search.go_up(node, search.found[node])
    return search.found


class _Search:
    """The way up from the jumps."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self.found: dict[Node, Node] = {}
        self.todo: deque[Node] = deque()

    def go_up(self, reader: Node, jump: Node) -> None:
        """Note that the inputs of `reader` reach `jump`, and so do earlier writes to their memory."""
        for node in inputs_of(reader):
            if reads_metadata_only(reader, node) or not _may_be_rounded(node):
                continue
            self._note(node, jump)
            for origin in self.index.origins(node) if self._writers else ():
                for writer in self._writers.get(origin, ()):
                    if writer < reader:
                        self._note(writer, jump)

    def _note(self, node: Node, jump: Node) -> None:
        if node not in self.found:
            self.found[node] = jump
            self.todo.append(node)

    @cached_property
    def _writers(self) -> dict[Node, list[Node]]:
        """The nodes that write in place, by the tensors whose memory they may write to."""
        writers: dict[Node, list[Node]] = {}
        for writer in self.index.writers:
            for written in self.index.effects(writer).written:
                for origin in self.index.origins(written):
                    writers.setdefault(origin, []).append(writer)
        return writers

    def jumps(self, node: Node) -> bool:
        """Return whether a small difference of an input may make a large one of the result."""
        if node.op == "call_module":
            module = self.index.module_of(node)
            pair = bool(getattr(module, "return_indices", False))
            return isinstance(module, _JUMPING_MODULES) or (pair and _places_are_read(node))
        name = _name(node)
        if name.startswith(_QUANTIZING):
            return True
        if name in JUMPS or name in EDGES:
            return calls_torchs_own(node)
        if name in _NORMS:
            return _norm_of(node, *_NORMS[name]) == 0
        if name in _WRITES_WITH_A_CAST:
            return calls_torchs_own(node) and not _may_be_fraction(node.args[0] if node.args else None)
        if name == "div":
            return node.kwargs.get("rounding_mode") is not None
        if name.startswith("grid_sample"):
            return _nearest(node) and calls_torchs_own(node)
        if _gives_pair(node, name):
            return _places_are_read(node)
        return name in _CONVERSIONS and calls_torchs_own(node) and _gives_steps(node)

    def passes_on(self, node: Node) -> bool:
        """Return whether the result differs as an input does, number by number; False at a jump."""
        if node.op == "call_module":
            return isinstance(self.index.module_of(node), _MODULES)
        if node.op not in ("call_function", "call_method") or not calls_torchs_own(node) or self.jumps(node):
            return False
        name = _name(node)
        if name == "getattr":
            return node.args[1] in _ATTRIBUTES
        if name == "einsum":  # of one tensor it moves numbers, of more it is a sum of products
            return len(node.all_input_nodes) == 1
        return name in _CONTINUOUS or name in _MOVES or _gives_pair(node, name) or is_tagged_pointwise(name)


def _name(node: Node) -> str:
    """Return the operation by name, the same for a method and for an operator, in place or otherwise."""
    return canonical(operation_name(node).strip("_")).strip("_")


def _may_be_rounded(node: Node) -> bool:
    """Return whether `node` may hold rounded numbers, unlike integers and truth values."""
    info = info_of(node)
    return info is None or info.dtype.is_floating_point or info.dtype.is_complex


def _may_be_fraction(written: Any) -> bool:
    """Return whether a tensor that is written to, or each of a list, is known to hold more than whole numbers."""
    if isinstance(written, list | tuple):
        return all(map(_may_be_fraction, written))
    info = info_of(written) if isinstance(written, Node) else None
    return info is not None and (info.dtype.is_floating_point or info.dtype.is_complex) and info.dtype.itemsize > 1


def _nearest(node: Node) -> bool:
    """Return whether a sample on a grid takes the nearest number, which operators say by a 1."""
    mode = node.args[2] if len(node.args) > 2 else node.kwargs.get("mode", node.kwargs.get("interpolation_mode"))
    return mode in ("nearest", 1)


def _norm_of(node: Node, place: int, name: str) -> Any:
    return node.kwargs.get(name, node.args[place] if len(node.args) > place else None)


def _gives_steps(node: Node) -> bool:
    """Return whether a conversion is to integers, truth values or floats of 8 bits and fewer."""
    given = [_dtype(value) for value in (*node.args, *node.kwargs.values())]
    info = info_of(node)
    dtypes = [dtype for dtype in (*given, info.dtype if info is not None else None) if dtype is not None]
    return any(dtype.itemsize < 2 or not (dtype.is_floating_point or dtype.is_complex) for dtype in dtypes)


def _dtype(value: Any) -> torch.dtype | None:
    """Return an argument as a dtype, also by the name of a tensor class: ``"torch.LongTensor"``."""
    if isinstance(value, str) and value.endswith("Tensor"):
        value = getattr(torch, value.rpartition(".")[2].removesuffix("Tensor").lower(), None)
    return value if isinstance(value, torch.dtype) else None


def _gives_pair(node: Node, name: str) -> bool:
    """Return whether a call gives values and their places."""
    by_dimension = len(node.args) > 1 and type(node.args[1]) is int
    return (
        name in _PAIRS
        or name.endswith("_with_indices")
        or (name in _PAIRS_BY_DIMENSION and (by_dimension or "dim" in node.kwargs))
    )


def _places_are_read(node: Node) -> bool:
    """Return whether anything but the values of a pair is used."""
    for user in node.users:
        item = user.args[1] if len(user.args) > 1 and operation_name(user) in ("getitem", "getattr") else None
        if item not in (0, "values") and not (item is not None and not user.users):
            return True
    return False
