"""`as_pass`: functions of others as passes with sites."""

from __future__ import annotations

import copy
import itertools
import operator
import warnings

import pytest
import torch
from torch import nn
from torch.fx import GraphModule
from torch.fx.subgraph_rewriter import replace_pattern

import fxopt
from fxopt.core.function_pass import Function
from fxopt.graph.nodes import module_stack_of
from fxopt.testing import check_pass

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # torch's own import warns of torch
    from torch.fx.experimental.optimization import fuse


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1)
        self.norm, self.last = nn.BatchNorm2d(4), nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.two(torch.relu(self.norm(self.one(x))))) / 3


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(2, 3, 8, 8)


@pytest.fixture
def gm(x: torch.Tensor) -> GraphModule:
    torch.manual_seed(0)
    return fxopt.capture(Net().eval(), (x,))


def test_torchs_own_fuse_has_a_site_for_each_norm_in_any_order_and_is_undone_to_the_bit(
    gm: GraphModule, x: torch.Tensor
) -> None:
    expected, before = gm(x), fxopt.fingerprint(gm)
    pass_ = fxopt.as_pass(fuse)
    scan = pass_.scan(gm)
    assert [match.site for match in scan.matches] == ["one", "two"]
    assert pass_.explain(scan.matches[0]) == "relu reads one instead of norm; norm goes; one, norm are replaced"
    assert fxopt.fingerprint(gm) == before
    for sites in itertools.permutations(["one", "two"]):
        for site in sites:
            pass_.turn_on(gm, site)
            torch.testing.assert_close(gm(x), expected)
        assert [node.name for node in gm.graph.nodes] == ["x", "one", "relu", "two", "truediv", "output"]
        for site in sites:
            pass_.turn_off(gm, site)
        assert fxopt.fingerprint(gm) == before
    assert list(pass_(gm).state_dict()) == list(fuse(gm).state_dict())
    assert [match.site for match in pass_.scan(gm).matches] == []
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


@pytest.mark.slow
def test_torchs_own_fuse_obeys_the_laws_of_a_pass(x: torch.Tensor) -> None:
    pass_ = fxopt.as_pass(fuse, exactness=fxopt.Exactness.ROUNDING)
    assert "obeys 10 laws" in str(check_pass(pass_, [(Net().eval(), (x,))]))


@pytest.mark.filterwarnings("ignore")  # torch warns of its own quantization, which is deprecated
def test_quantization_is_two_passes_that_are_recorded_and_reversed(x: torch.Tensor) -> None:
    from torch.ao.quantization import get_default_qconfig_mapping
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

    def prepare(gm: GraphModule) -> GraphModule:
        return prepare_fx(gm, get_default_qconfig_mapping("x86"), (x,))

    def convert(gm: GraphModule) -> GraphModule:
        return convert_fx(gm)

    gm = fxopt.capture(Net().eval(), (x,))
    expected, before = gm(x), fxopt.fingerprint(gm)
    with fxopt.record(gm) as log:
        fxopt.as_pass(prepare)(gm)
        torch.testing.assert_close(gm(x), expected)  # the observers note the range of the values
        fxopt.as_pass(convert)(gm)
    assert [step.name for step in log.changed] == ["prepare", "convert"]
    plain = convert(_observed(prepare(fxopt.capture(Net().eval(), (x,))), x))
    assert [node.op for node in gm.graph.nodes] == [node.op for node in plain.graph.nodes]
    assert "quantized" in {type(one).__module__.split(".")[3] for one in gm.children() if "ao" in type(one).__module__}
    fxopt.as_pass(convert)(gm, reverse=True)
    fxopt.as_pass(prepare)(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before
    assert torch.equal(gm(x), expected)


def _observed(gm: GraphModule, x: torch.Tensor) -> GraphModule:
    gm(x)
    return gm


def test_notes_in_the_metadata_of_a_graph_module_come_and_go_with_the_first_site(gm: GraphModule) -> None:
    def note(gm: GraphModule) -> None:
        gm.meta["noted"] = 3

    pass_ = fxopt.as_pass(note)
    [match] = pass_.scan(gm).matches
    assert pass_.explain(match) == "the metadata of the graph module notes 'noted'"
    pass_(gm)
    assert gm.meta["noted"] == 3
    pass_(gm, reverse=True)
    assert "noted" not in gm.meta


def test_it_mixes_with_other_passes_on_a_workbench(gm: GraphModule, x: torch.Tensor) -> None:
    wb = fxopt.Workbench(gm, passes=[fxopt.as_pass(fuse), fxopt.ChangeTrueDivToMulByInverse()])
    wb.turn_on("ChangeTrueDivToMulByInverse")
    wb.turn_on("fuse", "two")
    assert [node.target for node in wb.current.graph.nodes if node.name == "truediv"] == [operator.mul]
    assert wb.story("truediv")
    assert wb.states[0].sites[1].removed == ("last",)
    wb.turn_off("fuse")
    wb.reverse_all()
    assert wb.is_restored


def gelu(graph_module: GraphModule) -> None:
    """Put gelu in the place of relu."""
    for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
        node.target = nn.functional.gelu


def test_a_function_in_place_without_a_result_and_one_by_a_pattern(x: torch.Tensor) -> None:
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(torch.relu(x) + 1))

    def doubled(graph_module: GraphModule) -> GraphModule:
        replace_pattern(graph_module, lambda x: torch.relu(x), lambda x: torch.relu(x) * 2)
        return graph_module

    by_pattern = fxopt.as_pass(doubled, "double")
    assert by_pattern.name == "double"
    assert len(by_pattern.scan(gm).matches) == 2
    other = copy.deepcopy(gm)
    by_pattern(gm)
    torch.testing.assert_close(gm(x), doubled(other)(x))
    assert len(by_pattern.get_transformed_nodes(gm)) >= 4
    pass_ = fxopt.as_pass(gelu)
    assert pass_.summary == "Put gelu in the place of relu."
    pass_(gm)
    pass_(gm, reverse=True)
    by_pattern(gm, reverse=True)
    torch.testing.assert_close(gm(x), torch.relu(torch.relu(x) + 1))


def replaced_by(target: object) -> Function:
    def replaced(graph_module: GraphModule) -> None:
        for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
            node.target = target

    return replaced


def test_a_new_node_lies_in_the_module_of_the_node_that_it_replaces() -> None:
    class Half(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x) / 2

    def multiply(gm: GraphModule) -> None:
        for node in gm.graph.find_nodes(op="call_function", target=operator.truediv):
            with gm.graph.inserting_before(node):
                node.replace_all_uses_with(gm.graph.call_function(operator.mul, (node.args[0], 0.5)))
            gm.graph.erase_node(node)

    gm = torch.fx.symbolic_trace(nn.Sequential(Half(), Half()))
    fxopt.as_pass(multiply)(gm)
    made = gm.graph.find_nodes(op="call_function", target=operator.mul)
    assert [module_stack_of(node) for node in made] == [(("0", "Half"),), (("1", "Half"),)]


def test_two_functions_of_one_name_are_two_passes_and_equal_ones_are_one() -> None:
    sigmoid, tanh = fxopt.as_pass(replaced_by(torch.sigmoid)), fxopt.as_pass(replaced_by(torch.tanh))
    assert sigmoid.name == tanh.name
    assert sigmoid.signature != tanh.signature
    assert sigmoid.signature == fxopt.as_pass(replaced_by(torch.sigmoid)).signature
    one, two = fxopt.as_pass(lambda gm: gm), fxopt.as_pass(lambda gm: [gm])  # type: ignore[arg-type,return-value]
    assert one.signature != two.signature
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    sigmoid(gm)
    with pytest.warns(fxopt.FxoptWarning, match="nothing was reversed"):
        tanh(gm, reverse=True)
    assert [node.target for node in gm.graph.nodes][1] is torch.sigmoid
    sigmoid(gm, reverse=True)
    assert [node.target for node in gm.graph.nodes][1] is torch.relu


def test_a_function_that_counts_its_runs_and_calls_itself_stays_one_pass() -> None:
    runs: list[int] = []

    def counting(graph_module: GraphModule, again: bool = True) -> None:
        runs.append(1)
        if again:
            counting(graph_module, again=False)
        for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
            node.target = torch.tanh

    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    before, pass_ = fxopt.fingerprint(gm), fxopt.as_pass(counting)
    pass_(gm)
    assert len(runs) >= 2
    assert fxopt.fingerprint(gm) != before
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_other_arguments_are_told_as_such() -> None:
    def changed(graph_module: GraphModule) -> None:
        (node,) = graph_module.graph.find_nodes(op="call_function", target=operator.add)
        node.args = (node.args[0], 2)

    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    pass_ = fxopt.as_pass(changed)
    assert [pass_.explain(match) for match in pass_.scan(gm).matches] == ["add has other arguments"]


def test_moved_nodes_are_one_site() -> None:
    gm = torch.fx.symbolic_trace(lambda x: (x + 1) * (x - 1))
    before = fxopt.fingerprint(gm)

    def swapped(graph_module: GraphModule) -> None:
        add, sub = graph_module.graph.find_nodes(op="call_function", target=operator.add)[0], None
        sub = graph_module.graph.find_nodes(op="call_function", target=operator.sub)[0]
        sub.append(add)

    pass_ = fxopt.as_pass(swapped)
    assert len(pass_.scan(gm).matches) == 1
    pass_(gm)
    assert [node.name for node in gm.graph.nodes] == ["x", "sub", "add", "mul", "output"]
    pass_(gm, reverse=True)
    assert fxopt.fingerprint(gm) == before


def test_a_copy_of_everything_changes_nothing(gm: GraphModule) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own copy of tree specs
        assert fxopt.as_pass(copy.deepcopy).scan(gm).matches == ()
        assert fxopt.as_pass(torch.fx.symbolic_trace).scan(gm).matches == ()


class Signed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.floor = nn.Threshold(0.5, 0.0)
        self.register_buffer("zeros", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1 / (self.floor(x) * self.zeros)


def negate_zeros(graph_module: GraphModule) -> GraphModule:
    new = copy.deepcopy(graph_module)
    new.zeros = -new.zeros
    return new


def negate_floor(graph_module: GraphModule) -> GraphModule:
    new = copy.deepcopy(graph_module)
    floor = new.get_submodule("floor")
    assert isinstance(floor, nn.Threshold)
    floor.value = -0.0
    return new


@pytest.mark.parametrize("function", [negate_zeros, negate_floor])
def test_a_zero_of_another_sign_is_a_change(function: Function) -> None:
    gm = fxopt.capture(Signed(), (torch.zeros(3),))
    before = gm(torch.zeros(3))
    pass_ = fxopt.as_pass(function)
    pass_(gm)
    assert torch.equal(gm(torch.zeros(3)), -before)
    pass_(gm, reverse=True)
    assert torch.equal(gm(torch.zeros(3)), before)


def fails(graph_module: GraphModule) -> None:
    graph_module.graph.erase_node(next(iter(graph_module.graph.nodes)))


def overwrites(graph_module: GraphModule) -> None:
    with torch.no_grad():
        graph_module.one.weight.mul_(2)  # type: ignore[operator,union-attr]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fails, "RuntimeError"),
        (overwrites, "wrote over the numbers of one.weight"),
        (lambda gm: [gm], "returned a list"),
    ],
)
def test_a_function_that_goes_wrong_changes_nothing(gm: GraphModule, function: object, message: str) -> None:
    before = fxopt.fingerprint(gm)
    pass_ = fxopt.as_pass(function)  # type: ignore[arg-type]
    with pytest.raises(fxopt.RewriteError, match=message):
        pass_(gm)
    wb = fxopt.Workbench(gm, passes=[pass_])
    wb.turn_on(pass_)
    assert message in wb.states[0].error
    if function is not overwrites:
        assert fxopt.fingerprint(gm) == before
