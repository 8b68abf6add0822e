"""Division by a constant becomes multiplication by its inverse."""

import math
import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from fxopt.core import Exactness, GraphIndex, Match, Miss, Pass, Rewriter, info_of, is_tensor

_PRODUCT: dict[Any, Any] = {
    operator.truediv: operator.mul,
    operator.itruediv: operator.imul,
    torch.div: torch.mul,
    torch.true_divide: torch.mul,
    "div": "mul",
    "div_": "mul_",
    "true_divide": "mul",
    "true_divide_": "mul_",
}


@dataclass(frozen=True, eq=False)
class ConstantDivision(Match):
    dividend: Node
    divisor: float


class ChangeTrueDivToMulByInverse(Pass[ConstantDivision]):
    """Replace `x / c` with `x * (1 / c)`, for a tensor `x` and a constant `c`.

    A processor multiplies several times faster than it divides, though where memory is the limit, as in most
    models, that does not show. The bits are the same where `c` is a power of two, since both then round the same
    real number; elsewhere `1 / c` is rounded once more, which changes a result by about one unit in the last place.

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

    targets = tuple(_PRODUCT)

    def match(self, node: Node, index: GraphIndex) -> ConstantDivision | Miss | None:
        if node.kwargs.get("rounding_mode") is not None:
            return Miss(node, f"{node.name} rounds to whole numbers ({node.kwargs['rounding_mode']})")
        if len(node.args) != 2 or set(node.kwargs) - {"rounding_mode"}:
            return Miss(node, f"{node.name} is not called as dividend and divisor")
        dividend, divisor = node.args
        if not isinstance(dividend, Node):
            return Miss(node, f"{node.name} divides a constant by a tensor; the inverse would not be a constant")
        if isinstance(divisor, bool) or not isinstance(divisor, int | float):
            return Miss(node, f"the divisor {divisor} is not a constant number")
        info = info_of(dividend)
        if info is None and not is_tensor(dividend):
            return Miss(
                node,
                f"{dividend.name} is not known to be a tensor; of a size or a number, the quotient must be exact",
                remedy="capture the model with example inputs (fxopt.capture), or annotate it as torch.Tensor",
            )
        reason = _rounding_reason(divisor, info.dtype if info is not None else torch.float32)
        if reason is not None:
            return Miss(node, reason)
        return ConstantDivision(node, dividend, divisor)

    def explain(self, match: ConstantDivision) -> str:
        dividend, c = match.dividend.name, match.divisor
        text = f"{dividend} / {c:g} is {dividend} * {1 / c:g}"
        if self.exactness(match) is Exactness.BITWISE:
            return f"{text}: {c:g} is a power of two, so both round the same real number and give the same bits"
        return f"{text}; 1 / {c:g} is rounded to {1 / c!r}, so results may differ in the last place"

    def exactness(self, match: ConstantDivision) -> Exactness:
        mantissa, _ = math.frexp(match.divisor)
        return Exactness.BITWISE if abs(mantissa) == 0.5 else Exactness.ROUNDING

    def rewrite(self, match: ConstantDivision, rewriter: Rewriter) -> None:
        node = match.anchor
        rewriter.set_call(node, node.op, _PRODUCT[node.target], (match.dividend, 1 / match.divisor), {})


def _rounding_reason(divisor: float, dtype: torch.dtype) -> str | None:
    """Why `divisor` or its inverse is not a normal number of the dtype that the division is done in."""
    if dtype.is_complex:
        return f"division of {dtype} by a real number treats infinities in its own way"
    limits = torch.finfo(dtype if dtype.is_floating_point else torch.get_default_dtype())
    try:
        size = abs(float(divisor))
    except OverflowError:
        return f"the divisor {divisor} is larger than any float"
    if size == 0 or not math.isfinite(size):
        return f"the divisor {divisor} has no finite inverse other than zero"
    for value, what in ((size, f"the divisor {divisor}"), (1 / size, f"the inverse of {divisor}")):
        if not limits.tiny <= value <= limits.max:
            return f"{what} is not a normal number of {limits.dtype}"
    return None
