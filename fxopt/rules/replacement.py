"""The replacement of a rule: recorded at a site first, then inserted by the rewriter."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.fx import Node, Proxy
from torch.utils._pytree import tree_leaves

from fxopt.errors import RuleError
from fxopt.graph.conditions import Unmet
from fxopt.graph.index import GraphIndex
from fxopt.graph.nodes import TensorInfo, info_of
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.process.module_calls import module_calls
from fxopt.recording.module_state import ObjectState, tensors_of
from fxopt.recording.tensor_snapshot import TensorSnapshot
from fxopt.rules.matching import Binding
from fxopt.rules.pattern import Kind, ModuleCall, Operation, Pattern, Term, terms_in
from fxopt.rules.pattern_reading import failure, first_yield
from fxopt.rules.requirement import RequirementError, met
from fxopt.rules.stand_in import FreeSize, Writer


@dataclass(frozen=True, eq=False)
class Replacement:
    """The record of one run of a rule: new nodes, on top of nodes of the graph."""

    outputs: tuple[Node, ...]
    """The new value of each root: nodes of the writer's graph."""
    bound: Mapping[Node, Node]
    """The nodes of the writer's graph that stand for one of the graph module."""
    modules: Mapping[str, nn.Module]
    """New modules, by the target of the nodes that call them."""
    tensors: Mapping[str, torch.Tensor]
    """New tensors, by the target of the nodes that read them."""

    @property
    def new_nodes(self) -> list[Node]:
        """Return the nodes that the outputs need and the graph lacks, in order."""
        needed: set[Node] = set()
        todo = list(self.outputs)
        while todo:
            node = todo.pop()
            if node not in needed and node not in self.bound:
                needed.add(node)
                todo += node.all_input_nodes
        return [node for node in self.outputs[0].graph.nodes if node in needed]


def run_rule(
    rule: Callable[..., Any],
    where: str,
    options: Mapping[str, Any],
    pattern: Pattern,
    members: Sequence[Binding],
    index: GraphIndex,
) -> tuple[Replacement | Unmet, int]:
    """Run `rule` on the values bound at a site.

    Returns:
        the replacement, or the first requirement that is unmet; and the number of those that are met.
    """
    writer = _SiteWriter(where, index)
    arguments = list(_arguments(pattern, members, writer, index))
    modules = [argument for argument in arguments if isinstance(argument, nn.Module)]
    writer.captured = {id(module) for module in modules}
    with _as_it_was(modules, where), _surroundings(writer):
        running = rule(*arguments, **options)
        try:
            yielded = first_yield(running, rule, where)
            _align(pattern, yielded, members, writer)
            return _outputs(_rest(running, rule, where), members, writer), met.get()
        except RequirementError as refused:
            return refused.unmet, met.get()
        finally:
            running.close()


class _SiteWriter(Writer):
    def __init__(self, rule: str, index: GraphIndex) -> None:
        super().__init__(rule)
        self.index = index
        self.in_pattern = True
        self.captured: set[int] = set()
        self.bound: dict[Node, Node] = {}
        self.modules: dict[str, nn.Module] = {}
        self.tensors: dict[str, torch.Tensor] = {}

    def value(self, node: Node) -> Proxy:
        placeholder = self.graph.placeholder(node.name)
        self.bound[placeholder] = node
        return self.proxy(placeholder)

    def name_of(self, node: Node) -> str:
        return self.bound[node].name if node in self.bound else node.name

    def info_of(self, node: Node, attribute: str) -> TensorInfo | None:
        if self.in_pattern or node not in self.bound:
            return None
        known = info_of(self.bound[node])
        if known is None:
            raise RequirementError(
                Unmet(
                    f"the {attribute} of {self.bound[node].name} is unknown",
                    NEEDS_SHAPES,
                    "unknown",
                    f"a known {attribute}",
                )
            )
        return known

    def on_module(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        if self.in_pattern and id(module) not in self.captured:
            return NotImplemented  # the pattern was read with such modules written out, too
        of_one = len(args) == 1 and not kwargs and isinstance(args[0], Proxy)  # most are: quickly
        if not of_one and not any(isinstance(leaf, Proxy) for leaf in tree_leaves((args, kwargs))):
            return NotImplemented
        known = self.index.paths_of(module)
        target = known[0] if known else f"new {id(module)}"
        if not known:
            self.modules[target] = module
        return self.create_proxy("call_module", target, args, kwargs)

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, FreeSize):
            raise RequirementError(Unmet(f"the size {a} is free, so the replacement cannot have it as a number",
                                         "in the rule, call .size(dim) where .shape[dim] is used",
                                         str(a), "a fixed size"))  # fmt: skip
        if isinstance(a, torch.Tensor):
            known = self.index.owners_of(a)
            target = known[0] if known else f"new {id(a)}"
            if not known:
                self.tensors[target] = a
            return self.create_node("get_attr", target, (), {}, name="tensor")
        if isinstance(a, nn.Module):
            self.refuse(f"a {type(a).__name__} is an argument", "call it")
        return super().create_arg(a)


def _arguments(pattern: Pattern, members: Sequence[Binding], writer: _SiteWriter, index: GraphIndex) -> Iterator[Any]:
    values = members[0].values
    for parameter in pattern.parameters:
        if parameter.kind is Kind.SIBLINGS:
            yield from (index.module_of(member.values[parameter.name]) for member in members)
        elif parameter.kind is Kind.MODULE:
            yield index.module_of(values[parameter.name])
        elif parameter.kind is Kind.LITERAL:
            yield values[parameter.name]
        else:
            yield writer.value(values[parameter.name])


@contextlib.contextmanager
def _surroundings(writer: _SiteWriter) -> Iterator[None]:
    """Preserve the random state, and let new weights require gradients where their sources do."""
    token, numbers = met.set(0), torch.get_rng_state()
    try:
        with torch.enable_grad(), module_calls(writer.on_module):
            yield
    finally:
        torch.set_rng_state(numbers)
        met.reset(token)


@contextlib.contextmanager
def _as_it_was(modules: Sequence[nn.Module], where: str) -> Iterator[None]:
    """Check that the rule leaves the modules of the model alone."""
    states = [ObjectState.of(module) for module in modules]
    tensors = [TensorSnapshot.of(name, tensor, copy=False) for state in states for name, tensor in tensors_of(state)]
    yield
    for state in states:
        if state.has_changed():
            state.restore()
            raise RuleError(f"{where}: it changes a {type(state.thing).__name__} of the model; build a new one instead")
    for tensor in tensors:
        if tensor.has_changed:
            raise RuleError(
                f"{where}: it writes to the {tensor.path} of a module of the model; compute a new one instead"
            )


def _rest(running: Any, rule: Callable[..., Any], where: str) -> Any:
    try:
        next(running)
    except StopIteration as end:
        if end.value is None:
            raise RuleError(
                f"{where}: it returns nothing; return the value that takes the place of the pattern"
            ) from None
        return end.value
    except (RuleError, RequirementError):
        raise
    except Exception as error:
        raise failure(error, rule, where) from error
    raise RuleError(f"{where}: it yields twice; yield the pattern, and return the replacement")


def _align(pattern: Pattern, yielded: Any, members: Sequence[Binding], writer: _SiteWriter) -> None:
    """Point the variables of the rule that hold parts of the pattern at the nodes of the graph."""
    roots = yielded if pattern.siblings is not None else [yielded]
    if len(roots) != len(members):
        raise RuleError(f"{writer.rule}: it yields {len(roots)} values for {len(members)} modules")
    for root, member in zip(roots, members):
        _align_term(pattern.root, root.node if isinstance(root, Proxy) else root, member, writer)
    writer.in_pattern = False


def _align_term(term: Term, written: Any, member: Binding, writer: _SiteWriter) -> None:
    if not isinstance(term, Operation | ModuleCall):
        return
    same = isinstance(written, Node) and written.op == term.node.op
    if not same or (written.op != "call_module" and written.target != term.node.target):
        raise RuleError(f"{writer.rule}: with the modules and numbers of a site, it yields another pattern")
    writer.bound[written] = member.nodes[term]
    steps = {step.node: step for step in _steps_below(term)}
    for mine, theirs in _side_by_side((term.node.args, dict(term.node.kwargs)), (written.args, dict(written.kwargs))):
        if mine in steps:
            _align_term(steps[mine], theirs, member, writer)


def _side_by_side(a: Any, b: Any) -> Iterator[tuple[Node, Any]]:
    """Yield the nodes in the arguments `a`, each with the value at its place in `b`."""
    if isinstance(a, Node):
        yield a, b
    elif isinstance(a, dict):
        for key, value in a.items():
            yield from _side_by_side(value, b.get(key))
    elif isinstance(a, list | tuple):
        for one, other in zip(a, b):
            yield from _side_by_side(one, other)


def _steps_below(term: Term) -> Iterator[Operation | ModuleCall]:
    for below in terms_in(term):
        if isinstance(below, Operation | ModuleCall):
            yield below
        else:
            yield from _steps_below(below)


def _outputs(returned: Any, members: Sequence[Binding], writer: _SiteWriter) -> Replacement:
    if len(members) > 1 and isinstance(returned, Proxy):
        returned = [operator.getitem(returned, i) for i in range(len(members))]
    values = returned if len(members) > 1 else [returned]
    if not isinstance(values, list | tuple) or len(values) != len(members):
        raise RuleError(f"{writer.rule}: {len(members)} values are replaced, so it must return as many")
    outputs = []
    for value, member in zip(values, members):
        node = writer.create_arg(value)
        if not isinstance(node, Node):
            raise RuleError(f"{writer.rule}: it returns {value!r}; return a value of the model")
        if writer.bound.get(node) is next(iter(member.nodes.values())):
            raise RuleError(f"{writer.rule}: it returns the pattern itself, so nothing would change")
        outputs.append(node)
    return Replacement(tuple(outputs), writer.bound, writer.modules, writer.tensors)
