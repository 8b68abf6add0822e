"""Passes written as a pattern and its replacement, in plain PyTorch: `rewrite`."""

from fxopt.rules.requirement import require
from fxopt.rules.rule import Rule, rewrite

__all__ = ["Rule", "require", "rewrite"]
