"""`rewrite`, a pass in five lines: a generator function that yields its pattern and returns the replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from fxopt.graph.exactness import Exactness
from fxopt.rules.rule import Body, Rule, rule_of


@overload
def rewrite(rule: Body, /) -> Rule: ...


@overload
def rewrite(*, exactness: Exactness = ..., shared_ok: bool = ...) -> Callable[[Body], Rule]: ...


def rewrite(
    rule: Body | None = None, /, *, exactness: Exactness = Exactness.ROUNDING, shared_ok: bool = False
) -> Rule | Callable[[Body], Rule]:
    """Make a `Pass` of a generator function that yields a pattern and returns the replacement.

    >>> import torch, fxopt
    >>> from torch import nn
    >>> @fxopt.rewrite
    ... def fold_scale(x, linear: nn.Linear, c: float | int):
    ...     '''Replace `linear(x) * c` with a linear layer whose weights are c times as large.'''
    ...     yield linear(x) * c
    ...     fxopt.require(linear.bias is None, "the linear has a bias")
    ...     return fxopt.with_tensors(linear, weight=linear.weight * c)(x)
    >>> class Model(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.fc = nn.Linear(4, 4, bias=False)
    ...     def forward(self, x):
    ...         return 2.0 * self.fc(x)
    >>> gm = fxopt.capture(Model(), (torch.rand(3, 4),))
    >>> fold_scale(gm).code.strip().splitlines()[1].strip()
    'mul = self.fc(x);  x = None'
    >>> fold_scale(gm, reverse=True).code.strip().splitlines()[1].strip()
    'fc = self.fc(x);  x = None'

    It is an ordinary pass: it scans, marks, switches single sites, explains near misses and reverses exactly.

    The parameters are the open parts of the pattern, by their annotations:

    - none: any value of the model; ``torch.Tensor``: one that is known to be a tensor;
    - ``nn.Linear``, ``nn.Conv1d | nn.Conv2d``: a module of exactly that type, called with one value;
    - ``float | int``, ``bool``, ``str``, ``tuple``, ``torch.dtype``: a literal of that type;
    - ``*linears: nn.Linear``: all modules of the type that read the same; yield a list with the pattern of each,
      ``[linear(x) for linear in linears]``, and return as many values;
    - keyword-only, with a default: an option of the pass, to be set with `Rule.with_options`.

    The pattern is plain PyTorch, and any spelling will do: ``/``, ``torch.div`` and ``.div``, ``nn.ReLU`` and
    ``F.relu``, operands that commute either way, arguments by position or by name, ATen operators. A parameter used
    twice is the same value twice. Inner values of the pattern have no other users (see `shared_ok`), and its modules
    are neither shared nor tied, because they are removed or replaced.

    After the ``yield``, modules are the modules themselves and literals the numbers: ``linear.weight`` is a tensor to
    compute with. A value stays symbolic; its ``x.shape``, ``x.dtype``, ``x.ndim`` and ``x.device`` can be asked, and
    where they are unknown the site is a miss. `require` states further conditions. New modules that are called in the
    replacement are registered where the old ones were. Leave the modules of the model unchanged: build a new one, for
    example with `with_tensors`.

    Args:
        exactness: the exactness of the replacement.
        shared_ok: whether inner values may be read, and modules called, by something else as well; they then stay.

    Raises:
        RuleError: the function cannot be a rule; the message gives the form to write instead.
    """
    if rule is not None:
        return rule_of(rule, {}, exactness, shared_ok)
    return lambda body: rule_of(body, {}, exactness, shared_ok)
