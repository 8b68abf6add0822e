"""Write the picture of a graph as DOT text."""

import torch
from torch import nn

import fxopt
from fxopt.view import GraphView, to_dot

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
gm = fxopt.capture(model, (torch.rand(3, 4),))
dot = to_dot(GraphView.of(gm))
assert dot.startswith("digraph") and "ReLU" in dot
print(dot)
