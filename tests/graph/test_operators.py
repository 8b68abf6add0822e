"""The table of the effects of operators on memory, against the operators of torch themselves, run on real tensors."""

import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.utils import _pytree as pytree

from fxopt.graph.effects import Effects, effects_of
from fxopt.graph.operator_table import NEEDS_ROWS_TOGETHER
from fxopt.graph.operators import name_of, operator_of

_REFUSED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AttributeError, AssertionError)
_LEFT_OUT = ("random", "rand", "bernoulli", "multinomial", "normal", "poisson", "uniform", "cauchy", "exponential",
             "geometric", "from_file", "quantized", "mkldnn", "cudnn", "miopen", "sparse", "fbgemm", "record_stream",
             "pin_memory", "nested", "lstm", "gru", "rnn", "fake_quantize", "fused_moving", "empty", "rename",
             "to_padded", "qr", "storage", "backward", "binomial", "crow", "ccol", "coalesce", "is_pinned")  # fmt: skip
"""Random or unfilled memory, files, other layouts of memory, and operators on torch's own objects."""


def operators() -> list[OpOverload]:
    """The operators of ATen that users call, by any overload."""
    names = {name.removeprefix("aten::").partition(".")[0] for name in torch._C._dispatch_get_all_op_names()
             if name.startswith("aten::")}  # fmt: skip
    public = sorted(n for n in names if not n.startswith("_") and not any(word in n for word in _LEFT_OUT))
    packets = [getattr(torch.ops.aten, name) for name in public if hasattr(torch.ops.aten, name)]
    overloads = [getattr(packet, name) for packet in packets for name in packet.overloads()]
    return [one for one in overloads if any("Tensor" in str(argument.type) for argument in one._schema.arguments)]


def base(shape: tuple[int, ...], apart: bool, dtype: torch.dtype) -> torch.Tensor:
    """A tensor of that shape with other numbers behind each row, which belong to it in no way where it lies apart."""
    whole = torch.rand(*shape[:-1], 2 * shape[-1], generator=torch.Generator().manual_seed(1))
    whole = whole if dtype == torch.float32 else (whole * 4).to(dtype)
    part = whole[..., shape[-1] :]
    return part if apart else part.contiguous()


Kinds = tuple[tuple[int, ...], torch.dtype, int]
KINDS: tuple[Kinds, ...] = (
    ((3, 4), torch.float32, 1),
    ((4, 4), torch.float32, 0),
    ((2, 3, 4, 4), torch.float32, 1),
    ((2, 4, 4), torch.float32, 1),
    ((3, 4), torch.bool, 1),
    ((3, 4), torch.int64, 0),
)


def arguments(overload: OpOverload, kind: Kinds, apart: bool, optional: bool) -> tuple[list[Any], dict[str, Any]]:
    """Arguments made by the schema; `optional` ones too, or only those that must be given."""
    shape, dtype, number = kind
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in overload._schema.arguments:
        kind_of = str(argument.type)
        if argument.has_default_value() and not (optional and "Tensor" in kind_of and "Optional" in kind_of):
            if not argument.kwarg_only:
                args.append(argument.default_value)
            continue
        value: Any
        if "Tensor" in kind_of:
            whole = dtype if len(args) == 0 or "ind" not in argument.name else torch.int64
            value = base(shape, apart, whole)
            value = [value, base(shape, apart, whole)] if "List" in kind_of else value
        elif "List[int]" in kind_of or "List[SymInt]" in kind_of:
            sizes = {"size": shape, "dims": [*range(len(shape))], "shape": shape, "stride": (shape[-1], 1)}
            value = list(sizes.get(argument.name, [number] * 2))
        elif kind_of in ("int", "SymInt", "number", "Scalar", "Union[float, int]"):
            value = number
        else:
            value = {"float": 0.5, "bool": False, "str": "mean", "ScalarType": torch.float32}.get(kind_of)
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def table_of(overload: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> tuple[Effects, dict[Node, torch.Tensor]]:
    """The effects by the table, of a call where each tensor is a node."""
    graph = Graph()
    known: dict[Node, torch.Tensor] = {}

    def as_node(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        node = graph.placeholder(f"x{len(known)}")
        known[node] = value
        return node

    given, named = pytree.tree_map(as_node, (tuple(args), kwargs))
    return effects_of(graph.call_function(overload, given, named)), known


def tensors(value: Any) -> Iterator[torch.Tensor]:
    yield from (leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))


def called(overload: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Any:
    with torch.no_grad(), warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)  # the one for dropouts
        return overload(*args, **kwargs)


def storage(x: torch.Tensor) -> int:
    return x.untyped_storage().data_ptr() if x.layout == torch.strided else 0


def check(overload: OpOverload, kind: Kinds, optional: bool) -> bool:
    """Whether the operator takes such arguments; if so, its effect on memory is that of the table."""
    args, kwargs = arguments(overload, kind, False, optional)
    effects, nodes = table_of(overload, args, kwargs)
    versions = {node: x._version for node, x in nodes.items()}
    storages = {storage(x) for x in nodes.values() if x.numel()}
    try:
        plain = called(overload, args, kwargs)
    except _REFUSED:
        return False
    for node, x in nodes.items():
        assert x._version == versions[node] or node in effects.written, f"{overload} writes to argument {node}"
    if effects.returns_new_memory:
        assert not any(storage(x) in storages for x in tensors(plain)), f"{overload} returns a view"
    if effects.reads_strides or name_of(overload) in NEEDS_ROWS_TOGETHER:
        return True
    args, kwargs = arguments(overload, kind, True, optional)
    other = called(overload, args, kwargs)
    for a, b in itertools.zip_longest(tensors(plain), tensors(other)):
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False, msg=f"{overload} reads strides")
    return True


def checked(overloads: Sequence[OpOverload], kinds: Sequence[Kinds]) -> int:
    """The number of operators that took arguments of one of these kinds, and had the effect on memory of the table."""
    took = [
        sum(
            check(overload, kind, optional)
            for kind in kinds
            for optional in ({False, takes_optional_tensors(overload)})
        )
        for overload in overloads
    ]
    return sum(map(bool, took))


def takes_optional_tensors(overload: OpOverload) -> bool:
    return any("Optional" in str(one.type) and "Tensor" in str(one.type) for one in overload._schema.arguments)


@pytest.mark.slow
def test_the_table_is_what_the_operators_do() -> None:
    plain = [overload for overload in operators() if torch.Tag.out not in overload.tags]
    assert checked(plain, KINDS[:1]) > 750


@pytest.mark.slow
def test_the_table_is_what_the_operators_do_on_all_kinds_of_arguments() -> None:
    assert checked(operators(), KINDS) > 1300


def test_the_sort_of_a_list_that_torchscript_has_is_no_write_of_the_sort_of_a_tensor() -> None:
    assert not {0, "self"} & operator_of(torch.sort).written
