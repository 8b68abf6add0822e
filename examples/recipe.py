"""Save the work on a model as a recipe, and replay it on the same model and on a changed one."""

import tempfile
from pathlib import Path

import torch
from torch import nn

import fxopt


class Net(nn.Module):
    def __init__(self, norm: bool = True) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8) if norm else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)) / 3


torch.manual_seed(0)
model, x = Net().eval(), torch.rand(2, 3, 8, 8)
wb = fxopt.Workbench(model, (x,))
wb.turn_on("FuseBatchNorm2dInConv2d")
wb.turn_on("ChangeTrueDivToMulByInverse")

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "recipe.json"
    fxopt.Recipe.of(wb).save(file)
    recipe = fxopt.Recipe.load(file)

again = fxopt.Workbench(model, (x,))
assert recipe.replay(again).is_same  # the same fingerprint, to the last bit

changed = fxopt.Workbench(Net(norm=False).eval(), (x,))
try:
    recipe.replay(changed)
except fxopt.RecipeError as error:
    print(error)  # the batch norm is gone
found = recipe.replay(changed, strict=False)
assert found.sites_on == 1 and len(found.problems) == 1
