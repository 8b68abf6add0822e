"""A region of the graph becomes one call, which ONNX Runtime or OpenVINO computes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node

from fxopt.core import NEEDS_SHAPES, Condition, Conditions, GraphIndex, TensorInfo, Unmet, info_of, is_tensor
from fxopt.engines import RUNTIMES, SessionRegion
from fxopt.engines.session import DTYPES
from fxopt.errors import ArgumentError
from fxopt.graph.nodes import attribute_of, operation_name
from fxopt.passes.regions import Region, RegionPass

_INTEGERS = DTYPES - {torch.float32, torch.bool}
_MOVES = frozenset({"getitem", "slice", "select", "view", "reshape", "expand", "unsqueeze", "squeeze", "transpose",
                    "permute", "contiguous", "flatten", "clone"})  # fmt: skip
"""Functions that only move the numbers that they are given."""


class DelegateRegions(RegionPass):
    """Replace the calls of a region by one, which ONNX Runtime or OpenVINO computes on the CPU.

    The region is exported (`torch.export`) and loaded by the engine, which sees all of its operations: it fuses those
    that work number by number with the products of matrices before them, lays weights out for its own kernels, and runs
    without Python between the operations. It computes the same function in float32; sums may be taken in another order
    and functions such as `exp` from another approximation, so results differ by rounding. The first call for each kind
    of input is compared with the region itself: beyond rounding, or if the engine fails, the region is computed node by
    node, with a warning.

    It pays where Python and passes over memory weigh much against the products. It costs seconds at the first call, and
    for each number of threads a copy of the weights in the engine. Other sizes of the inputs have the region exported
    once more, with those sizes free where the export can. Weights that are written to have it exported anew, except
    through ``.data`` or by another library, as ``weight.data.mul_(2)``: such a write raises no version, and results
    are those of the old weights until the pass is switched off and on. It is for inference: under
    `torch.inference_mode()` or `torch.no_grad()`, in evaluation mode; everywhere else, and for inputs of other types,
    the region computes as before. Two differences remain: an index out of range need not be an error in
    an engine, and OpenVINO may lose a NaN that arises inside of the region. OpenVINO gets neither inputs that are not
    finite, which are computed node by node, nor arithmetic of integers, which it computes otherwise than torch.

    Args:
        engine: "onnxruntime" or "openvino", the package that must be installed.
        module: the modules whose calls become one, by dotted path, with ``*`` for any part: ``"encoder.layer.*"``. The
            outermost that match are taken. Empty for the whole graph.

    >>> import torch, fxopt
    >>> pass_ = fxopt.DelegateRegions("onnxruntime", module="encoder.layer.*")
    >>> pass_
    DelegateRegions(module='encoder.layer.*', engine='onnxruntime')
    """

    label = "Delegate regions"
    needs = "two calls without writes, in evaluation mode"
    suffix = "delegated"

    def __init__(self, engine: str, module: str = "") -> None:
        super().__init__(module)
        if engine not in RUNTIMES:
            raise ArgumentError(f"DelegateRegions(engine=...) takes one of {', '.join(RUNTIMES)}; this is {engine!r}")
        self.engine = engine

    def engine_condition(self) -> Condition:
        missing, _, remedy = RUNTIMES[self.engine].missing.partition(": ")
        return not missing or Unmet(
            f"{RUNTIMES[self.engine].name} is not installed: {missing}",
            remedy=remedy,
            actual="not installed",
            needed=self.engine,
        )

    def module_for(self, body: GraphModule) -> SessionRegion:
        return SessionRegion(body, self.engine)

    @property
    def told(self) -> str:
        return f"{RUNTIMES[self.engine].name} computes them"

    def region_conditions(self, region: Region, index: GraphIndex) -> Conditions[None]:
        for name, info in _tensors_of(region, index):
            if info is None:
                yield Unmet(f"the type of {name} is unknown", remedy=NEEDS_SHAPES, actual="unknown", needed="a type")
            else:
                yield info.dtype in DTYPES or Unmet(
                    f"{name} is {info}, and an engine gets float32, integers and booleans",
                    actual=str(info.dtype),
                    needed="float32, an integer or bool",
                )
                yield info.device.type == "cpu" or Unmet(
                    f"{name} is on {info.device}, and an engine computes on the CPU",
                    actual=str(info.device),
                    needed="the CPU",
                )
        for one in region.inside if self.engine == "openvino" else ():
            info = info_of(one)
            moves = one.op == "get_attr" or operation_name(one) in _MOVES
            yield (info is None or info.dtype not in _INTEGERS or moves) or Unmet(
                f"{one.name} computes integers, and OpenVINO computes other ones where they are negative or large",
                remedy='hand over the modules that compute floats alone: module="..."',
                actual=str(one),
                needed="integers that are read, moved or compared only",
            )
        seen: dict[Node, Node] = {}
        for one in region.outputs:
            yield is_tensor(one) or Unmet(
                f"the result {one.name} is no tensor, and an engine gives tensors alone",
                actual="no tensor",
                needed="tensors",
            )
            for origin in index.origins(one):
                other = seen.setdefault(origin, one)
                inside = origin in region.inside and origin.op != "get_attr"
                shared = other if other is not one else origin
                yield (inside and other is one) or Unmet(
                    f"the result {one.name} may share memory with {shared.name}, and an engine gives memory of its own",
                    actual=f"memory of {shared.name}",
                    needed="memory of its own",
                )


def _tensors_of(region: Region, index: GraphIndex) -> Iterator[tuple[str, TensorInfo | None]]:
    """Yield the tensors that a region reads and computes, with their names."""
    for node in (*region.inputs, *region.inside):
        module = index.module_of(node)
        for name, tensor in (*module.named_parameters(), *module.named_buffers()) if module is not None else ():
            yield f"{node.target}.{name}", TensorInfo.of(tensor)
        if node.op == "get_attr":
            value = attribute_of(index.gm, str(node.target))
            if isinstance(value, torch.Tensor):
                yield str(node.target), TensorInfo.of(value)
        elif is_tensor(node):
            yield node.name, info_of(node)
