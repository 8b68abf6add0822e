"""Rules obey the laws of passes."""

import pytest

from fxopt import Rule
from fxopt.testing import check_pass
from tests.quick import quick
from tests.rules.rules import RULES, cases, remove_one


@pytest.mark.parametrize(
    "rule",
    quick(RULES, remove_one),
    ids=lambda rule: rule.name,
)
def test_it_obeys_the_laws_of_passes(rule: Rule) -> None:
    report = check_pass(rule, cases())
    assert report.sites > 0
