"""One name for each operator of torch, however a call spells it: the name in ATen's list.

torch makes ``torch.mul``, ``Tensor.mul`` and ``torch.ops.aten.mul`` from one entry of one list, so those have one name
already. The tables here hold the further names of the same operator: second names in torch, and Python's operators.
`tests/graph/test_operator_names.py` calls both names of each pair on real tensors:
numbers, strides and memory are the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

PYTHON: Mapping[Callable[..., Any], str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.truediv: "div",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.pow: "pow",
    operator.matmul: "matmul",
    operator.neg: "neg",
    operator.abs: "abs",
    operator.invert: "bitwise_not",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.eq: "eq",
    operator.ne: "ne",
    operator.lt: "lt",
    operator.le: "le",
    operator.gt: "gt",
    operator.ge: "ge",
}
"""Python's operators with the operators of ATen that they are on tensors."""

PYTHON_IN_PLACE: Mapping[Callable[..., Any], str] = {
    getattr(operator, f"i{word}"): f"{PYTHON[getattr(operator, f'__{word}__')]}_"
    for word in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor")
}
"""The same with ``=``, which write to their first argument."""

SECOND_NAMES: Mapping[str, str] = {
    "true_divide": "div",
    "divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "negative": "neg",
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "moveaxis": "movedim",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "fix": "trunc",
    "special_round": "round",
    "special_expit": "sigmoid",
    "special_expm1": "expm1",
    "special_exp2": "exp2",
    "special_log1p": "log1p",
    "special_erf": "erf",
    "special_erfc": "erfc",
    "special_erfinv": "erfinv",
    "special_logit": "logit",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
}
"""Second names in torch. In place, both have an underscore behind them."""

_BY_NAME = {
    **{function.__name__: name for function, name in (*PYTHON.items(), *PYTHON_IN_PLACE.items())},
    **SECOND_NAMES,
    **{f"{second}_": f"{name}_" for second, name in SECOND_NAMES.items() if not second.startswith("_")},
}


def canonical(name: str) -> str:
    """Return the name in ATen's list of an operator that torch or Python has under this name.

    >>> canonical("truediv"), canonical("multiply"), canonical("relu"), canonical("iadd")
    ('div', 'mul', 'relu', 'add_')
    """
    return _BY_NAME.get(name, name)
