"""Turn single sites of a pass on and off, undo, and see how the graph follows."""

import torch
from torch import nn

import fxopt

model = nn.Sequential(
    nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()
).eval()
wb = fxopt.Workbench(model, (torch.rand(2, 3, 16, 16),))

for state in wb.states:
    print(f"{state.pass_.name}: {len(state.sites)} sites, {len(state.misses)} near misses")

wb.turn_on("FuseBatchNorm2dInConv2d")  # both sites
first = wb.state_of("FuseBatchNorm2dInConv2d").sites[0].site
wb.turn_off("FuseBatchNorm2dInConv2d", site=first)
assert [node.name for node in wb.current.graph.nodes].count(first) == 1

wb.undo()
assert first not in [node.name for node in wb.current.graph.nodes]
wb.reverse_all()
assert wb.is_restored
print("restored")
