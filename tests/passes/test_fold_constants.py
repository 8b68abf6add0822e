"""Tensors that are the same in each run become parameters; where another run may see another tensor, the calls stay."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node

import fxopt
from fxopt import FoldConstants
from fxopt.core import GraphIndex
from fxopt.passes import fold_constants
from fxopt.testing import Case, check, check_pass, laws
from tests.examples import Example, outputs
from tests.fuzz.builder import Builder, Choices
from tests.passes.asserts import Net, assert_left_alone, captured

X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
Forward = Callable[[Any, torch.Tensor], Any]


class Constants(nn.Module):
    """A causal mask, a softmax of a frozen parameter, and positions that are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(4, 4)
        self.mix = nn.Parameter(torch.randn(4))
        self.requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4, 4, dtype=torch.bool, device=x.device).tril().logical_not()
        scores = (x @ x.transpose(-1, -2)).masked_fill(mask, -1e9).softmax(-1)
        return scores @ x * self.mix.softmax(0) + self.table(torch.arange(4, device=x.device))


EXAMPLES = (Example("constants", Constants, ((2, 4, 4),)),)


def constant(build: Builder, x: Node, choose: Choices) -> Node:
    """Compute a tensor of constants, and put it to a use that leaves it as it is, or not."""
    width = build.shape(x)[-1]
    made = choose("buffer", "frozen", "arange", "trained", "ones", "random")
    build.count += 1
    name, tensor = f"c{build.count}", torch.linspace(-1, 2, width, dtype=build.dtype)
    if made in ("frozen", "trained"):
        build.root.register_parameter(name, nn.Parameter(tensor, requires_grad=made == "trained"))
    else:
        build.root.register_buffer(name, tensor)
    held = build.emit("get_attr", name)
    value = held
    if made in ("arange", "ones", "random"):
        device = build.function(getattr, x, "device")
        value = build.function(
            {"arange": torch.arange, "ones": torch.ones, "random": torch.rand}[made], width, device=device
        )
        value = build.method("type_as", value, held)
    for _ in range(choose(1, 2)):
        value = build.method(choose("cos", "neg", "unsqueeze", "exp_"), value, *([0] if choose(False, True) else []))
    use = choose("add", "expand", "write", "return", "twice")
    if use == "write":
        build.method("mul_", build.method("view", value, -1) if choose(False, True) else value, 2)
        value = build.method("sin", value)
    if use == "return":
        return value
    if use == "expand":
        value = build.method("expand_as", value, x)
    if use == "twice":
        value = build.function(torch.maximum, value, build.method("sin", value))
    return build.function(torch.add, x, value)


INSTRUCTIONS = (constant,)
PATTERNS = (
    [("pointwise", 0, 0), ("constant", 0, 0)],
    [("constant", 0, 2), ("constant", 0, 12), ("write", 0, 0)],
)


class Tables(Net):
    """A model with a buffer, a frozen table, a parameter that trains, and one that is frozen."""

    def __init__(self, forward: Forward) -> None:
        super().__init__(lambda m, x: forward(m, x + m.weight))
        self.register_buffer("rows", torch.arange(12.0).view(3, 4) / 7)
        self.weight = nn.Parameter(torch.tensor([0.5, -1, 2, 4]))
        self.mix = nn.Parameter(torch.tensor([0.25, -3, 2, 1]), requires_grad=False)
        self.embedding = nn.Embedding(5, 4).requires_grad_(False)


def of(forward: Forward) -> GraphModule:
    return fxopt.capture(Tables(forward).eval(), (X,))


FOLDED: dict[str, tuple[Forward, list[str]]] = {
    "a buffer": (lambda m, x: x * m.rows.exp(), ["exp"]),
    "a chain": (lambda m, x: x * (m.rows * 2 + 1).exp(), ["exp"]),
    "a frozen parameter": (lambda m, x: x * m.mix.softmax(0), ["softmax"]),
    "read twice in the chain": (lambda m, x: x * (m.rows + m.rows.exp()).cos(), ["cos"]),
    "a part before": (lambda m, x: x * m.rows[1].exp(), ["exp"]),
    "a part behind": (lambda m, x: x * m.rows.exp()[1], ["exp"]),
    "a transposition behind": (lambda m, x: x @ m.rows.exp().t(), ["t"]),
    "repeated by a view": (lambda m, x: x + m.mix.exp().expand(3, 4), ["exp"]),
    "on the device of the input": (lambda m, x: x + torch.arange(4, device=x.device), ["arange"]),
    "on that of a buffer": (lambda m, x: x + torch.arange(4, device=m.rows.device), ["arange"]),
    "a mask": (
        lambda m, x: x.masked_fill(torch.ones(3, 4, dtype=torch.bool, device=x.device).tril().logical_not(), 0),
        ["logical_not"],
    ),
    "truths as integers": (lambda m, x: x + (torch.arange(4, device=x.device) > 1).long() * 3, ["mul"]),
    "rows that are looked up": (lambda m, x: x + m.embedding(torch.arange(3, device=x.device)), ["embedding"]),
    "rows by an index": (lambda m, x: x + m.rows[torch.arange(3, device=x.device)], ["getitem"]),
    "the dtype of another": (lambda m, x: x + torch.arange(4, device=x.device).type_as(m.rows).exp(), ["exp"]),
    "sizes of a buffer": (lambda m, x: x + torch.arange(m.rows.shape[1], device=x.device), ["arange"]),
    "two of one chain": (
        lambda m, x: x * (y := torch.arange(4, device=x.device)).neg() + y.square(),
        ["neg", "square"],
    ),
    "read by several": (lambda m, x: x * (y := m.rows.exp()) + y, ["exp"]),
}

LEFT: dict[str, tuple[Forward, str]] = {
    "taken by as_tensor": (lambda m, x: x * torch.as_tensor(m.rows.exp()), "as_tensor takes exp"),
    "a parameter that trains": (lambda m, x: x * m.weight.exp(), "weight trains, and the result would not"),
    "the default dtype": (lambda m, x: x + torch.ones(4, device=x.device), "ones is torch.float32 whatever"),
    "a dtype that is given": (
        lambda m, x: x + torch.arange(4, dtype=torch.float32, device=x.device),
        "arange is torch.float32 whatever",
    ),
    "a cast in between": (lambda m, x: x + m.rows.double().exp(), "double is torch.float64 whatever the parameters"),
    "a cast to its own dtype": (lambda m, x: x + m.rows.float().exp(), "float_1 is torch.float32 whatever"),
    "complex numbers of real ones": (lambda m, x: x + torch.polar(m.rows, m.rows).abs(), "polar is torch.complex64"),
    "the default device": (lambda m, x: x + torch.arange(4), "arange is made on torch's default device"),
    "a device that is given": (lambda m, x: x + torch.arange(4, device="cpu"), "arange is made on the device that is"),
    "moved to a device": (lambda m, x: x + m.rows.to("cpu").exp(), "to is torch.float32 whatever"),
    "written later": (lambda m, x: (y := m.rows.exp(), y.mul_(2), x + y)[2], "mul_ may change exp in place"),
    "written before another call reads it": (lambda m, x: (y := m.rows.exp(), y.mul_(2), x + y.cos())[2], "mul_ may"),
    "written as a part": (lambda m, x: (y := m.rows.exp(), y[0].mul_(2), x + y.cos())[2], "mul_ may change exp"),
    "written as the result of another": (
        lambda m, x: (y := m.rows.exp(), torch.neg(m.rows.cos(), out=y), x + y)[2],
        "neg may change exp in place",
    ),
    "written by one that is given its memory": (
        lambda m, x: (y := m.rows.exp(), z := x.clone(), z.set_(y), z.mul_(2), x + y)[4],
        "set_ may change exp in place",
    ),
    "written by a module": (lambda m, x: x + m.relu(m.rows.exp()), "relu may change exp in place"),
    "given to a function of one's own": (lambda m, x: own(x, m.rows.exp()), "own may change exp in place"),
    "a buffer that is counted up": (
        lambda m, x: (y := x * m.rows.exp(), m.rows.add_(1), y)[2],
        "add_ may write to rows, which is then another one in the next run",
    ),
    "a buffer that is counted up by a view": (
        lambda m, x: (y := x * m.rows.exp(), m.rows.view(-1).add_(1), y)[2],
        "add_ may write to rows",
    ),
    "a buffer that is returned": (lambda m, x: (x + m.rows.exp(), m.rows), "rows is also read by output"),
    "a buffer that is read elsewhere": (lambda m, x: x * m.rows.exp() + m.rows, "rows is also read by add_1"),
    "a buffer of two results": (lambda m, x: x * m.rows.exp() + m.rows.cos(), "rows is also read by "),
    "returned": (lambda m, x: (x, m.rows.exp()), "exp is returned, and would then be the same tensor in each run"),
    "a view of it returned": (lambda m, x: (x, m.rows.exp()[0]), "exp is returned"),
    "too large": (
        lambda m, x: x + torch.arange(9_000_000, device=x.device)[:4],
        "with the 68.7 MiB of arange, the constants would take 68.7 MiB",
    ),
}

NOTHING_TO_SAY: dict[str, Forward] = {
    "random numbers": lambda m, x: x + torch.rand(4) + torch.randperm(4),
    "dropout": lambda m, x: x + F.dropout(m.rows, training=True),
    "of the input": lambda m, x: x + x.exp(),
    "of a free size": lambda m, x: x[:, 0] * torch.arange(x.shape[0], device=x.device)[:, None],
    "a view of a buffer": lambda m, x: x @ m.rows.t() + m.mix[0] + m.mix.expand(3, 4)[:, :1].t(),
}


@torch.fx.wrap
def own(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y.add_(1)
    return x + y


@pytest.mark.parametrize(("forward", "sites"), FOLDED.values(), ids=FOLDED)
def test_a_tensor_of_constants_becomes_one_frozen_parameter_or_buffer(forward: Forward, sites: list[str]) -> None:
    case = Case.of("tables", Tables(forward).eval(), (X,))
    check(laws.outputs_are_as_exact_as_declared, FoldConstants(), case)
    check(laws.reverse_restores_everything_to_the_bit, FoldConstants(), case)
    check(laws.the_way_back_survives_copies_and_files, FoldConstants(), case)
    gm = case.graph()
    assert [match.site for match in FoldConstants().scan(gm).matches] == sites
    assert [entry.site for entry in FoldConstants().apply(GraphIndex(gm))] == sites
    assert not [node for node in gm.graph.nodes if not node.users and node.op not in ("placeholder", "output")]
    names = [f"{site}_constant" for site in sites]
    held = {name: one for name, one in gm.state_dict(keep_vars=True).items() if name in names}
    assert [*held] == names
    assert {name: isinstance(one, nn.Parameter) for name, one in held.items()} == {
        name: one.is_floating_point() for name, one in held.items()
    }
    gm.requires_grad_(True)
    read = {str(node.target) for node in gm.graph.find_nodes(op="get_attr")}
    assert read == {"weight", *names}, "the constants take the place of all that they are made of"


@pytest.mark.parametrize(("forward", "reason"), LEFT.values(), ids=LEFT)
def test_a_tensor_that_may_be_another_stays_with_its_reason(forward: Forward, reason: str) -> None:
    model = Tables(forward)
    model.relu = nn.ReLU(inplace=True)
    gm = fxopt.capture(model.eval(), (X,))
    misses = FoldConstants().scan(gm).misses
    assert any(reason in str(miss) for miss in misses), [str(miss) for miss in misses]
    assert not FoldConstants().apply(GraphIndex(gm))


@pytest.mark.parametrize("forward", NOTHING_TO_SAY.values(), ids=NOTHING_TO_SAY)
def test_of_other_calls_there_is_nothing_to_say(forward: Forward) -> None:
    scan = FoldConstants().scan(of(forward))
    assert (scan.matches, scan.misses) == ((), ())


def test_a_result_that_others_read_is_folded_and_what_follows_from_it_stays() -> None:
    gm = of(lambda m, x: x * (y := m.rows.exp()) + y.cos())
    scan = FoldConstants().scan(gm)
    assert [match.site for match in scan.matches] == ["exp"]
    assert ["exp is also read by mul" in miss.reason for miss in scan.misses] == [True]
    FoldConstants()(gm)
    assert_left_alone(FoldConstants(), gm, "exp_constant is also read by mul")


def test_the_part_that_is_the_same_is_folded_where_the_default_dtype_decides_the_rest() -> None:
    scan = FoldConstants().scan(of(lambda m, x: x + torch.arange(4, device=x.device).neg() / 2))
    assert [match.site for match in scan.matches] == ["neg"]
    assert ["truediv is torch.float32 whatever" in miss.reason for miss in scan.misses] == [True]


def test_each_call_gets_memory_that_is_as_it_was() -> None:
    gm = of(lambda m, x: x + m.rows.exp())
    before = gm(X)
    FoldConstants()(gm)
    gm(X).mul_(0)
    assert torch.equal(gm(X), before)


def test_a_layer_that_is_called_elsewhere_or_updates_itself_stays() -> None:
    gm = of(
        lambda m, x: m.embedding(torch.arange(3, device=x.device)) + m.embedding(x[0, 0].long().abs().clamp(max=4))[:3]
    )
    [miss] = FoldConstants().scan(gm).misses
    assert miss.reason.startswith("embedding is called 2 times")
    gm = captured(lambda m, x: m.norm(x) * m.norm.running_var.sqrt()[:, None], X, norm=nn.BatchNorm1d(3))
    assert_left_alone(FoldConstants(), gm, "norm.running_var lies in a BatchNorm1d of the model itself")


def test_memory_that_is_registered_twice_stays() -> None:
    model = Tables(lambda m, x: x * m.rows.exp() + m.other)
    model.register_buffer("other", model.rows.view(12)[:4])
    gm = fxopt.capture(model.eval(), (X,))
    assert_left_alone(FoldConstants(), gm, "the memory of rows is registered as rows, other")


def test_autocast_and_tensors_without_known_memory_stay() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return x + m.rows @ m.rows.t().exp() @ m.rows

    assert_left_alone(FoldConstants(), of(forward), "runs under autocast")
    gm = of(lambda m, x: x * m.rows.exp())
    gm.rows = gm.rows.to("meta")
    assert_left_alone(FoldConstants(), gm, "rows has no values")
    with torch.inference_mode():
        gm.rows = torch.rand(3, 4)
    assert_left_alone(FoldConstants(), gm, "of which torch counts no writes")


def test_the_device_of_a_call_has_to_be_that_of_all_parameters_and_buffers() -> None:
    gm = captured(lambda m, x: x + torch.arange(4, device=x.device), X)
    assert_left_alone(FoldConstants(), gm, "made on the device of the call, here cpu")
    gm = of(lambda m, x: x + torch.arange(4, device=x.device))
    gm.register_buffer("elsewhere", torch.rand(2, device="meta"))
    assert_left_alone(FoldConstants(), gm, "made on the device of the call, here cpu")


def test_strides_are_those_of_before() -> None:
    gm = FoldConstants()(of(lambda m, x: x @ (m.rows.t() * 2)))
    assert gm.mul_constant.stride() == (1, 4)


def test_all_constants_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_constants, "MOST_BYTES", 100)
    gm = of(lambda m, x: x + (y := torch.arange(4, device=x.device)).neg() + y.square() + y * 3 + m.mix)
    for _ in range(2):  # of 32 bytes each
        FoldConstants()(gm)
        assert [name for name, _ in gm.named_buffers()] == ["neg_constant", "square_constant", "mul_constant"]
    gm = of(lambda m, x: x + (y := torch.arange(4, device=x.device)).neg() + y.square() + y * 3 + (y - 1) + m.mix)
    for _ in range(2):
        FoldConstants()(gm)
        assert_left_alone(FoldConstants(), gm, "of sub, the constants would take")


def test_noted_dtypes_that_are_no_longer_true_are_a_reason() -> None:
    gm = of(lambda m, x: x * m.rows.exp()).half()
    assert_left_alone(FoldConstants(), gm, "rows is float16 3 x 4 on cpu, and rows is noted as float32 3 x 4 on cpu")


def test_a_table_that_changes_while_it_is_off_is_computed_anew() -> None:
    gm = of(lambda m, x: x + m.embedding(torch.arange(3, device=x.device)))
    FoldConstants().turn_on(gm, "embedding")
    FoldConstants().turn_off(gm, "embedding")
    gm.get_submodule("embedding").weight.data = torch.rand(5, 4)  # unseen by torch's count of writes
    expected = gm(X)
    FoldConstants().turn_on(gm, "embedding")
    assert torch.equal(gm(X), expected)


def test_the_modes_of_the_caller_stay_out_of_the_constant() -> None:
    gm = of(lambda m, x: x @ (m.rows.t() @ m.rows) + torch.arange(4, device=x.device))
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode(), torch.device("meta"):
        FoldConstants()(gm)
    assert gm.matmul_constant.dtype == torch.float32
    made = [one for name, one in gm.state_dict(keep_vars=True).items() if "constant" in name]
    assert [(one.device.type, one.is_inference()) for one in made] == [("cpu", False)] * 2


def test_attention_chooses_the_same_kernel() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        bias = m.mix.view(1, 1, 4).expand(1, 3, 4)[:, :, :3].contiguous().exp()
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], attn_mask=bias)

    gm = of(forward)
    before = gm(X)
    assert torch.equal(FoldConstants()(gm)(X), before)
    assert FoldConstants().sites_on(gm) == ("exp",)


def test_a_constant_that_is_given_other_values_is_no_longer_reversed_and_a_loaded_one_is() -> None:
    gm = FoldConstants()(of(lambda m, x: x * m.rows.exp()))
    gm.load_state_dict(gm.state_dict())
    FoldConstants()(gm, reverse=True)
    FoldConstants()(gm)
    with torch.no_grad():
        gm.exp_constant.mul_(2)
    with pytest.raises(fxopt.RewriteError, match="exp_constant, made by FoldConstants, was given other values"):
        FoldConstants()(gm, reverse=True)


def test_exported_graphs_are_folded_too() -> None:
    gm = torch.export.export(Tables(lambda m, x: x * (m.rows * 2).exp()).eval(), (X,)).module()
    before = outputs(gm, (X,))
    assert [match.site for match in FoldConstants().scan(gm).matches] == ["exp"]
    assert all(map(torch.equal, outputs(FoldConstants()(gm), (X,)), before))


def test_a_graph_module_with_constants_is_freed() -> None:
    gm = FoldConstants()(of(lambda m, x: x * m.rows.exp()))
    seen = weakref.ref(gm)
    del gm
    gc.collect()
    assert seen() is None


def test_the_laws_hold() -> None:
    assert check_pass(FoldConstants(), [(Constants().eval(), (torch.rand(2, 4, 4),))]).sites == 3
