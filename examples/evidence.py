"""Compare a transformed graph with the original: parameters, numerics, latency."""

import torch
from torch import nn

import fxopt
from fxopt.evidence import compare_outputs, measure, parameter_table

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU()).eval()
x = torch.rand(2, 3, 32, 32)
wb = fxopt.Workbench(model, (x,))
wb.turn_on("FuseBatchNorm2dInConv2d")

table = parameter_table(wb.pristine, wb.current)
print(table.summary)
assert table.before.parameters - table.after.parameters == 32  # the scale and the shift of 16 channels

numerics = compare_outputs(wb.pristine, wb.current, [((x,), {})])
print(numerics.verdict)
assert numerics.fits

latency = measure(wb.pristine, wb.current, (x,))
print(latency.verdict)  # on a noisy machine, "no difference shown" is the honest answer
print(latency.frame)
