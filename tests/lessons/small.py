"""A small lesson on a small model, to be varied by tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from fxopt.evidence import LatencyReport, Round, report_of
from fxopt.lessons.needs import Needs
from fxopt.models import Inputs
from fxopt.workbench import Workbench

TEXT = """---
id: small
title: A small lesson
minutes: 5
needs: {model: small}
after: [another]
---

## Fold it

The graph has {nodes.before} nodes.

```step
highlight: [pass:FoldBatchNorm, node:_1]
ask:
  question: How many nodes will the graph have?
  answers:
    - text: as many
      holds: {figure: {of: nodes.delta, exactly: 0}}
      because: "The graph has {nodes.now} nodes now: the norm is gone."
    - text: one less
      holds: {figure: {of: nodes.delta, exactly: -1}}
done: {site_on: [FoldBatchNorm, _1]}
hints: [look, point, "turn it on"]
solution: {turn_on: [FoldBatchNorm, _1]}
```

### Explanation

It lost {parameters.delta} parameters.

## Count

Look at the numbers.

```step
ask:
  question: How many parameters has the norm?
  number: parameters.before
  tolerance: 5%
  misconceptions:
    - number: parameters.now
      because: "That is the count after the fold."
  otherwise: "Open the tab: it says {parameters.before}."
hints: [one, two, three]
```

## Compare

Compare both.

```step
done: {all: [{numerics: compared}, {not: {numerics: different}}, {tab: Numerics}]}
hints: [one, two, three]
solution: [{tab: Numerics}, {compare: true}]
```
"""


@cache
def _captured() -> tuple[Workbench, Inputs]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    inputs: Inputs = ((torch.rand(2, 3, 6, 6),), {})
    return Workbench(model, *inputs), inputs


def opened(needs: Needs) -> tuple[Workbench, Inputs]:
    """Return a workbench for a convolution and its norm."""
    wb, inputs = _captured()
    return wb.another(), inputs


def timed(after: float) -> Callable[[Workbench, Inputs], LatencyReport]:
    """Return a measurement in which the new graph takes `after` of the time of the original."""
    return lambda wb, inputs: report_of([Round(1.0, after, 1.0)] * 15)
