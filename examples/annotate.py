"""Give shapes to a graph of `torch.fx.symbolic_trace`, so that passes can prove their sites."""

import torch

import fxopt

gm = torch.fx.symbolic_trace(lambda x: x / 3)
plain = fxopt.ChangeTrueDivToMulByInverse().scan(gm)
assert not plain.matches  # nothing says that x is a tensor
print(plain)

fxopt.annotate(gm, torch.rand(2, 5))  # in place, by a run on fake tensors
scan = fxopt.ChangeTrueDivToMulByInverse().scan(gm)
assert [match.site for match in scan.matches] == ["truediv"]
print(scan)
