"""Division by a constant becomes multiplication by its inverse."""

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fxopt.core import (
    NEEDS_SHAPES,
    Conditions,
    Exactness,
    GraphIndex,
    Match,
    Miss,
    Pass,
    Rewriter,
    Unmet,
    decide,
    info_of,
    is_tensor,
    of_type,
    present,
)

_aten = torch.ops.aten

_PRODUCT: dict[Any, Any] = {
    operator.truediv: operator.mul,
    operator.itruediv: operator.imul,
    torch.div: torch.mul,
    torch.true_divide: torch.mul,
    "div": "mul",
    "div_": "mul_",
    "true_divide": "mul",
    "true_divide_": "mul_",
    _aten.div.Tensor: _aten.mul.Tensor,
    _aten.div_.Tensor: _aten.mul_.Tensor,
    _aten.div.Scalar: _aten.mul.Scalar,
    _aten.div_.Scalar: _aten.mul_.Scalar,
    _aten.div.Tensor_mode: _aten.mul.Tensor,
    _aten.div_.Tensor_mode: _aten.mul_.Tensor,
}

_OF_TENSORS = (torch.div, torch.true_divide, "div", "div_", "true_divide", "true_divide_")
"""The divisions that take a tensor alone: operators of Python and ATen divide sizes and numbers too."""


@dataclass(frozen=True, eq=False)
class ConstantDivision(Match):
    only_read = ("dividend",)

    dividend: Node
    divisor: float


class ChangeTrueDivToMulByInverse(Pass[ConstantDivision]):
    """Replace `x / c` with `x * (1 / c)`, for a tensor `x` and a constant `c`.

    A processor multiplies several times faster than it divides, though this is hidden if memory is the limit, as in
    most models. If `c` is a power of two and `x` is known to be real, the bits are the same, since both round the same
    real number; otherwise `1 / c` is rounded once more, which changes a result by about one unit in the last place.

    Attention scales its scores this way:

    >>> import torch, fxopt
    >>> class Scale(torch.nn.Module):
    ...     def forward(self, scores: torch.Tensor):
    ...         return scores / 8
    >>> gm = torch.fx.symbolic_trace(Scale())
    >>> print(fxopt.ChangeTrueDivToMulByInverse()(gm).code.strip().splitlines()[1].strip())
    truediv = scores * 0.125;  scores = None
    >>> print(fxopt.ChangeTrueDivToMulByInverse()(gm, reverse=True).code.strip().splitlines()[1].strip())
    truediv = scores / 8;  scores = None
    """

    label = "Divide by multiplying"
    needs = "a tensor divided by a constant"

    targets = tuple(_PRODUCT)

    def match(self, node: Node, index: GraphIndex) -> ConstantDivision | Miss | None:
        return decide(node, self._conditions(node))

    def _conditions(self, node: Node) -> Conditions[ConstantDivision]:
        rounding = node.kwargs.get("rounding_mode")
        yield rounding is None or Unmet(
            f"{node.name} rounds to whole numbers ({rounding})",
            actual=f"rounding_mode={rounding!r}",
            needed="rounding_mode=None",
        )
        yield (len(node.args) == 2 and set(node.kwargs) <= {"rounding_mode"}) or Unmet(
            f"{node.name} is not called with a dividend and a divisor",
            actual=f"{len(node.args)} arguments by position",
            needed="2 arguments by position",
        )
        first, second = node.args
        dividend = yield from of_type(
            first,
            Node,
            lambda: Unmet(
                f"{node.name} divides a constant by a tensor, whose inverse is a tensor too",
                actual=f"{first} / {second}",
                needed="tensor / constant",
            ),
        )
        divisor = yield from present(
            second if isinstance(second, int | float) and not isinstance(second, bool) else None,
            lambda: Unmet(f"the divisor {second} is not a constant number", actual=str(second), needed="a number"),
        )
        info = info_of(dividend)
        yield (
            info is not None
            or is_tensor(dividend)
            or node.target in _OF_TENSORS
            or Unmet(
                f"{dividend.name} is not known to be a tensor; of a size or a number, the quotient must be exact",
                remedy=f"{NEEDS_SHAPES}, or annotate it as torch.Tensor",
                actual="unknown",
                needed="a tensor",
            )
        )
        yield from _rounding_conditions(divisor, info.dtype if info is not None else torch.float32)
        return ConstantDivision(node, dividend, divisor)

    def explain(self, match: ConstantDivision) -> str:
        dividend, c = match.dividend.name, match.divisor
        text = f"{dividend} / {c:g} is {dividend} * {1 / c:g}"
        if self.exactness(match) is Exactness.BITWISE:
            return f"{text}: {c:g} is a power of two, so both round the same real number and give the same bits"
        if _is_power_of_two(c):
            return f"{text}; the dtype of {dividend} is unknown, and complex numbers may differ in the last place"
        return f"{text}; 1 / {c:g} is rounded to {1 / c!r}, so results may differ in the last place"

    def exactness(self, match: ConstantDivision) -> Exactness:
        is_real = info_of(match.dividend) is not None  # a complex one is no match
        return Exactness.BITWISE if is_real and _is_power_of_two(match.divisor) else Exactness.ROUNDING

    def rewrite(self, match: ConstantDivision, rewriter: Rewriter) -> None:
        node = match.anchor
        rewriter.set_call(node, node.op, _PRODUCT[node.target], (match.dividend, 1 / match.divisor), {})


def _rounding_conditions(divisor: float, dtype: torch.dtype) -> Conditions[None]:
    """Require that `divisor` and its inverse are normal numbers of the dtype that the division is done in."""
    yield not dtype.is_complex or Unmet(
        f"division of {dtype} by a real number treats infinities in its own way",
        actual=str(dtype),
        needed="a real dtype",
    )
    limits = torch.finfo(dtype if dtype.is_floating_point else torch.get_default_dtype())
    yield not _is_too_large(divisor) or Unmet(f"the divisor {divisor} is larger than any float", needed="a float")
    size = abs(float(divisor))
    yield (size != 0 and math.isfinite(size)) or Unmet(
        f"the divisor {divisor} has no finite inverse other than zero",
        actual=str(divisor),
        needed="finite, other than 0",
    )
    for value, name in ((size, f"the divisor {divisor}"), (1 / size, f"the inverse of {divisor}")):
        yield limits.tiny <= value <= limits.max or Unmet(
            f"{name} lies outside of the normal numbers of {limits.dtype}",
            actual=f"{value:.3g}",
            needed=f"{limits.tiny:.3g} to {limits.max:.3g}",
        )


def _is_power_of_two(divisor: float) -> bool:
    return not _is_too_large(divisor) and abs(math.frexp(divisor)[0]) == 0.5


def _is_too_large(divisor: float) -> bool:
    try:
        float(divisor)
    except OverflowError:  # an int of any size
        return True
    return False
