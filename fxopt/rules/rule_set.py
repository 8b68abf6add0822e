"""Several rules as one pass."""

from __future__ import annotations

from typing import Any, ClassVar

from torch.fx import Node

from fxopt.core.rewriter import Rewriter
from fxopt.errors import RuleError
from fxopt.graph.exactness import Exactness
from fxopt.graph.index import GraphIndex
from fxopt.graph.site import Match, Miss
from fxopt.rules.rule import Rule
from fxopt.rules.rule_pass import RuleMatch, RulePass


class RuleSet(RulePass):
    """Several rules as one pass: subclass it and list them in `rules`. At each node the first that applies counts.

    A miss is told of a node where the pattern of a rule is complete and a condition is unmet. Nodes that have a part
    of a pattern, as every multiplication has of `x * 1`, are no near misses of a set.

    >>> import torch, fxopt
    >>> @fxopt.rewrite
    ... def negate_twice(x):
    ...     '''Replace `-(-x)` with `x`.'''
    ...     yield -(-x)
    ...     return x
    >>> @fxopt.rewrite
    ... def relu_twice(x):
    ...     '''Replace `relu(relu(x))` with `relu(x)`.'''
    ...     yield torch.relu(torch.relu(x))
    ...     return torch.relu(x)
    >>> class DoOnce(fxopt.RuleSet):
    ...     '''Replace `-(-x)` with `x`, and `relu(relu(x))` with `relu(x)`.'''
    ...     rules = (negate_twice, relu_twice)
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return torch.relu(torch.relu(-(-(x + 1))))
    >>> gm = fxopt.capture(Model(), (torch.rand(3),))
    >>> [node.name for node in DoOnce()(gm).graph.nodes]
    ['x', 'add', 'relu_1', 'output']
    """

    rules: ClassVar[tuple[Rule, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for rule in cls.rules:
            if rule.pattern.siblings is not None:
                raise RuleError(f"{rule.where}: it matches siblings (*{rule.pattern.siblings}), so it is a pass alone")
        cls.targets = tuple(dict.fromkeys(target for rule in cls.rules for target in rule.targets))
        cls.preserves_computation = all(rule.preserves_computation for rule in cls.rules)

    def match(self, node: Node, index: GraphIndex) -> RuleMatch | Miss | None:
        found = [rule.match(node, index) for rule in self.rules if rule.is_bound(node, index)]
        applies = next((each for each in found if isinstance(each, Match)), None)
        misses = (each for each in found if isinstance(each, Miss))
        return applies or max(misses, key=lambda miss: miss.met, default=None)

    def explain(self, match: RuleMatch) -> str:
        return match.rule.explain(match)

    def exactness(self, match: RuleMatch) -> Exactness:
        return match.rule.exactness(match)

    def rewrite(self, match: RuleMatch, rewriter: Rewriter) -> None:
        match.rule.rewrite(match, rewriter)
