"""Models that the command is given, as a person has them in a file."""

import torch
from torch import nn

import fxopt


class Net(nn.Module):
    """A convolution with its norm, and two linears to merge."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.q, self.k = nn.Linear(4, 6), nn.Linear(4, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(x)).mean((2, 3))
        return (self.q(x) - self.k(x)) / 3


class ReadTwice(Net):
    """The convolution is read beside its norm too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return self.norm(x) + x


def read_twice() -> tuple[nn.Module, torch.Tensor]:
    return ReadTwice(), make()[1]


def make() -> tuple[nn.Module, torch.Tensor]:
    """The model, and one input."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Net(), torch.rand(2, 1, 6, 6)


def bare() -> nn.Module:
    print("no part of the answer")  # noqa: T201 - some models do
    return make()[0]


def with_arguments(width: int) -> nn.Module:
    return nn.Linear(width, width)


def fails() -> nn.Module:
    raise KeyError("on purpose")


def a_number() -> int:
    return 3


def branches() -> tuple[nn.Module, torch.Tensor]:
    """A model that cannot be captured: its way depends on the numbers of its input."""

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x

    return Branches(), torch.rand(3)


def decided() -> tuple[nn.Module, torch.Tensor]:
    """The graph of that model, decided as for its example."""
    model, x = branches()
    return fxopt.capture(model, (x,), allow_baked=True), x


changed = nn.Sequential(nn.Linear(4, 4))
NUMBER = 3
