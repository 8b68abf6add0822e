import torch
from torch.fx import Node

from fxopt import Miss
from fxopt.core import Conditions, Unmet, decide


def anchor() -> Node:
    return torch.fx.Graph().placeholder("x")


def conditions(*met: bool) -> Conditions[str]:
    for i, one in enumerate(met):
        yield one or Unmet(f"condition {i} is not met", "meet it", "no", "yes")
    return "all are met"


def test_where_all_are_met_the_answer_is_what_the_conditions_return() -> None:
    assert decide(anchor(), conditions(True, True)) == "all are met"
    assert decide(anchor(), conditions()) == "all are met"


def test_the_first_unmet_one_is_a_miss_that_counts_those_met_before() -> None:
    site = anchor()
    miss = decide(site, conditions(True, True, False, False))
    assert isinstance(miss, Miss)
    assert miss.anchor is site
    assert (miss.reason, miss.remedy) == ("condition 2 is not met", "meet it")
    assert (miss.actual, miss.needed, miss.met) == ("no", "yes", 2)


def test_conditions_of_conditions_are_counted_too() -> None:
    def outer() -> Conditions[str]:
        yield True
        inner = yield from conditions(True, True)
        yield inner != "all are met" or Unmet("stop")
        return ""

    miss = decide(anchor(), outer())
    assert isinstance(miss, Miss)
    assert (miss.reason, miss.met) == ("stop", 3)


def test_nothing_behind_the_first_unmet_one_is_computed() -> None:
    def impossible() -> Conditions[None]:
        yield Unmet("this one is not met")
        raise AssertionError("walked on")

    assert isinstance(decide(anchor(), impossible()), Miss)
