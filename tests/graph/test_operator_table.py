"""The table of the effects of operators on numbers, against the operators of torch themselves, run on real tensors."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import FlopCounterMode

from fxopt.graph import operator_table as table
from tests.graph.test_operators import _REFUSED, KINDS, Kinds, arguments, called
from tests.quick import third

_NUMBERS = ((4, 4), torch.float32, 1), ((2, 3, 4, 4), torch.float32, 1), ((4, 4), torch.int64, 1)
_PLACES: dict[str, tuple[Any, ...]] = {
    "embedding": (torch.rand(5, 3), torch.tensor([4, 0, 4])),
    "gather": (torch.rand(3, 4), 1, torch.tensor([[3, 3], [0, 1], [2, 0]])),
    "index": (torch.rand(3, 4), [torch.tensor([2, 0])]),
    "index_select": (torch.rand(3, 4), 0, torch.tensor([2, 0])),
    "_embedding_bag_forward_only": (torch.rand(5, 3), torch.tensor([4]), torch.tensor([0])),
}
_GIVEN: dict[str, tuple[Any, ...]] = {
    "clamp": (torch.linspace(-2, 2, 16), -1.0, 1.0),
    "where": (torch.rand(4, 4) > 0.5, torch.rand(4, 4), torch.rand(4, 4)),
    "roll": (torch.rand(4, 4), [1], [0]),
    "select_scatter": (torch.rand(4, 4), torch.rand(4), 0, 1),
    "cat": ([torch.rand(2, 3), torch.rand(1, 3)],),
}
_PRODUCTS: dict[str, tuple[Any, ...]] = {
    "linear": (torch.rand(2, 3), torch.rand(4, 3)),
    "chain_matmul": ([torch.rand(2, 3), torch.rand(3, 4)],),
    "linalg_multi_dot": ([torch.rand(2, 3), torch.rand(3, 4)],),
    "tensordot": (torch.rand(2, 3), torch.rand(3, 4), [1], [0]),
    "einsum": ("ij,jk->ik", [torch.rand(2, 3), torch.rand(3, 4)]),
    "baddbmm": (torch.rand(2, 3, 3), torch.rand(2, 3, 3), torch.rand(2, 3, 3)),
    "bmm": (torch.rand(2, 3, 3), torch.rand(2, 3, 3)),
    "addmm": (torch.rand(3, 3),) * 3,
    "mm": (torch.rand(3, 3),) * 2,
    "matmul": (torch.rand(3, 3),) * 2,
    "convolution": (torch.rand(1, 2, 4), torch.rand(3, 2, 2), None, [1], [0], [1], False, [0], 1),
    **{f"conv{n}d": (torch.rand(1, 2, *[4] * n), torch.rand(3, 2, *[2] * n)) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (torch.rand(1, 2, *[4] * n), torch.rand(2, 3, *[2] * n)) for n in (1, 2, 3)},
}


def overloads(name: str) -> list[OpOverload]:
    """The overloads that compute a tensor of tensors, without writing."""
    packet = getattr(torch.ops.aten, name, None)
    found = [getattr(packet, one) for one in packet.overloads()] if packet is not None else []
    return [
        one
        for one in found
        if torch.Tag.out not in one.tags
        and any("Tensor" in str(argument.type) for argument in one._schema.arguments)
        and any("Tensor" in str(returned.type) for returned in one._schema.returns)
    ]


def calls(name: str, kinds: Iterable[Kinds]) -> list[tuple[Any, list[Any], dict[str, Any], Any]]:
    """The calls of an operator that torch takes, each with its result."""
    if name in _GIVEN:
        packet, given = getattr(torch.ops.aten, name), list(_GIVEN[name])
        return [(packet, given, {}, packet(*given))]
    found = []
    for overload in overloads(name):
        for kind in kinds:
            args, kwargs = arguments(overload, kind, False, False)
            try:
                found.append((overload, args, kwargs, called(overload, args, kwargs)))
            except _REFUSED:
                continue
    return found


def flipped(value: Any) -> Any:
    return value.flip(tuple(range(value.dim()))) if isinstance(value, Tensor) else value


@pytest.mark.parametrize("name", third(sorted(table.POINTWISE | table.ACTIVATIONS - {"glu", "rrelu", "log_sigmoid"})))
def test_a_pointwise_operator_works_number_by_number(name: str) -> None:
    taken = calls(name if name != "logsigmoid" else "log_sigmoid", _NUMBERS)
    if name in ("softsign", "tanhshrink", "prelu"):  # the first two are made of operators, the last has a weight
        x, weight = torch.rand(4, 4) - 0.5, torch.tensor([0.1])
        of = getattr(torch.nn.functional, name)
        function = of if name != "prelu" else lambda x: of(x, weight)
        assert torch.equal(function(flipped(x)), flipped(function(x)))
        return
    assert taken, "no call of it was taken"
    for overload, args, kwargs, result in taken:
        given, named = pytree.tree_map(flipped, (args, kwargs))
        torch.testing.assert_close(called(overload, given, named), flipped(result), equal_nan=True)


@pytest.mark.parametrize("name", sorted(table.COMMUTATIVE))
def test_operands_that_commute_give_the_same_bits(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    kind = torch.randint if name.startswith("bitwise") else torch.rand
    a, b = (torch.rand(50, generator=generator) if kind is torch.rand
            else torch.randint(99, (50,), generator=generator) for _ in range(2))  # fmt: skip
    packet = getattr(torch.ops.aten, name)
    assert torch.equal(packet(a, b), packet(b, a))


@pytest.mark.parametrize("name", sorted(table.COPIES - {"_reshape_copy"}))
def test_a_copy_computes_no_number(name: str) -> None:
    taken = [one for one in calls(name, KINDS) if isinstance(one[3], Tensor)]
    assert taken, "no call of it was taken"
    for _, args, kwargs, result in taken:
        values = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor | int | float)]
        known = torch.cat([torch.as_tensor(value).reshape(-1).to(torch.float64) for value in [*values, 0]])
        assert torch.isin(result.to(torch.float64), known).all()


@pytest.mark.parametrize("name", sorted(table.LOOK_UPS))
def test_a_look_up_gives_numbers_of_the_table(name: str) -> None:
    args = _PLACES[name]
    result = pytree.tree_leaves(getattr(torch.ops.aten, name)(*args))[0]
    assert torch.isin(result, args[0]).all()


@pytest.mark.parametrize("name", sorted(table.FILLED - {"arange", "full", "ones", "zeros", "scalar_tensor"}))
def test_a_new_tensor_of_constants_is_the_same_for_any_numbers(name: str) -> None:
    for overload, args, kwargs, result in calls(name, KINDS[:1]):
        other = called(overload, pytree.tree_map(lambda x: x + 1 if isinstance(x, Tensor) else x, args), kwargs)
        assert torch.equal(result, other)


@pytest.mark.parametrize("name", sorted(table.UNFILLED - {"empty", "empty_strided"}))
def test_unfilled_memory_is_new(name: str) -> None:
    x = torch.rand(3, 4)
    sizes = {"new_empty": ([2, 2],), "new_empty_strided": ([2, 2], [2, 1])}.get(name, ())
    made = getattr(torch.ops.aten, name)(x, *sizes)
    assert made.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", sorted(table.DROPOUTS - {"dropout1d", "dropout2d", "dropout3d"}))
def test_a_dropout_in_evaluation_mode_returns_its_input(name: str) -> None:
    x = torch.rand(2, 3, 4)
    assert getattr(torch.ops.aten, name)(x, 0.5, False).data_ptr() == x.data_ptr()


def flops(name: str, args: tuple[Any, ...]) -> int:
    with FlopCounterMode(display=False) as counter:
        getattr(torch.ops.aten, name)(*args)
    return counter.get_total_flops()


_WITHOUT_FORMULA: dict[str, tuple[Any, ...]] = {
    **{name: (torch.rand(4), torch.rand(4)) for name in ("dot", "vdot", "inner", "outer", "ger")},
    "mv": (torch.rand(3, 4), torch.rand(4)),
    "bilinear": (torch.rand(2, 3), torch.rand(2, 4), torch.rand(5, 3, 4)),
    "conv_tbc": (torch.rand(4, 2, 3), torch.rand(2, 3, 5), torch.zeros(5)),
    "addr": (torch.zeros(4, 4), torch.rand(4), torch.rand(4)),
    "addmv": (torch.zeros(3), torch.rand(3, 4), torch.rand(4)),
    "addbmm": (torch.zeros(3, 3), torch.rand(2, 3, 3), torch.rand(2, 3, 3)),
}
"""Products for which torch has no formula."""
_ALL = table.PRODUCTS | table.CONVOLUTIONS | table.ATTENTION - {"multi_head_attention_forward"}  # which is Python


@pytest.mark.parametrize("name", sorted(_ALL - set(_WITHOUT_FORMULA) - {"scaled_dot_product_attention"}))
def test_torch_counts_the_work_of_a_product(name: str) -> None:
    assert flops(name, _PRODUCTS[name]) > 0


@pytest.mark.parametrize("name", sorted(_WITHOUT_FORMULA))
def test_a_product_without_a_formula_is_linear_in_both_factors(name: str) -> None:
    args = _WITHOUT_FORMULA[name]
    product = getattr(torch.ops.aten, name)
    for place in (1, 2) if name.startswith("add") else (0, 1):
        doubled = [2 * arg if at == place else arg for at, arg in enumerate(args)]
        torch.testing.assert_close(product(*doubled), 2 * product(*args))


def test_attention_is_two_products_and_a_softmax() -> None:
    query, key, value = torch.rand(3, 1, 2, 4, 8)
    made = torch.softmax(query @ key.mT / 8**0.5, -1) @ value
    torch.testing.assert_close(torch.ops.aten.scaled_dot_product_attention(query, key, value), made)


@pytest.mark.parametrize("name", third(sorted(table.POINTWISE | table.COPIES | table.VIEWS)))
def test_torch_counts_no_product_elsewhere(name: str) -> None:
    for overload, args, kwargs, _ in calls(name, _NUMBERS[:1]):
        with FlopCounterMode(display=False) as counter:
            called(overload, args, kwargs)
        assert counter.get_total_flops() == 0


def test_no_operator_is_in_two_kinds_of_work() -> None:
    kinds = [table.POINTWISE, table.COPIES, table.LOOK_UPS, table.FILLED, table.UNFILLED, table.VIEWS,
             table.VIEWS_OR_COPIES, table.CASTS, table.PRODUCTS, table.CONVOLUTIONS, table.ATTENTION]  # fmt: skip
    assert sum(map(len, kinds)) == len(frozenset().union(*kinds))
