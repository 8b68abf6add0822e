"""Write one rewrite, `x * 1` to `x`, twice: as a rule and as a class. The laws of a pass check both."""

from collections.abc import Generator
from dataclasses import dataclass
from operator import mul

import torch
from torch import Tensor, nn
from torch.fx import Node

import fxopt
from fxopt.core import Conditions, GraphIndex, Unmet, decide, info_of, present, read_instead_conditions
from fxopt.testing import check_pass


@fxopt.rewrite(exactness=fxopt.Exactness.BITWISE)
def remove_one(x: Tensor, c: float | int) -> Generator[Tensor, None, Tensor]:
    """Replace `x * 1` with `x`, for real numbers: of complex ones, `(inf + 1i) * 1` is `inf + NaN i`."""
    yield x * c
    fxopt.require(c == 1, f"the factor is {c}")
    fxopt.require(not x.dtype.is_complex, f"{x} is {x.dtype}", needed="a real dtype")
    return x


@dataclass(frozen=True, eq=False)
class MultiplicationByOne(fxopt.Match):
    x: Node


class RemoveMulByOne(fxopt.Pass[MultiplicationByOne]):
    """Replace `x * 1` with `x`.

    A product of real numbers with one has the bits of its other factor.
    """

    targets = (mul, torch.mul, "mul")

    def match(self, node: Node, index: GraphIndex) -> MultiplicationByOne | fxopt.Miss | None:
        if len(node.args) != 2 or not isinstance(node.args[0], Node) or not isinstance(node.args[1], int | float):
            return None  # no product with a number
        return decide(node, self._conditions(node, node.args[0], node.args[1], index))

    def _conditions(self, node: Node, x: Node, factor: float, index: GraphIndex) -> Conditions[MultiplicationByOne]:
        yield factor == 1 or Unmet(f"the factor is {factor}", actual=str(factor), needed="1")
        info = yield from present(info_of(x), lambda: Unmet(f"the dtype of {x.name} is unknown"))
        yield not info.dtype.is_complex or Unmet(f"{x.name} is {info.dtype}", needed="a real dtype")
        yield from read_instead_conditions(node, x, index)
        return MultiplicationByOne(node, x)

    def explain(self, match: MultiplicationByOne) -> str:
        return f"{match.anchor.name} is {match.x.name} times one, so its users can read {match.x.name}."

    def exactness(self, match: MultiplicationByOne) -> fxopt.Exactness:
        return fxopt.Exactness.BITWISE

    def rewrite(self, match: MultiplicationByOne, rewriter: fxopt.Rewriter) -> None:
        rewriter.replace(match.anchor, match.x)


class Net(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.relu() * 1
        return y + x * 2


for own in (remove_one, RemoveMulByOne()):
    gm = fxopt.capture(Net(), (torch.rand(3, 4),))
    print(own.scan(gm))
    check_pass(own, [(Net(), (torch.rand(3, 4),))])
print("both obey the laws")
