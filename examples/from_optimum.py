"""Run code written for `optimum.fx.optimization`, with one import changed."""

import torch
from torch import nn

# was: from optimum.fx.optimization import ChangeTrueDivToMulByInverse, FuseBatchNorm2dInConv2d, compose
from fxopt import ChangeTrueDivToMulByInverse, FuseBatchNorm2dInConv2d, capture, compose

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
x = torch.rand(2, 3, 16, 16)
gm = capture(model, (x,))

fuse = FuseBatchNorm2dInConv2d()
transformation = compose(ChangeTrueDivToMulByInverse(), fuse)
transformed = transformation(gm)
assert [node.name for node in fuse.get_transformed_nodes(transformed)] == ["_0"]
assert torch.allclose(transformed(x), model(x), atol=1e-6)

restored = transformation(transformed, reverse=True)
assert torch.equal(restored(x), model(x))
print(restored.code)
