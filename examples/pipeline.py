"""A pipeline of graph changes, recorded step by step; with --page, stepped through in the browser."""

import sys

import torch
from torch import nn

import fxopt


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.q, self.k = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return (self.q(x) * 1 + self.k(x)) * torch.ones(4)


x = torch.rand(2, 3, 8, 8)
gm = fxopt.capture(Model().eval(), (x,))
with fxopt.record(gm) as log:
    fxopt.compose(fxopt.FuseBatchNorm2dInConv2d(), fxopt.MergeLinears())(gm)
    log.step("dead code", lambda gm: gm.graph.eliminate_dead_code())
    log.inductor(gm, x)  # its passes, up to the graph that it would generate code from
print(log)
(merge,) = (step for step in log.steps if step.name == "MergeLinears")
print("q_k_merged came from", *merge.came_from["q_k_merged"])
assert {step.stage for step in log.steps} == {"", "pre-grad", "joint", "post-grad"}

if "--page" in sys.argv:
    fxopt.explore(log, x)
