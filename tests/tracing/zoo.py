"""Small models for the tests of capture: one of each transformers architecture, and plain modules."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.tracing.matrix.models import row_of

TRANSFORMERS: dict[str, Callable[[], nn.Module]] = {
    row_of(name).architecture: row_of(name).build
    for name in (
        "BertModel", "RobertaForMaskedLM", "DistilBertModel", "GPT2Model", "LlamaForCausalLM",
        "T5ForConditionalGeneration", "ViTForImageClassification", "ResNetForImageClassification", "GroupViTModel",
    )
}  # fmt: skip
"""One model of each family, for tests in detail; `tests.tracing.matrix` has all."""


def leaf_calls(model: nn.Module, *args: Any, **kwargs: Any) -> list[str]:
    """The paths of torch's layers in the order in which an ordinary run of `model` calls them.

    One that forward makes has no path; `_unregistered_` and its class stand for it, as in a graph.
    """
    from fxopt.tracing.leaves import is_torch_layer

    paths: dict[int, str] = {}
    for path, module in model.named_modules():
        paths.setdefault(id(module), path)
    calls: list[str] = []
    depth = 0

    def enter(module: nn.Module, *_: Any) -> None:
        nonlocal depth
        if is_torch_layer(module):
            if depth == 0:
                calls.append(paths.get(id(module), f"_unregistered_{type(module).__name__}"))
            depth += 1

    def leave(module: nn.Module, *_: Any) -> None:
        nonlocal depth
        depth -= is_torch_layer(module)

    handles = [torch.nn.modules.module.register_module_forward_pre_hook(enter)]
    handles.append(torch.nn.modules.module.register_module_forward_hook(leave))
    try:
        with torch.no_grad():
            model(*args, **kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return calls


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 8)

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) / 2


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.shortcut = nn.Conv2d(3, 4, 1, bias=False)

    def forward(self, x):
        return (self.body(x) + self.shortcut(x)).mean((2, 3))


class CalledTwice(Perceptron):
    def forward(self, x):
        return self.second(self.first(self.second(self.first(x))))


class KeywordOnly(Perceptron):
    def forward(self, *, x, scale=None):
        y = self.first(x)
        return y if scale is None else y * scale


class DictOutput(Perceptron):
    def forward(self, x):
        y = self.first(x)
        return {"y": y, "nothing": None, "both": (x, [y + 1])}


@dataclasses.dataclass
class Result:
    y: torch.Tensor
    nothing: object = None


class DataclassOutput(Perceptron):
    def forward(self, x):
        return Result(self.first(x))


class OtherDictOutput(Perceptron):
    def forward(self, x):
        found = collections.defaultdict(list)
        found["y"].append(self.first(x))
        return found, collections.OrderedDict(x=x)


class TupleOutput(Perceptron):
    def forward(self, x):
        return self.first(x), None, (x, x.shape[0])


class NestedInput(Perceptron):
    def forward(self, inputs, flag=True):
        y = self.first(inputs["x"]) + self.first(inputs["more"][0])
        return y if flag else -y


class NoneInput(Perceptron):
    def forward(self, x, mask=None, y=None):
        x = self.first(x if mask is None else x * mask)
        return x if y is None else x + self.first(y)


class DecidesBySize(Perceptron):
    """Has to be recorded: torch.fx cannot follow its decisions."""

    def forward(self, x):
        batch, sequence, width = x.shape
        causal = torch.full((sequence, sequence), float("-inf"), device=x.device).triu(1)
        if sequence > 4:
            causal = causal * 2
        scores = x @ x.transpose(1, 2) / math.sqrt(width)
        return self.first((scores + causal).softmax(-1) @ x).view(batch, -1)


class WritesInPlace(Perceptron):
    def forward(self, x):
        x = self.second(self.first(x))
        x.mul_(2)
        column = x[:, 0]
        column.add_(1)
        x[:, 1] = 0
        return x


class SameInBatchOfOne(Perceptron):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError("a matrix, please")
        return self.first(x) * 3 if x.shape[0] == 1 else self.first(x)


class ClashingNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleDict({"for": nn.Linear(8, 8), "1": nn.Linear(8, 8)})
        self.graph = nn.Linear(8, 8)
        self.lambda_ = nn.Linear(8, 8)

    def forward(self, x):
        return self.graph(self.blocks["1"](self.blocks["for"](self.lambda_(x))))


def vector(batch: int = 3) -> torch.Tensor:
    return torch.randn(batch, 8, generator=torch.Generator().manual_seed(batch))


def image(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, 6, 6, generator=torch.Generator().manual_seed(batch))


Example = Callable[[int], tuple[tuple[Any, ...], dict[str, Any]]]

PLAIN: dict[str, tuple[type[nn.Module], Example]] = {
    "perceptron": (Perceptron, lambda n: ((vector(n),), {})),
    "convolutions": (Convolutions, lambda n: ((image(n),), {})),
    "called twice": (CalledTwice, lambda n: ((vector(n),), {})),
    "keyword only": (KeywordOnly, lambda n: ((), {"x": vector(n)})),
    "keyword None": (KeywordOnly, lambda n: ((), {"x": vector(n), "scale": None})),
    "keyword number": (KeywordOnly, lambda n: ((), {"x": vector(n), "scale": 0.5})),
    "dict output": (DictOutput, lambda n: ((vector(n),), {})),
    "dataclass output": (DataclassOutput, lambda n: ((vector(n),), {})),
    "other dict output": (OtherDictOutput, lambda n: ((vector(n),), {})),
    "tuple output": (TupleOutput, lambda n: ((vector(n),), {})),
    "nested input": (NestedInput, lambda n: (({"x": vector(n), "more": [vector(n) + 1]},), {})),
    "nested input, flag off": (NestedInput, lambda n: (({"x": vector(n), "more": [vector(n)]}, False), {})),
    "None input": (NoneInput, lambda n: ((vector(n), None), {})),
    "None between tensors": (NoneInput, lambda n: ((vector(n), None, vector(n)), {})),
    "decides by size": (DecidesBySize, lambda n: ((torch.stack([vector(6)] * n),), {})),
    "writes in place": (WritesInPlace, lambda n: ((vector(n),), {})),
    "clashing names": (ClashingNames, lambda n: ((vector(n),), {})),
}


def build(kind: type[nn.Module]) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind().eval()
