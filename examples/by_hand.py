"""Change a graph by hand. Each change is tried on fake tensors first, and reverses exactly."""

import torch
from torch import nn

import fxopt
from fxopt.edits import EditError, Insert, SetArgument


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) / 2


wb = fxopt.Workbench(Scaled().eval(), (torch.rand(3, 8),))
x = torch.rand(3, 8)
before = wb.current(x)

wb.edit(SetArgument("truediv", "args[1]", 4.0))
assert torch.allclose(wb.current(x), before / 2)

wb.edit(Insert("truediv", "ReLU"))
assert (wb.current(x) >= 0).all()

try:
    wb.edit(Insert("truediv", "LayerNorm(5)"))
except EditError as error:
    print("refused:", error)
else:
    raise AssertionError("a norm of five features cannot read eight")

wb.undo()
wb.undo()
assert wb.is_restored
