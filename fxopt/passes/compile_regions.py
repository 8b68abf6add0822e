"""A region of the graph becomes one call, which `torch.compile` computes."""

from __future__ import annotations

from torch.fx import GraphModule

from fxopt.core import Condition, Unmet
from fxopt.engines import CompiledRegion, compiler_of
from fxopt.engines.compiled import INDUCTOR
from fxopt.errors import ArgumentError
from fxopt.passes.regions import RegionPass


class CompileRegions(RegionPass):
    """Replace the calls of a region by one, which Inductor compiles to C++ with the weights laid out for it.

    Called node by node, each operation reads its inputs from memory and writes its result back, and Python calls it. A
    compiler sees all operations of the region: it joins those that work number by number into one loop, which reads and
    writes memory once, and calls the products of matrices with packed weights. It computes the same function; sums may
    be taken in another order and functions such as `exp` from another approximation, so results differ by rounding.

    It pays where Python and passes over memory weigh much against the products. It costs seconds for the first call of
    each kind of input and number of threads, for each weight a copy in Inductor's order, and a C++ compiler on the
    machine. Weights that are written to have it compiled anew, except through ``.data`` or by another library, as
    ``weight.data.mul_(2)``: such a write raises no version, and results are those of the old weights until the pass is
    switched off and on. It is for inference: under `torch.inference_mode()` or `torch.no_grad()`, in evaluation mode;
    everywhere else the region computes as before.

    Args:
        module: the modules whose calls become one, by dotted path, with ``*`` for any part: ``"encoder.layer.*"``. The
            outermost that match are taken. Empty for the whole graph.
        backend: of `torch.compile`.

    >>> import torch, fxopt
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 8)).eval()
    >>> gm = fxopt.capture(model, (torch.rand(2, 8),))
    >>> pass_ = fxopt.CompileRegions(backend="eager")
    >>> [node.name for node in pass_(gm).graph.nodes]
    ['input_1', 'compiled', 'output']
    >>> [node.name for node in pass_(gm, reverse=True).graph.nodes]
    ['input_1', '_0', '_1', '_2', 'output']
    """

    label = "Compile regions"
    needs = "two calls without writes, in evaluation mode"
    suffix = "compiled"

    def __init__(self, module: str = "", *, backend: str = INDUCTOR) -> None:
        super().__init__(module)
        if not isinstance(backend, str):
            raise ArgumentError(f"CompileRegions(backend=...) takes a text; this is {backend!r}")
        self.backend = backend

    def engine_condition(self) -> Condition:
        return bool(compiler_of(self.backend)) or Unmet(
            f"this machine has no C++ compiler, which {self.backend} needs",
            remedy="install g++, or name one in the environment variable CXX",
            actual="none",
            needed="a C++ compiler",
        )

    def module_for(self, body: GraphModule) -> CompiledRegion:
        return CompiledRegion(body, self.backend)

    @property
    def told(self) -> str:
        return f"{self.backend} compiles them"
