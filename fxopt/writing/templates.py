"""Texts to begin with: templates of rules, and the rules that come with fxopt, to be read."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from fxopt.passes import fuse_gelu, identities


@dataclass(frozen=True)
class Template:
    """A text that becomes a rule of one's own."""

    title: str
    text: str


TEMPLATES = (
    Template(
        "x * 1 becomes x",
        '''@fxopt.rewrite
def remove_one(x: torch.Tensor, c: float | int):
    """Replace `x * 1` with `x`."""
    yield x * c
    fxopt.require(c == 1, f"the factor is {c}")
    return x
''',
    ),
    Template(
        "a call becomes another one",
        '''@fxopt.rewrite
def relu_twice(x):
    """Replace `relu(relu(x))` with `relu(x)`: a ReLU leaves what is not negative as it is."""
    yield torch.relu(torch.relu(x))
    return torch.relu(x)
''',
    ),
    Template(
        "a number goes into a layer",
        '''@fxopt.rewrite
def fold_scale(x, linear: nn.Linear, c: float | int):
    """Replace `linear(x) * c` with a linear layer whose weights are c times as large."""
    yield linear(x) * c
    fxopt.require(linear.bias is None, "the linear has a bias", remedy="scale the bias as well")
    return fxopt.with_tensors(linear, weight=linear.weight * c)(x)
''',
    ),
)


def source_of_rules() -> dict[str, str]:
    """Return the text of the built-in rules, to be read, by the name of their file."""
    return {f"{module.__name__.rpartition('.')[2]}.py": inspect.getsource(module) for module in (identities, fuse_gelu)}
