"""Capture a model, merge its linear layers, and go back to the last bit."""

import torch
from torch import nn

import fxopt


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2) / 8, dim=-1)
        return weights @ self.value(x)


model = Attention().eval()
x = torch.rand(2, 10, 64)
gm = fxopt.capture(model, (x,))
before = fxopt.fingerprint(gm)
print(fxopt.MergeLinears().scan(gm))

fxopt.MergeLinears()(gm)  # in place; the model itself is never changed
print("largest difference:", (gm(x) - model(x)).abs().max().item())
assert torch.allclose(gm(x), model(x), atol=1e-6)

fxopt.MergeLinears()(gm, reverse=True)
assert fxopt.fingerprint(gm) == before
assert torch.equal(gm(x), model(x))
print("reversed, to the last bit")
