"""A region of the graph becomes one call of an engine: the search for regions, their conditions, and the rewrite."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Iterator, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import ClassVar

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node

from fxopt.core import Condition, Conditions, GraphIndex, Match, Miss, Pass, Rewriter, Unmet, decide, info_of, is_tensor
from fxopt.engines import EngineRegion
from fxopt.errors import ArgumentError
from fxopt.graph.guards import autocast_condition
from fxopt.graph.hooks import module_hook_condition
from fxopt.graph.marks import made_by
from fxopt.graph.nodes import attribute_of, module_stack_of, operation_name
from fxopt.graph.operator_names import canonical
from fxopt.graph.operator_table import DROPOUTS
from fxopt.graph.operators import calls_torchs_own
from fxopt.graph.tensor_state import tensors_held_by
from fxopt.packed import BFloat16Linear, Int8Linear
from fxopt.passes.packing import PASS_OF
from fxopt.tracing.structure import tensors_of

_FEWEST_CALLS = 2
_DRAWING_MODULES = (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)
_DRAWING = frozenset({"gumbel_softmax", "multi_head_attention_forward",
                      "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
                      "fractional_max_pool3d", "fractional_max_pool3d_with_indices"})  # fmt: skip
"""Functions of torch that draw random numbers or may do so, and are no operators with the tag."""
_READERS = (tensors_of, operator.getitem, getattr)
"""Functions that give parts of a value."""
_NAMES = 3
_NARROW: dict[type[nn.Module], str] = {BFloat16Linear: "bfloat16", Int8Linear: "integers of 8 bits"}
"""The numbers of packed layers that multiply others than those that they are given."""


@dataclass(frozen=True, eq=False)
class Region(Match):
    """Nodes of the graph that lie together; the anchor is the last of them."""

    path: str
    """The module whose calls they are; empty for the whole graph."""
    inside: tuple[Node, ...]
    """In order, with the parameters that only they read."""
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    """The nodes that others read."""
    before: Node
    """The call of the region goes in front of it."""


class RegionPass(Pass[Region]):
    """Replace the calls of a region by one, which an engine computes.

    A subclass implements `engine_condition`, `module_for` and `told`, and may add to `region_conditions`.

    Args:
        module: the modules whose calls become one, by dotted path, with ``*`` for any part: ``"encoder.layer.*"``. The
            outermost that match are taken. Empty for the whole graph.
    """

    targets = ()
    suffix: ClassVar[str]
    """Of the name of the module in the graph."""
    keeps_narrow: ClassVar[bool] = False
    """Whether layers that multiply in bfloat16 or integers do so in the region as well."""

    def __init__(self, module: str = "") -> None:
        if not isinstance(module, str):
            raise ArgumentError(f"{self.name}(module=...) takes a text; this is {module!r}")
        self.module = module

    @abstractmethod
    def engine_condition(self) -> Condition:
        """Require that the engine is to be had on this machine."""

    @abstractmethod
    def module_for(self, body: GraphModule) -> EngineRegion:
        """Return the module that computes `body` in the engine."""

    @property
    @abstractmethod
    def told(self) -> str:
        """The act of the engine on the calls, in words: "Inductor compiles them"."""

    def region_conditions(self, region: Region, index: GraphIndex) -> Conditions[None]:
        """Require more of a region, for this engine."""
        yield from ()

    def candidates(self, index: GraphIndex) -> Iterator[Node]:
        for nodes in self._regions(index).values():
            yield nodes[-1]

    def _regions(self, index: GraphIndex) -> dict[str, list[Node]]:
        """Return the calls of each region, by the path of its module."""
        return index.cached((type(self), self.module), lambda: self._found_regions(index))

    def _found_regions(self, index: GraphIndex) -> dict[str, list[Node]]:
        regions: dict[str, list[Node]] = {}
        for node in index.gm.graph.nodes:
            if node.op.startswith("call_") and (node.users or not index.effects(node).opaque):
                path = self._path_of(node)
                if path is not None:
                    regions.setdefault(path, []).append(node)
        return {path: calls for path, nodes in regions.items() if (calls := _of_tensors(_behind_containers(nodes)))}

    def _path_of(self, node: Node) -> str | None:
        """Return the outermost module that matches and whose call `node` is part of; None where there is none."""
        if not self.module:
            return ""
        return next((path for path, _ in module_stack_of(node) if fnmatchcase(path, self.module)), None)

    def match(self, node: Node, index: GraphIndex) -> Region | Miss | None:
        found = next(((path, nodes) for path, nodes in self._regions(index).items() if nodes[-1] is node), None)
        if found is None:
            return None
        path, nodes = found
        if len(nodes) < _FEWEST_CALLS or any(made_by(one, self.signature) for one in nodes):
            return None
        return decide(node, self._conditions(path, nodes, index))

    def _conditions(self, path: str, calls: list[Node], index: GraphIndex) -> Conditions[Region]:
        told = f"module {path}" if path else "graph"
        yield self.engine_condition()
        inside = set(calls)
        for one in calls:
            yield from _call_conditions(one, inside, index)
            yield self.keeps_narrow or _dtype_condition(one, index)
        held = [one for one in index.gm.graph.nodes if one.op == "get_attr" and one.users and set(one.users) <= inside]
        inside.update(held)
        order = {node: place for place, node in enumerate(index.gm.graph.nodes)}
        nodes = sorted(inside, key=order.__getitem__)
        for one in nodes:
            yield _memory_condition(one, index)
        inputs = list(dict.fromkeys(given for one in nodes for given in one.all_input_nodes if given not in inside))
        outputs = [one for one in nodes if any(user not in inside for user in one.users)]
        yield bool(outputs) or Unmet(f"nothing reads the results of the {told}", actual="none", needed="a reader")
        first_reader = min((user for one in outputs for user in one.users if user not in inside), key=order.__getitem__)
        late = [given for given in inputs if order[given] >= order[first_reader]]
        yield not late or Unmet(
            f"{first_reader.name} reads a result of the {told}, which needs {late[0].name} as well, at or behind it",
            actual=f"{late[0].name} after {first_reader.name}",
            needed="all inputs of the region before all readers of its results",
        )
        among = [one for one in index.writers if order[calls[0]] < order[one] < order[calls[-1]]]
        writer = next((one for one in among if one not in inside or order[first_reader] < order[one]), None)
        yield writer is None or Unmet(
            f"{writer.name} writes in place among the calls of the {told}, some of which would change places with it",
            actual=f"written by {writer.name}",
            needed="no write",
        )
        last = nodes[-1].next
        before = last if order[last] < order[first_reader] else first_reader
        region = Region(calls[-1], path, tuple(nodes), tuple(inputs), tuple(outputs), before)
        yield from self.region_conditions(region, index)
        return region

    def explain(self, match: Region) -> str:
        calls = [one for one in match.inside if one.op != "get_attr"]
        where = f"of module {match.path}" if match.path else "of the graph"
        given = "1 input" if len(match.inputs) == 1 else f"{len(match.inputs)} inputs"
        results = "result" if len(match.outputs) == 1 else "results"
        told = ", ".join(one.name for one in match.outputs[:_NAMES]) + (", …" if len(match.outputs) > _NAMES else "")
        return (
            f"The {len(calls)} calls {where} become one with {given}, which gives the {results} "
            f"{told}; {self.told} at the first call without gradients, and computes the same function. "
            "It follows writes to weights, except through `.data`: after one, switch it off and on."
        )

    def results(self, match: Region) -> tuple[Node, ...]:
        return tuple(one for one in match.inside if one.op != "get_attr" and is_tensor(one))

    def rewrite(self, match: Region, rewriter: Rewriter) -> None:
        body = _body_of(match, rewriter.index.gm)
        # at the top: the module of the region need not be there, where it has nothing but calls of functions
        path = rewriter.free_path(f"{match.path.replace('.', '_')}_{self.suffix}" if match.path else self.suffix)
        rewriter.set_module(path, self.module_for(body))
        single = match.outputs[0] if len(match.outputs) == 1 else None
        info = info_of(single) if single is not None else None
        call = rewriter.call_module(path, match.inputs, before=match.before, info=info, made_from=match.outputs)
        inside = set(match.inside)
        for place, old in enumerate(match.outputs):
            new = call
            if single is None:
                new = rewriter.call_function(
                    operator.getitem, (call, place), before=match.before, info=info_of(old), made_from=(old,)
                )
            for user in [user for user in old.users if user not in inside]:
                rewriter.redirect(user, old, new)
        for old in reversed(match.inside):
            tensor = str(old.target) if old.op == "get_attr" else None
            rewriter.erase(old)
            if tensor is not None:
                rewriter.remove_unused_tensor(tensor)


def _behind_containers(calls: list[Node]) -> list[Node]:
    """Return the calls of a region without those at its start that take tensors out of a cache, tuple or dict."""
    inside = set(calls)
    for one in calls:
        given = one.args[0] if one.target in _READERS else None
        if isinstance(given, Node) and not is_tensor(given) and inside.isdisjoint(one.all_input_nodes):
            inside.discard(one)
    return [one for one in calls if one in inside]


def _of_tensors(calls: list[Node]) -> list[Node]:
    """Return the calls of a region without those at its end that give no tensor, such as the record of its outputs."""
    inside = set(calls)
    while True:
        ends = {one for one in inside if not is_tensor(one) and any(user not in inside for user in one.users)}
        if not ends:
            return [one for one in calls if one in inside]
        inside -= ends


def _call_conditions(node: Node, inside: Set[Node], index: GraphIndex) -> Conditions[None]:
    """Require that an engine computes the same as a call of the region."""
    effects = index.effects(node)
    module = index.module_of(node)
    yield not effects.opaque or Unmet(
        f"{node.name} is a call of {effects.opaque}, which may write to what it is given",
        actual=effects.opaque,
        needed="a call that only computes",
    )
    for written in effects.written:
        origins = index.origins(written)
        yield origins <= inside or Unmet(
            f"{node.name} writes in place to {written.name}, whose memory others may see",
            actual=f"memory of {', '.join(sorted(one.name for one in origins - inside))}",
            needed="memory of the region alone",
        )
    yield autocast_condition(node, index)
    for name, one in module.named_modules() if module is not None else ():
        path = f"{node.target}.{name}" if name else str(node.target)
        yield not one.training or Unmet(
            f"{path} is in training mode, and a region in an engine is for inference",
            remedy="model.eval()",
            actual="training",
            needed="evaluation",
        )
        yield module_hook_condition(one, path)
    yield not _draws(node, module) or Unmet(
        f"{node.name} draws random numbers, and an engine draws others",
        actual="random numbers",
        needed="the same numbers in each call",
    )


def _dtype_condition(node: Node, index: GraphIndex) -> Condition:
    """Require that a call multiplies the numbers that it is given, as an engine does."""
    module = index.module_of(node)
    narrow = next((type(one) for one in module.modules() if type(one) in _NARROW), None) if module is not None else None
    return narrow is None or Unmet(
        f"{node.target} multiplies {_NARROW[narrow]}, and an engine would compute it in float32",
        remedy=f"turn {PASS_OF[narrow]} off for the calls of the region",
        actual=_NARROW[narrow],
        needed="float32",
    )


def _memory_condition(node: Node, index: GraphIndex) -> Condition:
    """Require that the parameters and buffers of a node have an address, by which they are told from others."""
    held = attribute_of(index.gm, str(node.target)) if node.op == "get_attr" else index.module_of(node)
    layout = next((one.layout for one in tensors_held_by(held) if one.layout is not torch.strided), None)
    return layout is None or Unmet(
        f"{node.target} holds a tensor of {layout}, which has no address: a region could not follow its writes",
        remedy="make it dense: tensor.to_dense()",
        actual=str(layout),
        needed="torch.strided",
    )


def _draws(node: Node, module: nn.Module | None) -> bool:
    """Check whether a call of torch draws random numbers, by the tags of its operators and by its arguments."""
    if node.op == "call_module":
        return any(isinstance(one, _DRAWING_MODULES) for one in module.modules()) if module is not None else False
    if not calls_torchs_own(node):
        return False
    name = canonical(operation_name(node).strip("_"))
    if name in DROPOUTS:
        training = node.kwargs.get("training", node.kwargs.get("train", node.args[2] if len(node.args) > 2 else True))
        return training is not False
    if name == "scaled_dot_product_attention":
        given = node.kwargs.get("dropout_p", node.args[4] if len(node.args) > 4 else 0.0)
        return bool(given != 0.0)
    if name in _DRAWING:
        return True
    packet = getattr(torch.ops.aten, name, None)
    overloads = (getattr(packet, one) for one in packet.overloads()) if packet is not None else ()
    return any(torch.Tag.nondeterministic_seeded in one.tags for one in overloads)


def _body_of(match: Region, gm: GraphModule) -> GraphModule:
    """Return a graph module of the nodes of a region, with the modules and tensors of `gm`."""
    graph = Graph()
    new: dict[Node, Node] = {}
    for given in match.inputs:
        new[given] = graph.placeholder(given.name)
        new[given].meta = {key: value for key, value in given.meta.items() if key == "tensor_info"}
    for node in match.inside:
        new[node] = graph.node_copy(node, new.__getitem__)
    results = tuple(new[one] for one in match.outputs)
    graph.output(results[0] if len(results) == 1 else results)
    body = GraphModule(gm, graph, class_name="Region")
    for module in body.modules():
        if module is body or type(module) is nn.Module:  # its own containers; the others are the model's
            module.training = False
    for node in match.inside:
        if node.op == "get_attr":
            _keep_passing(str(node.target), gm, body)
    return body


def _keep_passing(path: str, gm: nn.Module, body: nn.Module) -> None:
    """Leave a buffer out of the ``state_dict`` of `body` that is not in that of `gm`."""
    parent, _, name = path.rpartition(".")
    old, new = ((attribute_of(one, parent) if parent else one) for one in (gm, body))
    if name in old._non_persistent_buffers_set:
        new._non_persistent_buffers_set.add(name)
