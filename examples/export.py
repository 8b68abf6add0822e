"""Write a transformed model as a Python file and weights that need torch alone, and load it."""

import importlib
import sys
import tempfile

import torch
from torch import nn

import fxopt
from fxopt.export import export_python

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
wb = fxopt.Workbench(model, (torch.rand(2, 3, 8, 8),))
wb.turn_on("FuseBatchNorm2dInConv2d")

x = torch.rand(2, 3, 8, 8)
with tempfile.TemporaryDirectory() as folder:
    print(export_python(wb.current, folder, "fused").code.read_text())
    sys.path.insert(0, folder)
    fused = importlib.import_module("fused").load()  # in any process that has torch
    sys.path.remove(folder)

assert [*fused.state_dict()] == ["0.weight", "0.bias"]
assert torch.equal(fused(x), wb.current(x))
