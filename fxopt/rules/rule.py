"""A rule as a pass: it binds its pattern, checks the conditions, and puts the replacement in place."""

from __future__ import annotations

import copy
import importlib
import inspect
import operator
import pickle
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

from torch import nn
from torch.fx import Node

from fxopt.core.rewriter import Rewriter
from fxopt.errors import RuleError
from fxopt.graph.conditions import Conditions, Unmet, decide, unless_unmet
from fxopt.graph.exactness import Exactness
from fxopt.graph.guards import autocast_condition
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import made_by
from fxopt.graph.site import Miss
from fxopt.rules.matching import Binding, NoBinding, bind
from fxopt.rules.metadata_readers import Redirects, redirect_conditions
from fxopt.rules.pattern import Kind, Parameter, Pattern, terms_in
from fxopt.rules.pattern_reading import read_pattern
from fxopt.rules.placing import place
from fxopt.rules.replacement import Replacement, run_rule
from fxopt.rules.rule_pass import RuleMatch, RulePass
from fxopt.rules.site_conditions import own_conditions, same_result_conditions, unwritten_conditions

Body = Callable[..., Generator[Any, None, Any]]


class Rule(RulePass):
    """A pass made by `rewrite`, which makes a class and its one instance for each rule and choice of options."""

    body: ClassVar[Body]
    pattern: ClassVar[Pattern]
    where: ClassVar[str]
    shared_ok: ClassVar[bool]
    declared: ClassVar[Exactness]
    values: ClassVar[Mapping[str, Any]]
    """The options of the rule and their values."""

    def __init__(self) -> None:
        vars(self).update(copy.deepcopy(dict(self.values)))

    def with_options(self, **options: Any) -> Rule:
        """Return the same rule with other values of its options, which are its keyword-only parameters."""
        known = _options_of(type(self).body)
        for name in options:
            if name not in known:
                raise RuleError(f"{self.where}: it has no option {name}; it has {', '.join(known) or 'none'}")
        kind = type(self)
        return rule_of(kind.body, {**self.options, **options}, kind.declared, kind.shared_ok)

    @property
    def options(self) -> dict[str, Any]:
        return dict(vars(self))

    # ---- the pass

    def is_bound(self, node: Node, index: GraphIndex) -> bool:
        """Return whether the pattern is complete at `node`, before any condition."""
        return isinstance(self._bound(node, index), Binding)

    def match(self, node: Node, index: GraphIndex) -> RuleMatch | Miss | None:
        known: dict[Node, RuleMatch | Miss | None] = index.cached((self, "matches"), dict)
        if node not in known:
            found = self._decided(node, index)
            known[node] = found if not isinstance(found, Miss) or found.reason else None
        return known[node]

    def explain(self, match: RuleMatch) -> str:
        gm = match.anchor.graph.owning_module
        parts = []
        for parameter in self.pattern.parameters:
            values = [member.values[parameter.name] for member in match.members]
            if gm is not None and parameter.kind in (Kind.MODULE, Kind.SIBLINGS):
                shown = ", ".join(f"{v.target} ({_brief(gm.get_submodule(v.target))})" for v in values)
            else:
                shown = values[0].name if isinstance(values[0], Node) else repr(values[0])
            parts.append(f"{parameter.name} is {shown}")
        names = ", ".join(root.name for root in match.roots)
        return f"{self.summary.rstrip('.') or self.name}. At {names}: {'; '.join(parts)}"

    def exactness(self, match: RuleMatch) -> Exactness:
        return self.declared

    def rewrite(self, match: RuleMatch, rewriter: Rewriter) -> None:
        written, _ = self._run(match.anchor, match.members, rewriter.index)
        if isinstance(written, Unmet):
            raise RuleError(f"{self.where} matched at {match.anchor}, and asked again it refuses: {written.reason}")
        redirects = Redirects.of(written, match.roots, match.captured, rewriter.index)
        place(written, match.roots, match.captured, redirects, rewriter)

    # ---- how it matches

    def _decided(self, node: Node, index: GraphIndex) -> RuleMatch | Miss | None:
        found = self._bound(node, index)
        if isinstance(found, NoBinding):
            is_near = found.says_itself or found.met > min(1, len(self.pattern.steps) - 1)
            return decide(node, _failed(found)) if is_near else None
        members: tuple[Binding, ...] = (found,)
        if self.pattern.siblings is not None:
            group = self._siblings(self.pattern.siblings, found, index)
            if node in group and node is not next(iter(group)):
                return None  # it belongs to the match whose anchor is the first
            members = tuple(group.values())
        return decide(node, self._conditions(node, found, members, index))

    def _bound(self, node: Node, index: GraphIndex) -> Binding | NoBinding:
        known: dict[Node, Binding | NoBinding] = index.cached((self, "bound"), dict)
        if node not in known:
            known[node] = bind(self.pattern.root, node, index)
        return known[node]

    def _conditions(
        self, node: Node, bound: Binding, members: tuple[Binding, ...], index: GraphIndex
    ) -> Conditions[RuleMatch]:
        yield from _met(bound.met)
        yield from own_conditions(bound, self.shared_ok, index)
        yield from self._dtype_conditions(bound, index)
        yield from unwritten_conditions(bound, index)
        if self.pattern.siblings is not None:
            yield len(members) >= 2 or Unmet(
                f"no other {self.pattern.siblings} of the kind reads the same", actual="1", needed="2 or more"
            )
        written, met = self._run(node, members, index)
        yield from _met(met)
        replacement = yield from unless_unmet(written)
        captured = tuple(dict.fromkeys(n for member in members for n in member.nodes.values()))
        match = RuleMatch(node, self, captured, members)
        yield from redirect_conditions(Redirects.of(replacement, match.roots, captured, index), self.shared_ok)
        yield from same_result_conditions(replacement, match.roots, captured, index)
        return match

    def _dtype_conditions(self, member: Binding, index: GraphIndex) -> Conditions[None]:
        """Require that autocast is off, unless the bits stay: it may choose another dtype for the replacement."""
        if self.declared is not Exactness.BITWISE:
            for one in member.nodes.values():
                yield autocast_condition(one, index)

    def _siblings(self, siblings: Parameter, member: Binding, index: GraphIndex) -> dict[Node, Binding]:
        """Return the sites, in order, where the same holds for another module; with `member` if it may join them."""
        shared = {name: value for name, value in member.values.items() if name != siblings.name}
        key = (self, "siblings", *((name, v if isinstance(v, Node) else repr(v)) for name, v in shared.items()))
        groups = index.cached(key, lambda: self._groups(shared, index))
        root = next(iter(member.nodes.values()))
        return next((group for group in groups if root in group), {})

    def _groups(self, shared: Mapping[str, Any], index: GraphIndex) -> list[dict[Node, Binding]]:
        groups: list[dict[Node, Binding]] = []
        for root in sorted(self._roots_near(shared)):
            found = self._bound(root, index)
            if not isinstance(found, Binding) or any(found.values[name] is not v for name, v in shared.items()):
                continue
            conditions = (own_conditions(found, self.shared_ok, index), unwritten_conditions(found, index))
            if made_by(root, self.signature) or any(decide(root, each) is not None for each in conditions):
                continue
            for group in groups:
                first = next(iter(group))
                if not any(index.writes_between(first, root, v) for v in shared.values() if isinstance(v, Node)):
                    group[root] = found
                    break
            else:
                groups.append({root: found})
        return groups

    def _roots_near(self, shared: Mapping[str, Any]) -> set[Node]:
        """Return the nodes that may be roots of the pattern on the `shared` values."""
        near = {user for value in shared.values() if isinstance(value, Node) for user in value.users}
        found = set(near)
        for _ in range(_depth(self.pattern.root) - 1):
            near = {user for node in near for user in node.users}
            found |= near
        return found

    def _run(self, node: Node, members: tuple[Binding, ...], index: GraphIndex) -> tuple[Replacement | Unmet, int]:
        last: dict[Node, tuple[Replacement | Unmet, int]] = index.cached((self, "last"), dict)
        if node not in last:
            written = run_rule(type(self).body, self.where, self.options, self.pattern, members, index)
            last.clear()  # the new weights of one site are kept at a time
            last[node] = written
        return last[node]

    # ---- copies and files: a rule is found again by its name

    def __copy__(self) -> Rule:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Rule:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        kind = type(self)
        try:
            found = _named(kind.__module__, kind.__qualname__, {})
        except (ImportError, AttributeError) as error:
            raise pickle.PicklingError(
                f"{self.where}: pickle finds a rule by its name, and {kind.__qualname__} leads nowhere; "
                "define it at the top level of a module"
            ) from error
        if getattr(type(found), "body", None) is not kind.body:
            raise pickle.PicklingError(f"{self.where}: pickle finds a rule by its name, which leads to something else")
        return _named, (kind.__module__, kind.__qualname__, self.options)


def rule_of(body: Body, options: Mapping[str, Any], exactness: Exactness, shared_ok: bool) -> Rule:
    """Return the rule of a generator function, with the values of some of its options.

    Raises:
        RuleError: the function cannot be a rule; the message gives the form to write instead.
    """
    if not callable(body) or not hasattr(body, "__code__"):
        raise RuleError(f"fxopt.rewrite takes a generator function, and got {body!r}")
    code = body.__code__
    where = f"the rule {body.__name__} ({code.co_filename}:{code.co_firstlineno})"
    if not inspect.isgeneratorfunction(body):
        raise RuleError(f"{where}: it needs a yield: yield the pattern, then return its replacement")
    values = {**_options_of(body), **options}
    for name in values:
        if hasattr(Rule, name):
            raise RuleError(f"{where}: the option {name} has the name of something that every pass has; rename it")
    pattern = read_pattern(body, values, where)
    kind: type[Rule] = type(
        body.__name__,
        (Rule,),
        {
            "__doc__": body.__doc__,
            "__module__": body.__module__,
            "__qualname__": body.__qualname__,
            "preserves_computation": exactness is not Exactness.CHANGES,
            "body": staticmethod(body),
            "pattern": pattern,
            "targets": pattern.targets,
            "where": where,
            "shared_ok": shared_ok,
            "declared": exactness,
            "values": values,
        },
    )
    return kind()


def _options_of(body: Body) -> dict[str, Any]:
    parameters = inspect.signature(body).parameters.values()
    return {p.name: copy.deepcopy(p.default) for p in parameters if p.kind is p.KEYWORD_ONLY}


def _named(module: str, name: str, options: Mapping[str, Any]) -> Rule:
    found: Rule = operator.attrgetter(name)(importlib.import_module(module))
    return found.with_options(**options) if options else found


def _failed(found: NoBinding) -> Conditions[Any]:
    yield from _met(found.met)
    yield found.unmet


def _met(count: int) -> Conditions[None]:
    for _ in range(count):
        yield True


def _depth(term: Any) -> int:
    return max((1 + _depth(below) for below in terms_in(term)), default=0)


def _brief(module: nn.Module) -> str:
    return repr(module) if not module._modules else type(module).__name__
