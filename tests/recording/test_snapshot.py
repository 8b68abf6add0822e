"""Transformations written by hand: whatever they do to a graph module is undone to the bit, or clearly refused."""

import copy
import operator
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import Graph, GraphModule

import fxopt
from fxopt import (
    ChangeTrueDivToMulByInverse,
    FuseBatchNorm2dInConv2d,
    FuseBiasInLinear,
    FxoptWarning,
    MergeLinears,
    ReversibleTransformation,
    RewriteError,
    Transformation,
    compose,
    fingerprint,
)
from fxopt.core import Ledger
from fxopt.recording.difference import diff_snapshots
from fxopt.recording.snapshot import Snapshot
from tests.examples import EXAMPLES, Example

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
    """A transformation whose transform is `act`, which may return None for what it was given."""

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


# ---- what a hand may do


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


@every_act
def test_whatever_a_hand_does_is_undone_to_the_bit(act: Any) -> None:
    gm = graph()
    before, result = everything(gm), gm(X)
    new = by_hand(act)(gm)
    assert everything(new) != before, "it did something"
    restored = by_hand(act)(new, reverse=True)
    assert restored is new
    assert everything(restored) == before
    restored.graph.lint()
    assert torch.equal(restored(X), result)
    assert Ledger.entries_of(restored) == ()


@every_act
def test_the_users_model_stays_as_it_was_forward_and_back(act: Any) -> None:
    mine = model()
    before = state_of_the_model(mine)
    gm = graph(mine)
    new = by_hand(act)(gm)
    assert state_of_the_model(mine) == before
    by_hand(act)(new, reverse=True)
    assert state_of_the_model(mine) == before


@every_act
def test_automatic_names_do_not_depend_on_what_was_done_and_undone(act: Any) -> None:
    def next_names(gm: GraphModule) -> list[str]:
        targets = (torch.relu, operator.mul, operator.add, operator.truediv, torch.relu)
        return [gm.graph.call_function(target, ()).name for target in targets]

    gm = graph()
    restored = by_hand(act)(by_hand(act)(gm), reverse=True)
    assert next_names(restored) == next_names(graph())


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_a_failure_leaves_everything_as_it_was(act: Any) -> None:
    mine = model()
    gm = graph(mine)
    nodes = list(gm.graph.nodes)
    before, state = everything(gm), state_of_the_model(mine)
    users = {one.name: list(one.users) for one in nodes}

    def fail(gm: GraphModule) -> None:
        act(gm)
        gm.recompile()
        raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError, match="on purpose") as caught:
        by_hand(fail)(gm)
    assert caught.value.__notes__ == ["The graph module is as it was before the call."]
    assert everything(gm) == before
    assert list(gm.graph.nodes) == nodes, "the very same node objects"
    assert {one.name: list(one.users) for one in nodes} == users
    assert state_of_the_model(mine) == state
    gm.graph.lint()
    by_hand(act)(gm)
    by_hand(act)(gm, reverse=True)
    assert everything(gm) == before, "and it goes on from there"


@every_act
def test_between_other_passes_it_reverses_in_any_order(act: Any) -> None:
    gm = graph()
    before = everything(gm)
    div, hand, bias = ChangeTrueDivToMulByInverse(), by_hand(act), FuseBiasInLinear()
    gm = bias(hand(div(gm)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)  # what rests on what is another test's matter
        for part in (div, hand, bias):
            part(gm, reverse=True)
    assert everything(gm) == before


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_undone_and_done_again_it_is_the_same(act: Any) -> None:
    one, two = graph(), graph()
    by_hand(act)(one)
    div = ChangeTrueDivToMulByInverse()
    div(two)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)
        by_hand(act)(two)
        div(two, reverse=True)  # so what the hand did is undone, and done again on the graph without div
    assert [n.format_node() for n in one.graph.nodes] == [n.format_node() for n in two.graph.nodes]
    assert list(one.state_dict()) == list(two.state_dict())
    assert one.code == two.code


# ---- what is refused


def write(gm: GraphModule) -> None:
    with torch.no_grad():
        gm.block.first.weight.mul_(2)


def write_through_data(gm: GraphModule) -> None:
    gm.block.first.weight.data.mul_(2)


def copy_into(gm: GraphModule) -> None:
    gm.block.first.weight.data.copy_(torch.eye(4))


def run_in_training_mode(gm: GraphModule) -> None:
    gm.train()
    gm.recompile()
    gm(X)
    gm.eval()


WRITES = pytest.mark.parametrize(
    ("act", "path"),
    [
        (write, "block.first.weight"),
        (write_through_data, "block.first.weight"),
        (copy_into, "block.first.weight"),
        (run_in_training_mode, "norm.running_mean"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)


@WRITES
def test_numbers_written_over_in_place_are_refused_by_name_and_the_graph_is_as_it_was(act: Any, path: str) -> None:
    gm = graph()
    nodes = [one.format_node() for one in gm.graph.nodes]

    def both(gm: GraphModule) -> None:
        erase_and_create_again(gm)
        act(gm)

    with pytest.raises(RewriteError, match=f"ByHand wrote over the numbers of .*{path}.*copy_tensors = True") as caught:
        by_hand(both)(gm)
    assert path in caught.value.__notes__[0]
    assert [one.format_node() for one in gm.graph.nodes] == nodes
    assert Ledger.entries_of(gm) == ()


@WRITES
def test_with_copied_tensors_they_are_undone_and_the_users_model_keeps_its_own(act: Any, path: str) -> None:
    mine = model()
    state = state_of_the_model(mine)
    gm = graph(mine)
    before = everything(gm)
    careful = by_hand(act, copy_tensors=True)
    careful(gm)
    changed = gm.state_dict()[path]
    assert not torch.equal(changed, mine.state_dict()[path])
    assert gm.tied.weight is gm.block.first.weight, "what was tied is tied"
    assert state_of_the_model(mine) == state
    careful(gm, reverse=True)
    assert everything(gm) == before


def test_with_copied_tensors_a_single_number_written_through_data_is_noticed() -> None:
    def poke(gm: GraphModule) -> None:
        gm.block.first.weight.data[1, 1] = float("nan")

    gm = graph()
    before = everything(gm)
    by_hand(poke, copy_tensors=True)(gm)
    assert gm.block.first.weight.isnan().sum() == 1
    by_hand(poke, copy_tensors=True)(gm, reverse=True)
    assert everything(gm) == before


def test_with_copied_tensors_a_failure_puts_the_numbers_back() -> None:
    def fail(gm: GraphModule) -> None:
        write(gm)
        raise ZeroDivisionError

    gm = graph()
    before = everything(gm)
    with pytest.raises(ZeroDivisionError):
        by_hand(fail, copy_tensors=True)(gm)
    assert everything(gm) == before


def test_a_failure_after_numbers_were_written_over_says_so() -> None:
    def fail(gm: GraphModule) -> None:
        write(gm)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        by_hand(fail)(graph())
    assert caught.value.__notes__ == [
        "The graph module is as it was, except for the numbers in block.first.weight, which were written over."
    ]


@pytest.mark.parametrize(("returned", "words"), [(None, "None"), (3, "a int"), (nn.ReLU(), "a ReLU")])
def test_returning_something_else_than_a_graph_module_is_a_clear_error(returned: Any, words: str) -> None:
    class Forgetful(Transformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            rename(graph_module)
            return returned  # type: ignore[no-any-return]

    gm = graph()
    before = everything(gm)
    with pytest.raises(TypeError, match=f"Forgetful.transform returned {words}; it must return"):
        Forgetful()(gm)
    assert everything(gm) == before


def test_a_broken_graph_is_refused_and_rolled_back() -> None:
    def break_it(gm: GraphModule) -> None:
        node(gm, "x").prepend(node(gm, "add"))

    gm = graph()
    before = everything(gm)
    with pytest.raises(RewriteError, match=r"ByHand left a graph that is not well formed: .*used before it"):
        by_hand(break_it)(gm)
    assert everything(gm) == before

    def lose_a_module(gm: GraphModule) -> None:
        del gm.block.first

    with pytest.raises(RewriteError, match=r"not well formed: .*block.first"):
        by_hand(lose_a_module)(gm)
    assert everything(gm) == before


def test_code_that_does_not_compile_is_rolled_back() -> None:
    def two_inputs_of_one_name(gm: GraphModule) -> None:
        with gm.graph.inserting_after(node(gm, "x")):
            gm.graph.placeholder("x")

    gm = graph()
    before, result = everything(gm), gm(X)
    with pytest.raises(SyntaxError, match="duplicate argument 'x'") as caught:
        by_hand(two_inputs_of_one_name)(gm)
    assert caught.value.__notes__ == ["The graph module is as it was before the call."]
    assert everything(gm) == before
    assert torch.equal(gm(X), result)


@pytest.mark.parametrize("act", IN_PLACE, ids=lambda act: act.__name__)
def test_copies_reverse_what_was_done_before_they_were_made(act: Any) -> None:
    gm = graph()
    before = fingerprint(gm)
    by_hand(act)(gm)
    for copied in (copy.deepcopy(gm), fxopt.core.shared_copy(gm), copy.deepcopy(fxopt.core.shared_copy(gm))):
        assert fingerprint(by_hand(act)(copied, reverse=True)) == before
    assert fingerprint(by_hand(act)(gm, reverse=True)) == before


def test_the_graph_of_a_graph_module_inside_is_refused() -> None:
    class Tracer(torch.fx.Tracer):
        def is_leaf_module(self, module: nn.Module, path: str) -> bool:
            return isinstance(module, GraphModule) or super().is_leaf_module(module, path)

    outer = nn.Sequential(graph(), nn.ReLU())
    gm = GraphModule(outer, Tracer().trace(outer))
    inner = gm.get_submodule("0")
    before = fingerprint(gm), fingerprint(inner)  # type: ignore[arg-type]
    with pytest.raises(RewriteError, match=r"changed the graph of .*a graph module inside"):
        by_hand(lambda gm: rename(gm.get_submodule("0")))(gm)
    assert (fingerprint(gm), fingerprint(inner)) == before  # type: ignore[arg-type]


# ---- calls and their reverses


def add_one(gm: GraphModule) -> None:
    output = node(gm, "output")
    with gm.graph.inserting_before(output):
        output.args = (gm.graph.call_function(torch.add, (output.args[0], 1)),)


def test_as_many_calls_as_many_reverses() -> None:
    gm = graph()
    hand = by_hand(add_one)
    states = [everything(gm)]
    for _ in range(3):
        hand(gm)
        states.append(everything(gm))
    for state in reversed(states[:-1]):
        hand(gm, reverse=True)
        assert everything(gm) == state
    with pytest.warns(FxoptWarning, match="ByHand has no site in force"):
        hand(gm, reverse=True)


def test_one_that_changes_nothing_leaves_nothing_behind() -> None:
    gm = graph()
    by_hand(lambda gm: gm.graph.lint())(gm)
    assert Ledger.entries_of(gm) == ()
    assert "_fxopt_ledger" not in gm._modules


def test_a_later_pass_that_rests_on_it_is_undone_too_and_named() -> None:
    def add_division(gm: GraphModule) -> None:
        output = node(gm, "output")
        with gm.graph.inserting_before(output):
            new = gm.graph.call_function(operator.truediv, (output.args[0], 7))
            new.meta["tensor_info"] = fxopt.core.TensorInfo((3, 4), torch.float32)
        output.args = (new,)

    gm = ATTENTION.graph()
    before = fingerprint(gm)
    by_hand(add_division)(gm)
    ChangeTrueDivToMulByInverse()(gm)
    with pytest.warns(FxoptWarning, match="ChangeTrueDivToMulByInverse at truediv_1 rested on ByHand"):
        by_hand(add_division)(gm, reverse=True)
    assert [entry.site for entry in Ledger.entries_of(gm)] == ["truediv"]
    ChangeTrueDivToMulByInverse()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_one_that_fails_when_it_runs_again_is_undone_and_named() -> None:
    def needs_mul(gm: GraphModule) -> None:
        node(gm, "mul_1" if "mul_1" in {n.name for n in gm.graph.nodes} else "missing").meta["seen"] = True

    def add_mul(gm: GraphModule) -> None:
        with gm.graph.inserting_before(node(gm, "output")):
            gm.graph.call_function(operator.mul, (node(gm, "add"), 1))

    gm = graph()
    before = everything(gm)
    first, second = by_hand(add_mul), by_hand(needs_mul, tag=1)
    type(second).__qualname__ = "Second"
    first(gm)
    second(gm)
    with pytest.warns(FxoptWarning) as caught:
        first(gm, reverse=True)
    said = [str(warning.message) for warning in caught]
    assert any("failed when it ran again: StopIteration" in text for text in said)
    assert any("rested on ByHand and no longer applies" in text for text in said)
    assert everything(gm) == before


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


class TwiceRoughly(Twice):
    def half(self, number: Any) -> Any:
        return number / 2


def test_an_own_reverse_is_called_and_leaves_nothing_where_it_is_exact() -> None:
    gm = graph()
    before = everything(gm)
    Twice()(gm)
    assert node(gm, "truediv").args[1] == 6
    Twice()(gm, reverse=True)
    assert everything(gm) == before
    assert Ledger.entries_of(gm) == ()


def test_what_an_own_reverse_leaves_behind_is_kept_and_the_rest_still_reverses_exactly() -> None:
    gm = graph()
    before = everything(gm)
    rename_it = by_hand(rename)
    rename_it(gm)
    TwiceRoughly()(gm)
    TwiceRoughly()(gm, reverse=True)
    assert repr(node(gm, "truediv").args[1]) == "3.0"
    rename_it(gm, reverse=True)
    assert repr(node(gm, "truediv").args[1]) == "3.0", "it is what its own reverse made of it"
    assert node(gm, "mul")
    gm.graph.lint()
    assert everything(gm) != before
    assert len(Ledger.entries_of(gm)) == 1
    Ledger.of(gm).rewind(fxopt.core.GraphIndex(gm), 0)
    Ledger.of(gm).close()
    gm.recompile()
    assert everything(gm) == before


def test_an_own_reverse_runs_beneath_what_was_done_later() -> None:
    gm = ATTENTION.graph()
    before = fingerprint(gm)
    Twice()(gm)
    MergeLinears()(gm)
    Twice()(gm, reverse=True)
    assert [entry.name for entry in Ledger.entries_of(gm)] == ["MergeLinears"]
    MergeLinears()(gm, reverse=True)
    assert fingerprint(gm) == before


def test_a_failing_own_reverse_leaves_everything_as_it_was() -> None:
    class Fails(Twice):
        def half(self, number: Any) -> Any:
            raise ZeroDivisionError("on purpose")

    gm = ATTENTION.graph()
    Fails()(gm)
    MergeLinears()(gm)
    changed = fingerprint(gm)
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        Fails()(gm, reverse=True)
    gm.recompile()
    assert fingerprint(gm) == changed


def test_a_reversible_transformation_without_a_reverse_takes_that_of_the_ledger() -> None:
    class Simple(ReversibleTransformation):
        def transform(self, graph_module: GraphModule) -> GraphModule:
            erase_and_create_again(graph_module)
            return graph_module

    gm = graph()
    before = everything(gm)
    Simple()(gm)
    assert Simple().reverse(gm) is gm
    gm.recompile()
    assert everything(gm) == before


# ---- compositions


def test_compositions_of_anything_reverse_nested_and_single() -> None:
    hand, other = by_hand(erase_and_create_again), by_hand(assign_parameter)
    for whole in (
        compose(hand),
        compose(compose(hand)),
        compose(hand, FuseBiasInLinear(), compose(other, compose(ChangeTrueDivToMulByInverse(), Twice()))),
        compose(by_hand(add_one), by_hand(add_one)),
    ):
        gm = graph()
        before = everything(gm)
        whole(gm)
        assert everything(gm) != before
        whole(gm, reverse=True)
        assert everything(gm) == before


@every_act
def test_a_composition_that_is_not_in_place_never_touches_its_input(act: Any) -> None:
    gm = graph()
    before = everything(gm)
    whole = compose(by_hand(act), ChangeTrueDivToMulByInverse(), inplace=False)
    new = whole(gm)
    assert everything(gm) == before
    changed = everything(new)
    restored = whole(new, reverse=True)
    assert everything(new) == changed
    assert everything(gm) == before
    assert restored is not new
    assert fingerprint(restored) == before[0]
    if act is not a_copy:
        assert restored.get_submodule("norm") is gm.get_submodule("norm"), "weights are shared, not copied"


def test_a_composition_is_all_or_nothing() -> None:
    def fail(gm: GraphModule) -> None:
        raise ZeroDivisionError("on purpose")

    gm = graph()
    before = everything(gm)
    whole = compose(by_hand(rename), FuseBiasInLinear(), by_hand(fail))
    with pytest.raises(ZeroDivisionError, match="on purpose"):
        whole(gm)
    gm.recompile()
    assert everything(gm) == before


def test_a_composition_that_ends_in_a_broken_graph_is_rolled_back() -> None:
    def break_it(gm: GraphModule) -> None:
        node(gm, "x").prepend(node(gm, "add"))

    gm = graph()
    before = everything(gm)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        compose(FuseBiasInLinear(), by_hand(break_it))(gm)
    gm.recompile()
    assert everything(gm) == before


def test_a_transformation_that_calls_passes_inside_is_one_entry() -> None:
    gm = graph()
    before = everything(gm)
    MergeLinears()(gm)
    by_hand(other_passes)(gm)
    assert [entry.name for entry in Ledger.entries_of(gm)][-1] == "ByHand"
    by_hand(other_passes)(gm, reverse=True)
    assert everything(gm) == before


# ---- pieces and copies


def test_an_edit_by_hand_after_a_call_is_never_damaged() -> None:
    gm = graph()
    by_hand(erase_and_create_again)(gm)
    with gm.graph.inserting_before(node(gm, "output")):
        gm.graph.call_function(torch.relu, (node(gm, "mul_1"),))
    gm.recompile()
    changed = everything(gm)
    with pytest.raises(RewriteError, match="mul_1 cannot be taken out of the graph: relu came to use it"):
        by_hand(erase_and_create_again)(gm, reverse=True)
    assert everything(gm) == changed


def test_an_edit_by_hand_elsewhere_does_not_stand_in_the_way() -> None:
    gm = graph()
    by_hand(move)(gm)
    by_hand(erase_and_create_again)(gm)
    node(gm, "sub").target = operator.add
    with gm.graph.inserting_before(node(gm, "output")):
        relu = gm.graph.call_function(torch.relu, (node(gm, "sub"),))
    gm.register_buffer("mine", torch.ones(1))
    by_hand(erase_and_create_again)(gm, reverse=True)
    by_hand(move)(gm, reverse=True)
    gm.graph.lint()
    assert node(gm, "truediv").args[1] == 3
    assert node(gm, "sub").target is operator.add
    assert relu in set(gm.graph.nodes)
    assert "mine" in dict(gm.named_buffers())


def test_trained_weights_that_the_call_put_in_are_not_thrown_away() -> None:
    gm = graph()
    by_hand(wrap_module)(gm)
    with torch.no_grad():
        gm.block.second[0].weight.add_(1)
    by_hand(wrap_module)(gm, reverse=True)  # the same tensors are there before and after

    by_hand(assign_parameter)(gm)
    with torch.no_grad():
        gm.tied.bias.add_(1)
    with pytest.raises(RewriteError, match=r"tied.bias, made by ByHand, was given other values"):
        by_hand(assign_parameter)(gm, reverse=True)


def test_two_threads_do_not_meet() -> None:
    mine = model()
    graphs = [graph(mine) for _ in range(2)]
    before = [everything(gm) for gm in graphs]
    failed: list[BaseException] = []

    def work(gm: GraphModule, acts: list[Any]) -> None:
        try:
            for act in acts * 3:
                by_hand(act)(gm)
                by_hand(act)(gm, reverse=True)
        except BaseException as error:
            failed.append(error)
            raise

    acts = [erase_and_create_again, replace_module, types_and_metadata, move]
    threads = [threading.Thread(target=work, args=(gm, acts)) for gm in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert [everything(gm) for gm in graphs] == before


@every_example
def test_the_difference_of_a_graph_with_itself_is_empty(example: Example) -> None:
    gm = example.graph()
    assert diff_snapshots(Snapshot.of(gm), Snapshot.of(gm)).changes == ()


@every_example
def test_a_pass_undone_by_a_snapshot_is_as_undone_by_its_ledger(example: Example) -> None:
    gm = example.graph()
    before = fingerprint(gm)
    compose(ChangeTrueDivToMulByInverse(), FuseBatchNorm2dInConv2d(), MergeLinears(), FuseBiasInLinear())
    passes = by_hand(
        lambda gm: compose(
            ChangeTrueDivToMulByInverse(), FuseBatchNorm2dInConv2d(), MergeLinears(), FuseBiasInLinear()
        )(gm)
    )
    passes(gm)
    assert len(Ledger.entries_of(gm)) <= 1
    if Ledger.entries_of(gm):
        passes(gm, reverse=True)
    assert fingerprint(gm) == before


def test_taking_a_snapshot_copies_no_numbers() -> None:
    gm = graph()
    snapshot = Snapshot.of(gm)
    assert all(state.copied is None for state in snapshot.tensors.values())
    for state in snapshot.tensors.values():
        assert state.numbers.data_ptr() == state.tensor.data_ptr()
