"""A person's script: two models on the page, and a third one that cannot be captured."""

import io
import sys

import torch
from torch import nn

import fxopt


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, width, 3), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) / 3


class Branches(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(x)
        return self.norm(x) if x.sum() > 0 else x


x = torch.rand(2, 1, 6, 6)
fxopt.explore(Net(4).eval(), x, name="narrow", open_browser=False)
fxopt.explore(Net(8).eval(), {"x": x}, name="wide", open_browser=False)
sys.stdin.readline()
torch.save(Net(4), io.BytesIO())  # pickle finds the class in this script, as ever
sys.stdout.write("saved\n")
sys.stdout.flush()
fxopt.explore(Branches(4).eval(), x, name="branches", open_browser=False)
