"""Open the page on models of one's own, and go on: the script stays for the page until Ctrl+C."""

import copy
import operator

import torch
from torch import nn

import fxopt


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, width, 3), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) / 3


x = torch.rand(2, 3, 8, 8)
fxopt.explore(Net(4).eval(), x, name="narrow")
wide = fxopt.explore(Net(64).eval(), {"x": x}, name="wide")
print(wide.url)  # with the token, without which nobody is let in

# A graph that code of one's own has changed is compared with its original, difference by difference.
before = fxopt.capture(Net(4).eval(), (x,))
after = copy.deepcopy(before)
after.graph.find_nodes(op="call_function", target=operator.truediv)[0].target = operator.mul
after.recompile()
fxopt.explore(before, after, name="divided and multiplied")
