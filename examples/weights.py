"""Train a transformed model, carry its weights back to the original, and give it weights of the original."""

import torch
from torch import nn

import fxopt
from fxopt.export import to_original, to_transformed


class Scores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.q(x) * self.k(x)


torch.manual_seed(0)
x = torch.rand(2, 8)
model = Scores()
gm = fxopt.MergeLinears()(fxopt.capture(model, (x,)))
optimizer = torch.optim.SGD(gm.parameters(), lr=0.1)
gm(x).square().mean().backward()
optimizer.step()

carried = to_original(gm)  # the merged weight splits into its rows
print(carried)
assert [*carried.state] == [*model.state_dict()] and not carried.lost
model.load_state_dict(carried.state)
assert torch.allclose(model(x), gm(x))

fresh = Scores()
gm.load_state_dict(to_transformed(gm, fresh.state_dict()))
assert torch.allclose(gm(x), fresh(x))

# A batch norm that was folded cannot be told from the weights that it went into: the reason is told.
convolution = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2)).eval()
fused = fxopt.FuseBatchNorm2dInConv2d()(fxopt.capture(convolution, (torch.rand(2, 1, 3, 3),)))
folded = to_original(fused)
print(folded)
assert "0.weight" in folded.lost
