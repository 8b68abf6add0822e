"""Small models that the laws are run on. Each is built in milliseconds, in evaluation mode, from a seed of its own."""

import copy
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt

Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Example:
    name: str
    build: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    exported: bool = False
    """Whether the model is the module of an exported program, which calls operators."""

    def model(self) -> nn.Module:
        return _exported(self).module() if self.exported else self.eager()

    def eager(self) -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model = self.build().eval()
            for module in model.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
                    _draw_statistics(module)
        return model

    def inputs(self, seed: int = 1) -> Inputs:
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in self.shapes)

    def graph(self) -> GraphModule:
        if self.exported:  # torch itself warns of copying one
            return fxopt.capture(self.model(), self.inputs())
        return copy.deepcopy(_captured(self))


@functools.cache
def _captured(example: Example) -> GraphModule:
    return fxopt.capture(example.model(), example.inputs())


@functools.cache
def _exported(example: Example) -> torch.export.ExportedProgram:
    return torch.export.export(example.eager(), example.inputs())


def _draw_statistics(bn: nn.modules.batchnorm._BatchNorm) -> None:
    assert bn.running_mean is not None
    assert bn.running_var is not None
    bn.running_mean.normal_(0, 0.5)
    bn.running_var.uniform_(0.5, 2)
    if bn.weight is not None:
        nn.init.uniform_(bn.weight, 0.5, 1.5)
        nn.init.normal_(bn.bias, 0, 0.5)


class Attention(nn.Module):
    """Grouped-query self-attention as most transformers write it: k and v are narrower than q."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2, bias: bool = True) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q = nn.Linear(width, width, bias=bias)
        self.k = nn.Linear(width, groups * self.size, bias=bias)
        self.v = nn.Linear(width, groups * self.size, bias=bias)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        v = self.v(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.size)
        mixed = torch.matmul(scores.softmax(-1), v).transpose(1, 2).reshape(batch, length, -1)
        return x + self.out(mixed)


class GatedMlp(nn.Module):
    """gate and up read one input, without bias; the division is by a number whose inverse is not exact."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(8, 24, bias=False), nn.Linear(8, 24, bias=False)
        self.down = nn.Linear(24, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x)) / 49


class ConvBlocks(nn.Module):
    """A residual net: convolutions with and without bias, groups, dilation, and every padding mode."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.stem_bn = nn.BatchNorm2d(8)
        self.a = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2, padding_mode="reflect"), nn.BatchNorm2d(8))
        self.b = nn.Sequential(nn.Conv2d(8, 8, 3, padding=2, dilation=2, padding_mode="circular"), nn.BatchNorm2d(8))
        self.c = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding="same", padding_mode="replicate"), nn.BatchNorm2d(8, affine=False)
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.stem_bn(self.stem(x)))
        x = x + self.relu(self.a(x))
        x = x + self.relu(self.b(x))
        return (x + self.c(x)).mean((2, 3))


class Heads(nn.Module):
    """Batch normalization after a linear, before one, between two, and where it cannot be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU())
        self.middle = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 8, bias=False), nn.BatchNorm1d(8, affine=False))
        self.alone = nn.BatchNorm1d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.alone(torch.tanh(self.middle(self.first(x))))


class Shared(nn.Module):
    """One block run twice, tied weights, and a layer under two names: nothing may be merged, folded or fused."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Linear(4, 4)
        self.alias = self.block
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.block.weight
        self.conv = nn.Conv2d(1, 1, 1)
        self.one, self.two = nn.BatchNorm2d(1), nn.BatchNorm2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block(x) + self.alias(x) + self.tied(x)
        image = y[:, None, None, :]
        return self.one(self.conv(image)) + self.two(self.conv(image * 2))


class InPlace(nn.Module):
    """The input of two sibling linears changes between them; another in-place result is never read."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clone()
        first = self.a(x)
        x.add_(1)
        second, third = self.b(x), self.c(x)
        first.mul_(2)
        return first + second.view(-1).view_as(third) / 8 + third


class Root(nn.Module):
    """Linears at the top level, called by keyword; one output feature; an output that is returned as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.one = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"wide": self.wide(input=x), "one": self.one(input=x) / 3.0}


class Chain(nn.Module):
    """Back-to-back sites: the output of one is the input of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, 1)
        self.bn1, self.bn2 = nn.BatchNorm2d(2), nn.BatchNorm2d(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(torch.relu(self.bn2(self.bn1(self.conv(x))) / 3 / 5 / 7)))


class Functional(nn.Module):
    """Layers that are called as functions, on parameters and buffers of the model."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 3, 3, 3) / 5)
        self.gamma, self.beta = nn.Parameter(torch.rand(4) + 0.5), nn.Parameter(torch.randn(4))
        self.register_buffer("mean", torch.randn(4))
        self.register_buffer("variance", torch.rand(4) + 0.5)
        self.q_weight, self.q_bias = nn.Parameter(torch.randn(6, 4) / 2), nn.Parameter(torch.randn(6))
        self.k_weight, self.k_bias = nn.Parameter(torch.randn(2, 4) / 2), nn.Parameter(torch.randn(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, self.kernel, stride=2)
        x = F.batch_norm(x, self.mean, self.variance, self.gamma, self.beta)
        x = torch.relu(x).mean((2, 3))
        return F.linear(x, self.q_weight, self.q_bias).view(-1, 2) / 3 + F.linear(x, self.k_weight, self.k_bias).repeat(
            3, 1
        )


class Mixed(nn.Module):
    """A little of everything, to be exported: layers that become operators."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.conv_bn = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.up, self.up_bn = nn.ConvTranspose2d(4, 6, 2, groups=2), nn.BatchNorm2d(6, affine=False)
        self.q, self.k, self.gate = nn.Linear(6, 4), nn.Linear(6, 2), nn.Linear(6, 4, bias=False)
        self.drop, self.q_bn = nn.Dropout(), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv_bn(self.conv(x)))
        x = self.up_bn(self.up(x)).mean((2, 3))
        return self.q_bn(self.drop(self.q(x))) / 7 * self.gate(x).sigmoid() + self.k(x).view(-1, 1, 2).flatten(
            1
        ).repeat(1, 2)


class AskingNorm(nn.BatchNorm2d):
    """A norm with an activation that checks its input first, as timm's BatchNormAct2d does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._assert(x.ndim == 4, "expected an image")
        x = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.1, self.eps)
        return F.relu(x)


class Asking(nn.Module):
    """Shapes, dtypes and devices are read of what is folded, fused and merged."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, bias=False), AskingNorm(4)
        self.first, self.first_bn = nn.Linear(4, 6), nn.BatchNorm1d(6)
        self.second_bn, self.second = nn.BatchNorm1d(6), nn.Linear(6, 4)
        self.q, self.k = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).mean((2, 3))
        x = self.first(x)
        rows, kind = x.shape[0], x.dtype
        x = torch.tanh(self.first_bn(x) / x.ndim)
        x = self.second_bn(x)
        width = x.size(-1)
        x = self.second(x)
        q, k = self.q(x), self.k(x)
        torch._assert(q.dim() == 2, "expected rows")
        return (q.view(rows, -1) * width / 3).to(kind) + k.to(device=q.device).view(q.shape)


EXAMPLES = (
    Example("attention", Attention, ((2, 5, 16),)),
    Example("attention without bias", lambda: Attention(bias=False), ((2, 5, 16),)),
    Example("gated mlp", GatedMlp, ((2, 3, 8),)),
    Example("conv blocks", ConvBlocks, ((2, 3, 9, 9),)),
    Example("heads", Heads, ((5, 6),)),
    Example("shared", Shared, ((3, 4),)),
    Example("in place", InPlace, ((3, 4),)),
    Example("root", Root, ((3, 4),)),
    Example("chain", Chain, ((2, 2, 4, 4),)),
    Example("functional", Functional, ((2, 3, 5, 5),)),
    Example("asking", Asking, ((2, 3, 5, 5),)),
    Example("exported", Mixed, ((3, 3, 4, 4),), exported=True),
)


def outputs(gm: nn.Module, inputs: Inputs) -> list[torch.Tensor]:
    """The output tensors, run without gradients on copies of the inputs (a model may write into them)."""
    with torch.no_grad():
        result: Any = gm(*(x.clone() for x in inputs))
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
