"""Options, names and copies of rules."""

import copy
import pickle

import pytest
import torch
from torch import nn

import fxopt
from fxopt import RuleError
from tests.passes.asserts import captured
from tests.rules.rules import (
    X,
    fold_scale,
    linear,
    merge,
    one_site,
    replaced,
)


def test_options_are_keyword_only_parameters() -> None:
    gm = captured(lambda m, x: m.a(x) + m.b(x), X, a=linear(), b=linear())
    strict = merge.with_options(most=1)
    assert len(merge.scan(gm).matches) == 1
    assert strict.scan(gm).matches == ()
    assert strict.signature != merge.signature == merge.with_options(most=8).signature
    with pytest.raises(RuleError, match=r"it has no option least; it has most"):
        merge.with_options(least=1)


def test_a_rule_is_a_pass_in_all() -> None:
    assert (fold_scale.name, fold_scale.summary[:8]) == ("fold_scale", "Replace ")
    assert fold_scale.exactness(fold_scale.scan(one_site()).matches[0]) is fxopt.Exactness.ROUNDING
    assert fold_scale.preserves_computation
    gm = one_site()
    (match,) = fold_scale.scan(gm).matches
    assert "x is x" in fold_scale.explain(match)
    assert "a (Linear(in_features=4, out_features=4, bias=True))" in fold_scale.explain(match)
    assert "c is 2.0" in fold_scale.explain(match)
    fxopt.compose(fold_scale, fxopt.MergeLinears())(gm)
    assert fold_scale.get_transformed_nodes(gm)


def test_a_rule_that_changes_the_result_says_so() -> None:
    @fxopt.rewrite(exactness=fxopt.Exactness.CHANGES)
    def rule(x):
        """Replace `cos(x)` with `sin(x)`."""
        yield torch.cos(x)
        return torch.sin(x)

    assert not rule.preserves_computation


def test_a_rule_travels_by_its_name() -> None:
    for rule in (fold_scale, merge.with_options(most=3)):
        assert pickle.loads(pickle.dumps(rule)).signature == rule.signature
        assert copy.deepcopy(rule) is rule


def test_a_local_rule_can_be_copied_and_says_why_it_cannot_be_pickled() -> None:
    rule = replaced(torch.relu)
    assert copy.deepcopy(rule) is rule
    assert copy.copy(rule) is rule
    with pytest.raises(pickle.PicklingError, match="define it at the top level of a module"):
        pickle.dumps(rule)


def test_it_leaves_no_trace_in_the_world() -> None:
    call = nn.Module.__call__
    state = torch.get_rng_state()

    @fxopt.rewrite
    def random(x, a: nn.Linear):
        """Replace a linear with a random one."""
        yield a(x)
        return nn.Linear(4, 4)(x)

    random(one_site())
    assert nn.Module.__call__ is call
    assert torch.equal(torch.get_rng_state(), state)
