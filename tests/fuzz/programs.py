"""Random programs as data: how they are drawn, grown around a pass's own pattern, and built."""

import copy
import warnings
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from torch.fx import GraphModule, Interpreter, Node

import fxopt
from fxopt.core import TensorInfo
from tests.fuzz.builder import Builder, Step
from tests.fuzz.levels import as_aten, as_functions
from tests.fuzz.steps import STEPS
from tests.passes import declared

WIDTH = 4
INSTRUCTIONS = {**STEPS, **declared.INSTRUCTIONS}
assert not STEPS.keys() & declared.INSTRUCTIONS.keys(), "two instructions of one name"
PATTERNS: dict[str, list[list[Step]]] = {
    **declared.PATTERNS,
    "fold_scale": [[("linear", 0, 0), ("scale", 0, 0)], [("linear", 0, 0), ("ask", 0, 0), ("scale", 0, 0)]],
    "join_linears": [
        [("linear", 0, 0), ("linear", 0, 0)],
        [("linear", 0, 0), ("ask", 0, 0), ("linear", 0, 0)],
        [("linear", 0, 0), ("linear", 0, 0), ("linear", 0, 0)],
    ],
    "add_linears": [[("linear", 0, 0), ("linear", 1, 0), ("combine", 0, 1)]],
    "relu_once": [[("pointwise", 0, 2), ("pointwise", 0, 2), ("pointwise", 0, 2)], [("layer", 0, 2), ("layer", 0, 2)]],
    "remove_identity": [[("layer", 0, 0), ("layer", 0, 0)], [("linear", 0, 0), ("layer", 0, 0), ("write", 0, 0)]],
    "remove_one": [
        [("scale", 0, 6), ("pointwise", 0, 0)],
        [("linear", 0, 0), ("scale", 0, 12), ("write", 0, 0)],
        [("pointwise", 0, 0), ("scale", 0, 6), ("write", 1, 0)],
        [("view", 0, 3), ("scale", 0, 6), ("view", 0, 0)],
    ],
    "double": [[("twice", 0, 0), ("twice", 0, 0)]],
    "functional_norm": [[("layer", 0, 3)]],
}
"""What each pass looks for, and what it must look out for there, in instructions. Of a pass, its test file says it."""


@dataclass(frozen=True)
class Program:
    """A graph module over ``x`` of shape (rows, WIDTH) and ``y`` of shape (rows, length, WIDTH), and how it is fed."""

    steps: tuple[Step, ...]
    level: str = "modules"
    dtype: str = "float32"
    output: str = "ends"
    feed: str = "plain"
    length: int = 3
    shapes: str = "fixed"

    def inputs(self, feed: str = "plain") -> tuple[torch.Tensor, torch.Tensor]:
        rows = {"one row": 1, "no rows": 0, "more rows": 5}.get(feed, 3)
        draw = torch.Generator().manual_seed(1)
        x = torch.randn(rows, WIDTH, generator=draw, dtype=torch.float64)
        y = torch.randn(rows, self.length, WIDTH, generator=draw, dtype=torch.float64)
        if feed == "not finite":
            x[0, 1], x[1, 2], y[0, 0, 0], y[2, 1, 3] = torch.inf, -torch.inf, torch.nan, torch.inf
            x[:, 0], y[1, :, 0], y[1, :, 1] = -0.0, -0.0, 0.0
        x, y = x.to(getattr(torch, self.dtype)), y.to(getattr(torch, self.dtype))
        if feed == "strided":
            x, y = x.t().contiguous().t(), torch.stack([y, y], dim=-1)[..., 0]
        return x, y


@dataclass(frozen=True, eq=False)
class Built:
    """A program as a graph module, and the known facts of its values."""

    program: Program
    gm: GraphModule
    eps: float
    """Of the coarsest dtype that it computes in."""
    largest: float
    """The largest finite number that it computes on the plain inputs, but one at least."""
    is_stateful: bool
    """Whether running it changes its buffers."""


_variant = st.one_of(st.just(0), st.integers(0, 20), st.integers(0, 10**6))
_step = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 7), _variant)


_place = st.sampled_from([0, 99, 99, 1, 2, 3])
_others = st.lists(st.tuples(_step, _place), max_size=6)
_variants = st.one_of(st.just([]), st.lists(_variant, max_size=4))


def programs(pass_name: str | None = None, level: str | None = None) -> st.SearchStrategy[Program]:
    """Programs in general, or those grown around the pattern of one pass."""
    patterns = PATTERNS.get(pass_name or "", [[]])
    return st.builds(
        Program,
        steps=st.builds(_grown, st.sampled_from(patterns), _others, _variants),
        level=st.just(level) if level else st.sampled_from(["modules", "modules", "functions", "aten"]),
        dtype=st.sampled_from(["float32", "float64", "bfloat16"]),
        output=st.sampled_from(["ends", "one", "dict", "none", "middle", "all", "input"]),
        feed=st.sampled_from(["plain", "one row", "no rows", "more rows", "not finite", "strided"]),
        length=st.sampled_from([3, WIDTH]),
        shapes=st.sampled_from(["fixed", "fixed", "free", "none"]),
    )  # fmt: skip


def _grown(pattern: list[Step], others: list[tuple[Step, int]], variants: list[int]) -> tuple[Step, ...]:
    """The pattern, its steps in the forms `variants`, with the other instructions strewn in."""
    steps = list(pattern)
    for i, variant in enumerate(variants[: len(steps)]):
        op, operand, _ = steps[i]
        steps[i] = (op, operand, variant)
    for one, place in others:
        steps.insert(place, one)
    return tuple(steps)


def build(program: Program) -> Built | None:
    """The program as a graph module; None where its level cannot express it."""
    x, y = program.inputs()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        builder = Builder({"x": x, "y": y}, getattr(torch, program.dtype))
        for op, operand, variant in program.steps:
            if op not in INSTRUCTIONS:
                known = ", ".join(sorted(INSTRUCTIONS))
                raise LookupError(f"{op!r} is no instruction of tests/fuzz/steps.py, which are {known}")
            builder.step(INSTRUCTIONS[op], operand, variant)
        builder.graph.output(_outputs(builder, program.output))
        gm = GraphModule(builder.root, builder.graph)
        if program.level == "functions":
            gm = as_functions(gm)
        elif program.level == "aten":
            made = as_aten(gm, (x, y))
            if made is None:
                return None
            gm = made
    if program.shapes == "free":
        gm = fxopt.capture(gm, (x.clone(), y.clone()))
    elif program.shapes == "fixed":
        _Recorder(copied(gm)).run_on(gm, x, y)
    floats = [t.detach() for t in builder.known.values() if isinstance(t, torch.Tensor) and t.is_floating_point()]
    eps = max(torch.finfo(t.dtype).eps for t in floats)
    largest = max([1.0, *(float(t[t.isfinite()].abs().max()) for t in floats if t.isfinite().any())])
    return Built(program, gm, eps, largest, _changes_itself(gm, program))


class _Recorder(Interpreter):
    """Fills in the shapes of the example, which is quicker than by symbolic sizes."""

    def run_on(self, gm: GraphModule, *inputs: torch.Tensor) -> None:
        self.infos: dict[str, TensorInfo] = {}
        with torch.random.fork_rng(), torch.no_grad():
            self.run(*(x.clone() for x in inputs))
        for node in gm.graph.nodes:
            if node.name in self.infos:
                node.meta["tensor_info"] = self.infos[node.name]

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if isinstance(value, torch.Tensor):
            self.infos[n.name] = TensorInfo.of(value)
        return value


def copied(gm: GraphModule) -> GraphModule:
    """A copy with weights of its own. Torch warns of copying the tree specs of an exported program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(gm)


def _outputs(builder: Builder, kind: str) -> Any:
    values = builder.values
    ends = [value for value in values if not value.users] or values[-1:]
    if kind == "one":
        return values[-1]
    if kind == "dict":
        return {"last": values[-1], "all": {"ends": tuple(ends)}}
    if kind == "none":
        return (None, values[-1], 3, [None, values[-1]])
    if kind == "middle":
        return (values[-1], values[len(values) // 2])
    if kind == "input":
        return (values[-1], values[0], *ends)
    return tuple(values if kind == "all" else ends)


def _changes_itself(gm: GraphModule, program: Program) -> bool:
    tried = copied(gm)
    before = {name: tensor.clone() for name, tensor in tried.state_dict().items()}
    run(tried, program.inputs())
    return any(not torch.equal(tensor, before[name]) for name, tensor in tried.state_dict().items())


def run(gm: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor | None]:
    """The output tensors and the inputs afterwards; the random numbers are the same in every run."""
    given = tuple(_copied(x) for x in inputs)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(2)
        result = gm(*given)
    return [*torch.utils._pytree.tree_leaves(result), *given]


def _copied(x: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of `x`, which may leave gaps: a view reads zeros there in every run."""
    new = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    new.untyped_storage().fill_(0)
    return new.copy_(x)
