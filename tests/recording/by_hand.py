"""Transformations by hand, and a model that they change, for the tests of recordings."""

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBiasInLinear,
    ReversibleTransformation,
    Transformation,
    fingerprint,
)
from tests.examples import EXAMPLES

ATTENTION, CONV = EXAMPLES[0], EXAMPLES[3]


every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)


class Model(nn.Module):
    """A part of everything: nested modules, a parameter and buffers of its own, a tied weight."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Module()
        self.block.first, self.block.act, self.block.second = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.block.first.weight
        self.scale = nn.Parameter(torch.rand(4))
        self.register_buffer("shift", torch.rand(4))
        self.register_buffer("passing", torch.rand(4), persistent=False)
        self.norm = nn.BatchNorm1d(4)
        self.norm.note = "old"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.block.second(self.block.act(self.block.first(x)))
        y = self.norm(y) * self.scale + self.shift - self.passing
        return self.tied(y) / 3 + y.view(-1, 4)


def model() -> Model:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Model().eval()


def graph(of: nn.Module | None = None) -> GraphModule:
    gm = torch.fx.symbolic_trace(of or model())
    gm.meta["note"] = ["kept"]
    return gm


X = torch.linspace(-1, 1, 12).view(3, 4)


def by_hand(act: Callable[[GraphModule], Any], **attributes: Any) -> Transformation:
    """A transformation whose transform is `act`, which may return None for the graph module it was given."""

    def transform(self: Transformation, gm: GraphModule) -> Any:
        result = act(gm)
        return gm if result is None else result

    return type("ByHand", (Transformation,), {"transform": transform, **attributes})()


def node(gm: GraphModule, name: str) -> Any:
    return next(node for node in gm.graph.nodes if node.name == name)


def state_of_the_model(module: nn.Module) -> dict[str, Any]:
    """All that a user could see of a model: modules, tensors, numbers, attributes, hooks."""
    return {
        path: (
            id(part),
            {
                name: dict(value) if isinstance(value, dict) else value
                for name, value in vars(part).items()
                if not isinstance(value, torch.Tensor)
            },
            {name: (id(t), t.requires_grad, t.tolist()) for name, t in part.named_parameters(recurse=False)},
            {name: (id(t), t.tolist()) for name, t in part.named_buffers(recurse=False)},
        )
        for path, part in module.named_modules(remove_duplicate=False)
    }


def erase_and_create_again(gm: GraphModule) -> None:
    old = node(gm, "truediv")
    with gm.graph.inserting_after(old):
        new = gm.graph.call_function(operator.mul, (old.args[0], 1 / 3))
    old.replace_all_uses_with(new)
    gm.graph.erase_node(old)


def change_args_by_hand(gm: GraphModule) -> None:
    div, add = node(gm, "truediv"), node(gm, "add")
    div.args = (add, 3)


def change_target_and_kwargs(gm: GraphModule) -> None:
    view = node(gm, "view")
    view.target, view.args, view.kwargs = "reshape", (view.args[0],), {"shape": (-1, 4)}


def true_for_one(gm: GraphModule) -> None:
    node(gm, "view").args = (node(gm, "view").args[0], -1.0, True)
    node(gm, "view").args = (node(gm, "view").args[0], -1, 4.0)


def rename(gm: GraphModule) -> None:
    node(gm, "mul").name = "scaled"


def move(gm: GraphModule) -> None:
    if node(gm, "add").next is not node(gm, "passing"):  # torch 2.6 warns of a node that is there already
        node(gm, "add").append(node(gm, "passing"))
    node(gm, "x").append(node(gm, "shift"))
    node(gm, "shift").append(node(gm, "scale"))


def swap_names(gm: GraphModule) -> None:
    a, b = node(gm, "scale"), node(gm, "shift")
    a.name, b.name = "other", "scale"
    a.name = "shift"


def types_and_metadata(gm: GraphModule) -> None:
    node(gm, "mul").type = torch.Tensor
    for one in gm.graph.nodes:
        one.meta["seen"] = True
    node(gm, "mul").meta["none"] = None
    gm.meta["more"] = 1
    gm.meta.pop("note")


def new_input_and_output(gm: GraphModule) -> None:
    old = node(gm, "output")
    with gm.graph.inserting_after(node(gm, "x")):
        extra = gm.graph.placeholder("extra")
    result = old.args[0]
    gm.graph.erase_node(old)
    gm.graph.output((result, extra))


def new_graph(gm: GraphModule) -> None:
    copied = Graph()
    names: dict[Any, Any] = {}
    copied.output(copied.graph_copy(gm.graph, names))
    gm.graph = copied


def empty_graph(gm: GraphModule) -> None:
    new = Graph()
    new.output(new.placeholder("only"))
    gm.graph = new


def dead_code(gm: GraphModule) -> None:
    output = node(gm, "output")
    output.args = (node(gm, "view"),)
    assert gm.graph.eliminate_dead_code()
    gm.delete_all_unused_submodules()


def replace_module(gm: GraphModule) -> None:
    gm.block.second = nn.Linear(4, 4)


def wrap_module(gm: GraphModule) -> None:
    gm.block.second = nn.Sequential(gm.block.second, nn.Identity())


def new_container(gm: GraphModule) -> None:
    gm.add_submodule("extra.deep.relu", nn.ReLU())
    with gm.graph.inserting_before(node(gm, "output")):
        new = gm.graph.call_module("extra.deep.relu", (node(gm, "output").args[0],))
    node(gm, "output").args = (new,)


def delete_and_move_modules(gm: GraphModule) -> None:
    gm.add_submodule("elsewhere", gm.block.act)
    node(gm, "block_act").target = "elsewhere"
    gm.delete_submodule("block.act")
    gm.delete_all_unused_submodules()


def move_a_container(gm: GraphModule) -> None:
    gm.moved = gm.block
    del gm.block
    for one in gm.graph.nodes:
        if one.op == "call_module":
            one.target = one.target.replace("block.", "moved.")
    gm.moved.second = nn.Linear(4, 4)


def order_of_modules(gm: GraphModule) -> None:
    norm, scale = gm._modules.pop("norm"), gm._parameters.pop("scale")
    gm._modules = {"norm": norm, **gm._modules}
    gm.register_parameter("first", nn.Parameter(torch.ones(1)))
    gm.register_parameter("scale", scale)


def assign_parameter(gm: GraphModule) -> None:
    gm.block.first.weight = nn.Parameter(torch.eye(4))
    gm.tied.bias = nn.Parameter(torch.ones(4), requires_grad=False)
    del gm.block.second.bias
    gm.block.second.register_parameter("bias", None)


def own_tensors(gm: GraphModule) -> None:
    gm.scale = nn.Parameter(torch.ones(4))
    del gm.shift
    gm.register_buffer("shift", torch.zeros(4), persistent=False)
    gm.register_buffer("passing", gm.passing, persistent=True)
    gm.register_buffer("another", torch.zeros(1))


def parameter_becomes_buffer(gm: GraphModule) -> None:
    numbers = gm.scale.detach()
    del gm.scale
    gm.register_buffer("scale", numbers)


def set_data(gm: GraphModule) -> None:
    gm.block.first.weight.data = torch.eye(4)
    gm.shift.data = torch.ones(4, dtype=torch.float64)


def freeze(gm: GraphModule) -> None:
    gm.requires_grad_(False)


def training_mode(gm: GraphModule) -> None:
    gm.train()


def to_half_and_back_to_double(gm: GraphModule) -> None:
    gm.half()
    gm.double()


def hooks(gm: GraphModule) -> None:
    gm.block.act.register_forward_hook(lambda module, args, result: result * 2)
    gm.register_forward_pre_hook(lambda module, args: None)


def attributes(gm: GraphModule) -> None:
    gm.block.act.inplace = True
    gm.block.first.note = "new"
    gm.extra = [1, 2]
    del gm.norm.note


def codegen(gm: GraphModule) -> None:
    class Other(torch.fx.graph.CodeGen):
        def additional_globals(self) -> Any:
            return [("nothing", None)]

    gm.graph.set_codegen(Other())


def other_passes(gm: GraphModule) -> None:
    ChangeTrueDivToMulByInverse()(gm)
    FuseBiasInLinear()(gm)
    rename(gm)


def new_graph_module(gm: GraphModule) -> GraphModule:
    copied = copy.deepcopy(gm.graph)
    for one in copied.nodes:
        if one.target is operator.truediv:
            one.target = operator.mul
    return GraphModule(gm, copied)


def new_graph_module_of_the_same_graph(gm: GraphModule) -> GraphModule:
    erase_and_create_again(gm)
    return GraphModule(gm, gm.graph)


def a_copy(gm: GraphModule) -> GraphModule:
    new = copy.deepcopy(gm)
    assign_parameter(new)
    return new


ACTS = [
    *(erase_and_create_again, change_args_by_hand, change_target_and_kwargs, true_for_one, rename, move, swap_names),
    *(types_and_metadata, new_input_and_output, new_graph, empty_graph, dead_code, replace_module, wrap_module),
    *(new_container, delete_and_move_modules, move_a_container, order_of_modules, assign_parameter, own_tensors),
    *(parameter_becomes_buffer, set_data, freeze, training_mode, to_half_and_back_to_double, hooks, attributes),
    *(codegen, other_passes, new_graph_module, new_graph_module_of_the_same_graph, a_copy),
]


every_act = pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)


IN_PLACE = [act for act in ACTS if act not in (new_graph_module, new_graph_module_of_the_same_graph, a_copy)]


def everything(gm: GraphModule) -> tuple[Any, ...]:
    """More than the fingerprint: attributes, hooks, the order of names in tables, identities of modules and tensors."""
    attributes = {
        path: {
            name: list(value) if isinstance(value, dict | set | list) else value
            for name, value in vars(module).items()
            if name not in ("_graph", "_lineno_map", "_modules", "_code", "_prologue_start", "_tracer_cls")
            and not isinstance(value, torch.Tensor)
        }
        for path, module in gm.named_modules(remove_duplicate=False)
    }
    modules = [
        (path, id(m)) for path, m in gm.named_modules(remove_duplicate=False) if type(m) is not nn.Module and path
    ]
    tensors = {name: id(t) for name, t in gm.state_dict(keep_vars=True).items()}
    return fingerprint(gm), attributes, modules, tensors, gm.graph._codegen.__class__, gm.meta


def add_one(gm: GraphModule) -> None:
    output = node(gm, "output")
    with gm.graph.inserting_before(output):
        output.args = (gm.graph.call_function(torch.add, (output.args[0], 1)),)


class Twice(ReversibleTransformation):
    """Brings its own way back."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for one in graph_module.graph.nodes:
            if one.target is operator.truediv and not self.transformed(one):
                one.args = (one.args[0], one.args[1] * 2)
                self.mark_as_transformed(one)
        return graph_module

    def reverse(self, graph_module: GraphModule) -> GraphModule:
        for one in self.get_transformed_nodes(graph_module):
            one.args = (one.args[0], self.half(one.args[1]))
            self.mark_as_restored(one)
        return graph_module

    def half(self, number: Any) -> Any:
        return number // 2
