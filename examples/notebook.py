"""Cells for a notebook, in JupyterLab or VS Code: the last line of each is drawn, or is told as text in a shell."""

# %% a graph is drawn as on the page, in a frame that needs no server and no network
import torch
from torch import nn

import fxopt
from fxopt.evidence import compare_outputs, parameter_table

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
x = torch.rand(2, 3, 8, 8)
gm = fxopt.capture(model, (x,))
gm  # noqa: B018

# %% the matches and near misses of a pass, marked in the graph
fxopt.FuseBatchNorm2dInConv2d().scan(gm)

# %% the original graph beside the present one
wb = fxopt.Workbench(gm)
wb.turn_on("FuseBatchNorm2dInConv2d")
wb  # noqa: B018

# %% what changed, as tables
parameter_table(wb.pristine, wb.current)

# %%
compared = compare_outputs(wb.pristine, wb.current, [((x,), {})])
assert compared.fits
print(compared)
compared  # noqa: B018
