"""A region of the graph becomes one call, which follows a plan."""

from __future__ import annotations

from torch.fx import GraphModule

from fxopt.core import Condition
from fxopt.engines import PlannedRegion
from fxopt.passes.regions import RegionPass


class PlanRegions(RegionPass):
    """Replace the calls of a region by one, which makes them by a plan, with the questions around them answered.

    Called node by node, a module is sought by its path, part by part, and a packed layer asks in each call for the
    shapes, dtypes and memory of its inputs, for the modes of torch, and for its packed weight. That is Python, and
    takes 10 to 20 microseconds a node, between kernels that have driven it out of the caches. A plan is made at the
    first call for inputs of a kind: it is the code of the graph with each module at hand, and with packed layers that
    have decided. One call asks once for all. Where an image is proven to be bounded, the plan bounds the results
    behind it by the weights, and saves further proofs.

    It computes the same function with the same kernels. It pays in nets of many small layers (`docs/speed.md` has
    figures), after `PackLinears` and `PackConvolutions`. Weights that are written to have it made anew, except through
    ``.data``. It is for inference: under `torch.inference_mode()` or `torch.no_grad()`, in evaluation mode; everywhere
    else, with hooks on modules of the region, and where somebody watches the calls, the region computes node by node.
    The first 8 kinds of inputs, as sizes, have a plan; for others, the region computes node by node.

    Args:
        module: the modules whose calls become one, by dotted path, with ``*`` for any part: ``"encoder.layer.*"``. The
            outermost that match are taken. Empty for the whole graph.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)).eval()
    >>> gm = fxopt.PackLinears()(fxopt.capture(model, (torch.rand(2, 8),)))
    >>> [node.name for node in fxopt.PlanRegions()(gm).graph.nodes]
    ['input_1', 'planned', 'output']
    >>> [node.name for node in fxopt.PlanRegions()(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_2', 'output']
    """

    label = "Plan regions"
    needs = "two calls without writes, in evaluation mode"
    suffix = "planned"
    keeps_narrow = True

    def engine_condition(self) -> Condition:
        return True

    def module_for(self, body: GraphModule) -> PlannedRegion:
        return PlannedRegion(body)

    @property
    def told(self) -> str:
        return "a plan is made"
