"""The pattern of a rule, read from plain PyTorch once.

The rule runs up to its ``yield`` on stand-ins for the parameters. Its calls on them form a small graph, which `spelled`
reads in the same way as the graph of a model.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import Node, Proxy

from fxopt.errors import RuleError
from fxopt.rules.pattern import (
    Constant,
    Kind,
    ModuleCall,
    Operation,
    Parameter,
    Pattern,
    Several,
    Term,
    is_value,
    modules_in,
    parameters_in,
    terms_in_lists,
)
from fxopt.rules.spellings import spelled
from fxopt.rules.stand_in import Writer

LITERALS: tuple[type, ...] = (int, float, bool, str, complex, tuple, torch.dtype, torch.device)


def read_pattern(rule: Callable[..., Any], options: Mapping[str, Any], where: str) -> Pattern:
    """Run `rule` up to its ``yield`` and read its pattern.

    Raises:
        RuleError: it cannot be a rule; the message starts with `where` it is defined.
    """
    parameters = parameters_of(rule, where)
    writer = _PatternWriter(where)
    arguments = [argument for parameter in parameters for argument in writer.arguments_for(parameter)]
    yielded = first_yield(rule(*arguments, **options), rule, where)
    siblings = next((p for p in parameters if p.kind is Kind.SIBLINGS), None)
    if siblings is not None:
        if not isinstance(yielded, list | tuple) or len(yielded) != 1:
            raise RuleError(f"{where}: yield one value for each of *{siblings.name}, as in `[m(x) for m in ms]`")
        yielded = yielded[0]
    if not isinstance(yielded, Proxy):
        several = isinstance(yielded, list | tuple)
        found = "several values" if several else f"{yielded!r}, which is no value of the model"
        raise RuleError(f"{where}: the pattern is {found}; yield one value that is computed from the parameters")
    terms = _Reader(writer, where)
    root = terms.of(yielded.node)
    if not isinstance(root, Operation | ModuleCall):
        raise RuleError(f"{where}: the pattern is only the parameter {root}, which would match everything")
    pattern = Pattern(root, parameters, siblings)
    named = {t for step in pattern.steps for t in [*parameters_in(step), *modules_in(step)]}
    for parameter in parameters:
        if parameter not in named:
            raise RuleError(f"{where}: the pattern leaves out the parameter {parameter.name}, which would stay unbound")
    return pattern


def first_yield(running: Any, rule: Callable[..., Any], where: str) -> Any:
    """Return the value that `running`, a run of `rule`, yields."""
    try:
        return next(running)
    except StopIteration:
        raise RuleError(f"{where}: it returns before it yields a pattern") from None
    except RuleError:
        raise
    except Exception as error:
        raise failure(error, rule, where) from error


def failure(error: BaseException, rule: Callable[..., Any], where: str) -> RuleError:
    """Return an exception raised by the code of a rule, with the line that raised it."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is rule.__code__:
            line = trace.tb_lineno
        trace = trace.tb_next
    at = f" in line {line}" if line else ""
    return RuleError(f"{where}: it raised {type(error).__name__}{at}: {error}")


def parameters_of(rule: Callable[..., Any], where: str) -> tuple[Parameter, ...]:
    """Return the parameters of a rule, less the keyword-only ones, which are its options."""
    closure = inspect.getclosurevars(rule).nonlocals
    try:
        signature = inspect.signature(rule, locals=dict(closure), eval_str=True)
    except NameError as error:
        raise RuleError(f"{where}: an annotation cannot be read: {error}") from error
    found = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty:
                raise RuleError(f"{where}: the option {parameter.name} needs a default")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            raise RuleError(f"{where}: **{parameter.name} cannot be matched; name each option, with a default")
        if parameter.default is not parameter.empty:
            raise RuleError(f"{where}: {parameter.name} has a default; matched values have none, and options stand "
                            "behind a `*`")  # fmt: skip
        found.append(_parameter(parameter, where))
    return tuple(found)


def _parameter(parameter: inspect.Parameter, where: str) -> Parameter:
    name, annotation = parameter.name, parameter.annotation
    kinds = _alternatives(annotation) if annotation is not parameter.empty else ()
    are_modules = [isinstance(kind, type) and issubclass(kind, nn.Module) for kind in kinds]
    if parameter.kind is parameter.VAR_POSITIONAL:
        if not kinds or not all(are_modules):
            raise RuleError(f"{where}: *{name} stands for the modules that read one input; annotate it with their type")
        return Parameter(name, Kind.SIBLINGS, kinds)
    if not kinds:
        return Parameter(name, Kind.VALUE)
    if kinds == (torch.Tensor,):
        return Parameter(name, Kind.TENSOR)
    if all(are_modules):
        return Parameter(name, Kind.MODULE, kinds)
    if all(kind in LITERALS for kind in kinds):
        return Parameter(name, Kind.LITERAL, kinds)
    known = ", ".join(kind.__name__ for kind in LITERALS)
    raise RuleError(
        f"{where}: {name} is annotated {annotation!r}; nothing, torch.Tensor, module types and {known} are known"
    )


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return typing.get_args(annotation)
    return (annotation,)


class _PatternWriter(Writer):
    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.parameters: dict[Node, Parameter] = {}

    def arguments_for(self, parameter: Parameter) -> Iterator[Any]:
        if parameter.kind in (Kind.MODULE, Kind.SIBLINGS):
            yield _StandInModule(parameter, self)
            return
        node = self.graph.placeholder(parameter.name)
        self.parameters[node] = parameter
        yield self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, torch.Tensor | nn.Module | _StandInModule):
            self.refuse(f"a {type(a).__name__} is an argument in the pattern", "patterns have values and literals only")
        return super().create_arg(a)


class _StandInModule:
    """Stand in for a module in the pattern, where it can only be called."""

    def __init__(self, parameter: Parameter, writer: _PatternWriter) -> None:
        self._parameter = parameter
        self._writer = writer

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        if len(args) != 1 or kwargs or not isinstance(args[0], Proxy):
            self._writer.refuse(f"{self._parameter.name} is called with other than one value", "a pattern takes one")
        proxy = self._writer.create_proxy("call_module", self._parameter.name, args, {})
        self._writer.parameters[proxy.node] = self._parameter
        return proxy

    def __getattr__(self, name: str) -> Any:
        self._writer.refuse(
            f"{self._parameter.name}.{name} is read in the pattern", "the module itself is there after the yield"
        )


class _Reader:
    """Read the graph that a rule wrote before its ``yield``."""

    def __init__(self, writer: _PatternWriter, where: str) -> None:
        self._writer = writer
        self._where = where
        self._known: dict[Node, Term] = {node: p for node, p in writer.parameters.items() if node.op == "placeholder"}

    def of(self, value: Any) -> Term:
        if isinstance(value, Node):
            if value not in self._known:
                self._known[value] = self._step(value)
            return self._known[value]
        if isinstance(value, list | tuple) and any(isinstance(item, Node) for item in value):
            return Several(tuple(map(self.of, value)))
        return Constant(value)

    def _step(self, node: Node) -> Operation | ModuleCall:
        if node.op == "call_module":
            return ModuleCall(node, self._writer.parameters[node], self.of(node.args[0]))
        spelling = spelled(node, kind=self._is_tensor)
        if spelling is None:
            raise RuleError(f"{self._where}: {node.name} in the pattern is a {node.op}; write calls there")
        arguments = {name: self.of(value) for name, value in spelling.arguments.items()}
        step = Operation(node, spelling, arguments)
        inner = [term for value in arguments.values() for term in (value, *terms_in_lists(value))]
        if not any(isinstance(t, Operation | ModuleCall) or is_value(t) for t in inner):
            raise RuleError(f"{self._where}: the pattern computes {node.name} from literals; do that after the yield")
        return step

    def _is_tensor(self, node: Node) -> bool | None:
        parameter = self._writer.parameters.get(node)
        if parameter is not None:
            return parameter.kind is not Kind.LITERAL
        return None if node.target in (getattr, "size", "dim", "numel") else True
