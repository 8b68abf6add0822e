"""Messages to the author of a rule."""

import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt import RuleError, require
from tests.passes.asserts import Net, captured
from tests.rules.rules import (
    X,
    fold_scale,
    linear,
    one_site,
)


def error_of(rule: Callable[..., Any], gm: GraphModule | None = None) -> str:
    """The message to the author: when the rule is made, or when it runs at a site of `gm`."""
    with pytest.raises(RuleError) as raised:
        fxopt.rewrite(rule).scan(one_site() if gm is None else gm)
    assert "test_messages.py:" in str(raised.value)
    return str(raised.value)


def test_a_rule_has_one_yield_and_a_return() -> None:
    def no_yield(x):
        return x

    def early(x):
        if True:
            return x
        yield x

    def two(x, c: float):
        yield x * c
        yield x

    def nothing(x, c: float):
        yield x * c

    def itself(x, c: float):
        y = x * c
        yield y
        return y

    def number(x, c: float):
        yield x * c
        return c

    assert "it needs a yield" in error_of(no_yield)
    assert "it returns before it yields" in error_of(early)
    assert "it yields twice" in error_of(two)
    assert "it returns nothing" in error_of(nothing)
    assert "it returns the pattern itself" in error_of(itself)
    assert "it returns 2.0; return a value of the model" in error_of(number)


def test_a_pattern_is_one_value_computed_from_all_parameters() -> None:
    def only(x):
        yield x

    def unused(x, y):
        yield torch.relu(x)

    def several(x):
        yield torch.relu(x), torch.cos(x)

    def literals(x, c: float):
        yield x * (c * 2)

    def tensor(x):
        yield x + torch.ones(3)

    def weight(x, a: nn.Linear):
        yield F.linear(x, a.weight)

    def branch(x):
        if x > 0:
            yield x * 1

    def typo(x):
        yield x.transposee(0, 1)

    def in_place(x):
        yield x.add_(1)

    def flat(x, *a: nn.Linear):
        yield a[0](x)

    def loop(x):
        yield sum(part for part in x)

    assert "only the parameter x" in error_of(only)
    assert "the pattern leaves out the parameter y" in error_of(unused)
    assert "the pattern is several values" in error_of(several)
    assert "computes mul from literals" in error_of(literals)
    assert "a Tensor is an argument in the pattern" in error_of(tensor)
    assert "a.weight is read in the pattern" in error_of(weight)
    assert "known when the model runs only" in error_of(branch)
    assert "no method or attribute transposee" in error_of(typo)
    assert "add_ writes in place" in error_of(in_place)
    assert "yield one value for each of *a" in error_of(flat)
    assert "x is iterated over" in error_of(loop)


def test_annotations_and_options_are_checked() -> None:
    def annotation(x, c: dict):
        yield x * c

    def unknown(x, c: "Unknown"):  # noqa: F821 - this is what is tested
        yield x * c

    def default(x, c: float = 1.0):
        yield x * c

    def option(x, *, most):
        yield x.relu()

    def taken(x, *, scan=1):
        yield x.relu()

    def keywords(x, **more):
        yield x.relu()

    def values(*x):
        yield x[0].relu()

    assert "c is annotated <class 'dict'>" in error_of(annotation)
    assert "name 'Unknown' is not defined" in error_of(unknown)
    assert "options stand behind a `*`" in error_of(default)
    assert "the option most needs a default" in error_of(option)
    assert "the option scan has the name of something" in error_of(taken)
    assert "**more cannot be matched" in error_of(keywords)
    assert "annotate it with their type" in error_of(values)
    with pytest.raises(RuleError, match="takes a generator function"):
        fxopt.rewrite(3)  # type: ignore[call-overload]


def test_errors_in_the_replacement_name_the_line() -> None:
    def unbound(x, a: nn.Linear, c: float):
        yield a(x) * c
        return a(y)  # noqa: F821 - this is what is tested

    def truth(x, a: nn.Linear, c: float):
        yield a(x) * c
        require(x.sum() > 0, "never known")
        return x

    def number(x, a: nn.Linear, c: float):
        yield a(x) * c
        return x * float(x)

    def written(x, a: nn.Linear, c: float):
        yield a(x) * c
        a.weight.data.mul_(c)
        return a(x)

    def assigned(x, a: nn.Linear, c: float):
        yield a(x) * c
        a.bias = None
        return a(x)

    def changed(x, a: nn.Linear, c: float):
        yield (a(x) * c if isinstance(c, float) else a(x) + c)
        return x

    assert "NameError in line" in error_of(unbound)
    assert "known when the model runs only" in error_of(truth)
    assert "x is taken for a number" in error_of(number)
    assert "it writes to the weight" in error_of(written)
    assert "it changes a Linear of the model" in error_of(assigned)
    gm = captured(lambda m, x: m.a(x) + 2.0, X, a=linear())
    assert "it yields another pattern" in error_of(changed, gm)


def test_a_value_prints_as_the_node_that_it_is() -> None:
    seen = []

    @fxopt.rewrite
    def rule(x, a: nn.Linear, c: float):
        """Replace `linear(x) * c`."""
        h = a(x)
        seen.append(f"{x}, {h}")
        yield h * c
        seen.append(f"{x}, {h}")
        return torch.cos(h)

    rule.scan(captured(lambda m, x: m.a(x + 1) * 2.0, X, a=linear()))
    assert seen[0] == "x, a"
    assert seen[-1] == "add, a"


def test_rules_and_captures_in_many_threads_leave_each_other_alone() -> None:
    call = nn.Module.__call__
    model = Net(lambda self, x: self.linear(x) * 3.0, linear=nn.Linear(4, 4)).eval()
    x = torch.rand(2, 4)

    def work(_: int) -> list[int]:
        sites = []
        for _ in range(4):
            gm = fxopt.capture(model, (x,))
            sites.append(len(fold_scale.scan(gm).matches))
            torch.testing.assert_close(fold_scale(gm)(x), model(x))
        return sites

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [[1] * 4] * 4
    assert nn.Module.__call__ is call
