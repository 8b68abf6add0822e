"""A small model with something for each kind of edit, in evaluation mode."""

import copy
import functools

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule

import fxopt


class Small(nn.Module):
    """Convolution and batch norm, siblings that can be merged, a division, dropout, functions and methods."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.act = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(4, 6)
        self.drop, self.last = nn.Dropout(0.5), nn.Linear(6, 2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm(self.conv(images)))
        x = x.flatten(2).mean(-1)
        one, two = self.a(x), self.b(x)
        y = F.relu(one) / 3 - two.tanh()
        return self.last(self.drop(y)).softmax(-1)


def images() -> torch.Tensor:
    return torch.randn(5, 1, 6, 6, generator=torch.Generator().manual_seed(1))


@functools.cache
def _captured() -> GraphModule:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Small().eval()
        nn.init.normal_(model.norm.running_mean)
    # traced first: torch can save no graph that capture made, which gives the output a type by its name
    return fxopt.capture(torch.fx.symbolic_trace(model), (images(),))


def small() -> GraphModule:
    """A graph of its own, with a node for each call; those of functions and methods bear their names."""
    return copy.deepcopy(_captured())
