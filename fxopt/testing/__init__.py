"""The laws that every pass obeys, for your own passes as well: one call, `check_pass`.

>>> import torch, fxopt
>>> from fxopt.testing import check_pass
>>> class Scale(torch.nn.Module):
...     def forward(self, scores):
...         return scores / 8
>>> print(check_pass(fxopt.ChangeTrueDivToMulByInverse(), [(Scale(), (torch.rand(2, 3),))]))
ChangeTrueDivToMulByInverse obeys 10 laws on 1 model (1 site: Scale 1)
"""

from fxopt.testing.breach import LawBroken
from fxopt.testing.case import Case
from fxopt.testing.checking import LawReport, check, check_pass, title
from fxopt.testing.laws import LAWS, Law

__all__ = ["LAWS", "Case", "Law", "LawBroken", "LawReport", "check", "check_pass", "title"]
