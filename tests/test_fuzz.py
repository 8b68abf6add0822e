"""Random programs, grown around the passes' own patterns: the laws hold for them too.

A program is a list of small instructions, so that a failure shrinks to a few nodes.
"""

import copy
import operator
import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.fx import Graph, GraphModule, Node

import fxopt
from fxopt import ALL_PASSES, Exactness, Workbench, fingerprint
from fxopt.core import Ledger

WIDTH = 4
PATTERNS: list[list[str]] = [
    ["linear", "norm"],
    ["norm", "linear"],
    ["linear", "linear", "linear_nb"],
    ["conv", "norm2"],
    ["divide", "divide"],
    [],
]
OPS = [
    *("linear", "linear_nb", "linear_one", "keyword", "shared", "tied", "alias", "hook", "frozen", "read_weight"),
    *("norm", "norm_plain", "norm_shared", "conv", "norm2", "gelu", "relu_in_place", "dropout", "identity"),
    *("divide", "divide_int", "divide_method", "divide_in_place", "inverse", "add", "add_in_place", "multiply"),
    *("dead", "view", "slice", "cat"),
]

Instruction = tuple[str, int, int, float]
instruction = st.tuples(
    st.sampled_from(OPS), st.integers(0, 7), st.integers(0, 7), st.sampled_from([8.0, 3.0, 49.0, 0.1, 0.0, 1e-310])
)
programs = st.tuples(
    st.sampled_from(PATTERNS), st.lists(instruction, max_size=7), st.randoms(use_true_random=False)
).map(lambda drawn: grow(*drawn))


def grow(pattern: list[str], rest: list[Instruction], draw: random.Random) -> list[Instruction]:
    """The pattern, each step reading the last value or the one before, with the other instructions strewn in."""
    steps: list[Instruction] = [(op, 7 - draw.randint(0, 1), draw.randint(0, 7), 3.0) for op in pattern]
    for one in rest:
        steps.insert(draw.randint(0, len(steps)), one)
    return steps


class Builder:
    """Builds a graph module over inputs of shape (N, WIDTH), value by value."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.root = nn.Module()
        self.root.add_module("block", nn.Module())
        self.values: list[Node] = [self.graph.placeholder("x")]
        self.linears: list[str] = []
        self.norms: list[str] = []
        self.count = 0

    def add(self, module: nn.Module, nested: bool) -> str:
        self.count += 1
        parent = self.root.get_submodule("block") if nested else self.root
        parent.add_module(f"m{self.count}", module)
        return f"block.m{self.count}" if nested else f"m{self.count}"

    def step(self, op: str, a: int, b: int, c: float) -> None:
        values, nested = self.values, b % 2 == 0
        x, y = values[-1 - (7 - a) % len(values)], values[b % len(values)]
        made = getattr(self, f"op_{op}")(x, y, nested, b, c)
        if made is not None:
            values.append(made)

    def call(self, module: nn.Module, x: Node, nested: bool) -> Node:
        return self.graph.call_module(self.add(module, nested), (x,))

    def op_linear(self, x: Node, y: Node, nested: bool, b: int, c: float, **options: Any) -> Node:
        path = self.add(nn.Linear(WIDTH, WIDTH, **options), nested)
        self.linears.append(path)
        return self.graph.call_module(path, (x,))

    def op_linear_nb(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.op_linear(x, y, nested, b, c, bias=False)

    def op_linear_one(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        narrow = self.call(nn.Linear(WIDTH, 1), x, nested)
        return self.graph.call_method("repeat", (narrow, 1, WIDTH))  # memory of its own: others may write to it

    def op_keyword(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_module(self.add(nn.Linear(WIDTH, WIDTH), nested), (), {"input": x})

    def op_shared(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        return self.graph.call_module(self.linears[b % len(self.linears)], (x,)) if self.linears else None

    def op_tied(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        if not self.linears:
            return None
        layer = nn.Linear(WIDTH, WIDTH)
        layer.weight = self.root.get_submodule(self.linears[b % len(self.linears)]).weight  # type: ignore[assignment]
        return self.call(layer, x, nested)

    def op_alias(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        if not self.linears:
            return None
        return self.call(self.root.get_submodule(self.linears[b % len(self.linears)]), x, nested)

    def op_hook(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        layer = nn.Linear(WIDTH, WIDTH)
        layer.register_forward_hook(doubled)
        return self.call(layer, x, nested)

    def op_frozen(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        layer = nn.Linear(WIDTH, WIDTH)
        layer.weight.requires_grad_(False)
        return self.call(layer, x, nested)

    def op_read_weight(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        if not self.linears:
            return None
        weight = self.graph.get_attr(f"{self.linears[b % len(self.linears)]}.weight")
        return self.graph.call_function(torch.matmul, (x, weight))

    def op_norm(self, x: Node, y: Node, nested: bool, b: int, c: float, affine: bool = True) -> Node:
        bn = nn.BatchNorm1d(WIDTH, affine=affine)
        draw_statistics(bn)
        path = self.add(bn, nested)
        self.norms.append(path)
        return self.graph.call_module(path, (x,))

    def op_norm_plain(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.op_norm(x, y, nested, b, c, affine=False)

    def op_norm_shared(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        return self.graph.call_module(self.norms[b % len(self.norms)], (x,)) if self.norms else None

    def op_conv(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        image = self.graph.call_method("view", (self.op_multiply(x, y, nested, b, c), -1, WIDTH, 1, 1))
        made = self.call(nn.Conv2d(WIDTH, WIDTH, 1, groups=1 + b % 2, bias=b % 3 > 0), image, nested)
        bn = nn.BatchNorm2d(WIDTH, affine=b % 5 > 0)
        draw_statistics(bn)
        normed = self.call(bn, made, not nested) if b % 4 else made
        return self.graph.call_method("reshape", (normed, -1, WIDTH))

    op_norm2 = op_norm

    def op_divide(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_function(operator.truediv, (x, c or 7))

    def op_divide_int(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_function(torch.div, (x, int(c) + 1))

    def op_divide_method(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_method("div", (x, c or 49))

    def op_divide_in_place(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_method("div_", (self.op_multiply(x, y, nested, b, c), 3.0))

    def op_inverse(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        large = self.graph.call_function(operator.add, (self.graph.call_function(torch.abs, (x,)), 2.0))
        return self.graph.call_function(operator.truediv, (1.0, large))

    def op_gelu(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_function(F.gelu, (x,))

    def op_relu_in_place(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        if x.op == "placeholder":
            return None  # would write into the caller's tensor
        return self.call(nn.ReLU(inplace=True), x, nested)

    def op_dropout(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.call(nn.Dropout(0.5), x, nested)

    def op_identity(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.call(nn.Identity(), x, nested)

    def op_add(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_function(operator.add, (x, y))

    def op_add_in_place(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node | None:
        if x.op == "placeholder" or "view" in x.name:
            return None
        target = x if b % 2 else self.op_multiply(x, y, nested, b, c)
        return self.graph.call_function(operator.iadd, (target, 0.5))

    def op_multiply(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        return self.graph.call_function(operator.mul, (x, 0.75))

    def op_dead(self, x: Node, y: Node, nested: bool, b: int, c: float) -> None:
        self.graph.call_function(operator.add, (x, 1.0))

    def op_view(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        flat = self.graph.call_method("view", (self.op_identity(x, y, nested, b, c), -1))
        return self.graph.call_method("view", (flat, -1, WIDTH))

    def op_slice(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        part = self.graph.call_function(operator.getitem, (x, (..., slice(0, 2))))
        return self.graph.call_function(torch.cat, ([part, part],), {"dim": -1})

    def op_cat(self, x: Node, y: Node, nested: bool, b: int, c: float) -> Node:
        both = self.graph.call_function(torch.cat, ([x, y],), {"dim": 0})
        return self.graph.call_function(operator.getitem, (both, slice(0, 3)))


def doubled(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def draw_statistics(bn: nn.modules.batchnorm._BatchNorm) -> None:
    assert bn.running_mean is not None
    assert bn.running_var is not None
    bn.running_mean.normal_(0, 0.3)
    bn.running_var.uniform_(0.5, 1.5)
    if bn.weight is not None:
        nn.init.uniform_(bn.weight, 0.5, 1.5)
        nn.init.normal_(bn.bias)


def build(program: list[Instruction]) -> GraphModule:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        builder = Builder()
        for one in program:
            builder.step(*one)
    builder.graph.output((builder.values[-1], builder.values[len(builder.values) // 2]))
    gm = GraphModule(builder.root, builder.graph).eval()
    return fxopt.capture(gm, (inputs(),))  # fills shapes in


def inputs() -> torch.Tensor:
    return torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


def run(gm: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        result: tuple[torch.Tensor, ...] = gm(x.clone())
    return result


def check_numbers(before: GraphModule, after: GraphModule) -> None:
    x = inputs()
    exact = run(copy.deepcopy(before).double(), x.double())
    bitwise = all(entry.exactness is Exactness.BITWISE for entry in Ledger.entries_of(after))
    for old, new, reference in zip(run(before, x), run(after, x), exact, strict=True):
        assert old.shape == new.shape
        if not torch.isfinite(old).all():
            assert torch.equal(torch.isfinite(old), torch.isfinite(new))
            continue
        if bitwise:
            assert torch.equal(old, new)
        old_error = (old.double() - reference).abs().max()
        new_error = (new.double() - reference).abs().max()
        scale = max(1.0, float(reference.abs().max()))
        assert new_error <= 4 * old_error + 32 * torch.finfo(torch.float32).eps * scale


def check_program(program: list[Instruction], walk: random.Random) -> None:
    gm = build(program)
    for kind in ALL_PASSES:
        pass_, changed = kind(), copy.deepcopy(gm)
        start, code = fingerprint(changed), changed.code  # torch's deepcopy may reorder modules
        found = [match.site for match in pass_.scan(changed).matches]
        pass_(changed)
        assert [entry.site for entry in Ledger.entries_of(changed)][: len(found)] == found
        check_numbers(gm, changed)
        once = fingerprint(changed)
        pass_(changed)
        assert fingerprint(changed) == once, "a second run found something to do"
        pass_.undo(changed)
        changed.recompile()
        assert fingerprint(changed) == start
        assert changed.code == code
    walked = Workbench(gm)
    for _ in range(6):
        pass_ = walk.choice(walked.passes)
        site = walk.choice([None, *(found.site for found in walked.state_of(pass_).sites)])
        walk.choice([walked.turn_on, walked.turn_on, walked.turn_off])(pass_, site)
    built = Workbench(gm)
    built._go(walked.choices)
    assert fingerprint(walked.current) == fingerprint(built.current)
    check_numbers(gm, walked.current)
    walked.reverse_all()
    assert walked.is_restored
    in_place = copy.deepcopy(gm)
    start = fingerprint(in_place)
    order = walk.sample([kind() for kind in ALL_PASSES], len(ALL_PASSES))
    for pass_ in order:
        pass_(in_place)
    check_numbers(gm, in_place)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* rested on ", fxopt.FxoptWarning)
        for pass_ in walk.sample(order, len(order)):
            pass_.undo(in_place)
    in_place.recompile()
    assert fingerprint(in_place) == start


def fuzz(examples: int) -> Callable[[], None]:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    @given(program=programs, walk=st.randoms(use_true_random=False))
    def check(program: list[Instruction], walk: random.Random) -> None:
        check_program(program, walk)

    return check


def test_the_laws_hold_for_random_programs() -> None:
    fuzz(25)()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_laws_hold_for_many_random_programs() -> None:
    fuzz(250)()
