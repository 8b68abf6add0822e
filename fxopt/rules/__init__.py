"""Passes written as a pattern and its replacement, in plain PyTorch: `rewrite`."""

from fxopt.rules.decorator import rewrite
from fxopt.rules.requirement import require
from fxopt.rules.rule import Rule
from fxopt.rules.rule_set import RuleSet

__all__ = ["Rule", "RuleSet", "require", "rewrite"]
