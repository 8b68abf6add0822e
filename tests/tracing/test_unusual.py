"""Things that models do beyond calling layers: vmap, autocast, scripts, custom functions, caches, ties."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, prune

from fxopt.tracing import capture, example_inputs, rungs
from fxopt.tracing.report import RecordingError
from fxopt.tracing.structure import tensors_of
from tests.tracing.zoo import TRANSFORMERS, Perceptron, build, image, vector


@pytest.fixture(autouse=True)
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the models recorded, though torch.fx could trace some of them."""
    monkeypatch.setattr(rungs, "is_plain", lambda model: False)


@torch.no_grad()
def assert_replays(model: nn.Module, *examples: tuple[Any, ...], **options: Any) -> torch.fx.GraphModule:
    gm = capture(model, examples[0], **options)
    for args in examples:
        expected, replayed = tensors_of(model(*args)), tensors_of(gm(*args))
        for x, y in zip(expected, replayed, strict=True):
            torch.testing.assert_close(y, x)
    return gm


class Vmaps(Perceptron):
    def forward(self, x):
        return self.first(torch.vmap(lambda row: row.cumsum(0) * row.sum())(x))


def test_operations_inside_vmap_are_recorded_as_aten() -> None:
    gm = assert_replays(build(Vmaps), (vector(),), (vector(5),))
    assert any(isinstance(node.target, torch._ops.OpOverload) for node in gm.graph.nodes)


class Autocasts(Perceptron):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.first(x)
        return y, self.second(y.float())


def test_autocast_regions_are_part_of_the_graph() -> None:
    gm = assert_replays(build(Autocasts), (vector(),), (vector(5),))
    names = [node.name for node in gm.graph.nodes if "autocast" in node.name]
    assert names == ["_enter_autocast", "_exit_autocast"]
    assert gm(vector())[0].dtype is torch.bfloat16


class Doubles(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class UsesFunction(Perceptron):
    def forward(self, x):
        return self.first(Doubles.apply(x))


def test_custom_functions_are_recorded_by_what_they_do() -> None:
    assert_replays(build(UsesFunction), (vector(),), (vector(5),))


class Cumulative(Perceptron):
    def forward(self, x):
        rows = [row * index for index, row in enumerate(x)]
        chunks = x.chunk(2, dim=1)
        values, indices = x.max(dim=1)
        return self.first(torch.stack(rows)), chunks[0] + chunks[1], values, indices, x.T, x.shape


def test_rows_chunks_and_named_results_find_their_nodes() -> None:
    gm = assert_replays(build(Cumulative), (vector(),))
    assert "batch == 3" in {fixed.condition for fixed in gm.meta["fxopt"].fixed}


class MakesModules(Perceptron):
    def forward(self, x):
        return nn.ReLU()(self.first(x))


def test_a_layer_made_in_forward_is_kept_in_the_graph_module() -> None:
    gm = assert_replays(build(MakesModules), (vector(),), (vector(5),))
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module")] == ["first", "_unregistered_ReLU0"]


class TwoNames(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(8, 8)
        self.other = self.one
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.one.weight

    def forward(self, x):
        return self.tied(self.other(x)) + F.linear(x, self.tied.weight)


def test_shared_layers_and_tied_weights_stay_shared() -> None:
    model = TwoNames().eval()
    gm = assert_replays(model, (vector(),), (vector(5),))
    assert [node.target for node in gm.graph.nodes if node.op in ("call_module", "get_attr")] == [
        "one",
        "tied",
        "one.weight",
    ]
    assert gm.tied.weight is gm.one.weight is model.one.weight


class AssignsFieldsLate(Perceptron):
    """As InternVL: a field is assigned after a later one; another is no field at all."""

    def forward(self, x):
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        hidden = self.first(x)
        output = BaseModelOutputWithPooling(last_hidden_state=hidden, hidden_states=(hidden,))
        output.pooler_output = hidden.relu()
        output.note = hidden.sum()
        return output


def test_fields_of_an_output_keep_the_order_in_which_they_were_assigned() -> None:
    pytest.importorskip("transformers")
    model = build(AssignsFieldsLate)
    gm = assert_replays(model, (vector(),), (vector()[:1],))
    for each in (gm, copy.deepcopy(gm)):
        answer = each(vector())
        assert list(answer) == ["last_hidden_state", "hidden_states", "pooler_output"]
        assert answer.pooler_output is answer["pooler_output"]
        assert torch.equal(answer.note, model(vector()).note)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("way", ["plain", "recorded"])
def test_sparse_buffers_are_part_of_a_graph_and_left_as_they_were(
    layout: torch.layout, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Propagates(Perceptron):
        def __init__(self):
            super().__init__()
            self.register_buffer("neighbours", torch.eye(vector().shape[0]).to_sparse(layout=layout))

        def forward(self, x):
            return torch.sparse.mm(self.neighbours, self.first(x))

    monkeypatch.setattr(rungs, "is_plain", lambda model: way == "plain")
    model = build(Propagates)
    before = model.neighbours
    assert_replays(model, (vector(),))
    assert model.neighbours is before


class Attends(nn.Module):
    """Calls a leaf whole, and reads a parameter inside it."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        first = F.linear(x, self.attention.out_proj.weight)
        y, weights = self.attention(first, x, x, need_weights=True)
        return y, weights


class AttendsFirst(Attends):
    def forward(self, x):
        y, weights = self.attention(x, x, x, need_weights=True)
        return F.linear(y, self.attention.out_proj.weight), weights


@pytest.mark.parametrize("kind", [Attends, AttendsFirst])
def test_a_parameter_inside_a_leaf_is_read_where_it_is(kind: type[nn.Module]) -> None:
    model = build(kind)
    before = {path: list(module.__dict__) for path, module in model.named_modules()}
    gm = assert_replays(model, (torch.randn(2, 5, 8),), (torch.randn(3, 7, 8),))
    assert gm.attention is model.attention
    assert {path: list(module.__dict__) for path, module in model.named_modules()} == before


@pytest.mark.parametrize("kind", ["weight norm", "pruned"])
def test_parametrized_and_pruned_layers_stay_whole(kind: str) -> None:
    model = build(Perceptron)
    if kind == "weight norm":
        parametrizations.weight_norm(model.first)
    else:
        prune.random_unstructured(model.first, "weight", 0.5)
    gm = assert_replays(model, (vector(),), (vector(5),))
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module")] == ["first", "second"]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 4, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (hidden, cell) = self.rnn(x)
        return y + 1, hidden, cell


def test_a_recurrent_layer_is_one_node() -> None:
    gm = assert_replays(build(Recurrent), (torch.randn(2, 5, 8),), (torch.randn(3, 7, 8),))
    assert len(gm.graph.find_nodes(op="call_module")) == 1


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.encoder(x)


def test_the_layers_of_an_encoder_of_torch_are_seen() -> None:
    gm = assert_replays(build(Encoder), (torch.randn(2, 5, 8),), (torch.randn(3, 7, 8),))
    targets = [str(node.target) for node in gm.graph.find_nodes(op="call_module")]
    assert "encoder.layers.1.linear2" in targets
    assert "encoder.layers.0.self_attn" in targets


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        y = self.dropout(x).contiguous().to(x.dtype)
        return x + y, y


def test_operations_that_return_their_input_have_nodes_of_their_own() -> None:
    gm = assert_replays(build(Residual), (vector(),), (vector(5),))
    add = next(node for node in gm.graph.nodes if node.name == "add")
    assert [node.name for node in add.all_input_nodes] == ["x", "to"]


class Keeps(nn.Module):
    def forward(self, x):
        y = x.contiguous().to(x.dtype)
        return x + y, y


def test_methods_that_return_their_tensor_do_not_take_its_place() -> None:
    gm = assert_replays(Keeps(), (vector(),))
    add = next(node for node in gm.graph.nodes if node.name == "add")
    assert [node.name for node in add.all_input_nodes] == ["x", "to"]


@torch.library.custom_op("fxopt_tests::add_one_", mutates_args={"x"})
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


add_one_.register_fake(lambda x: None)


class CallsCustomOperator(Perceptron):
    def forward(self, x):
        y = self.first(x)
        torch.ops.fxopt_tests.add_one_(y)
        return y


def test_a_custom_operator_that_only_writes_is_recorded() -> None:
    assert_replays(build(CallsCustomOperator), (vector(),), (vector(5),))


class SlicesMask(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("causal", torch.ones(16, 16).tril().bool())

    def forward(self, x):
        size = x.shape[1]
        scores = x @ x.transpose(1, 2)
        mask = self.causal[:size, :size].contiguous().view(1, size, size)
        return torch.where(mask, scores, 0.0) @ x


def test_a_question_of_torch_about_speed_does_not_fix_a_size() -> None:
    example, full = torch.randn(2, 6, 8), torch.randn(2, 16, 8)
    gm = assert_replays(build(SlicesMask), (example,), (full,))
    assert [fixed.condition for fixed in gm.meta["fxopt"].fixed if fixed.line] == ["sequence <= 16"]


def test_convolutions_take_any_batch() -> None:
    assert_replays(nn.Sequential(nn.Conv2d(3, 4, 3)).eval(), (image(),), (image(1),), (image(40),))


class Foreach(Perceptron):
    def forward(self, x):
        y, z = self.first(x), self.first(x + 1)
        torch._foreach_add_([y, z], 1.0)
        torch.relu_(y[:, :4])
        return y, z


def test_writes_without_a_result_are_recorded() -> None:
    assert_replays(build(Foreach), (vector(),), (vector(5),))


class AssignsData(Perceptron):
    def forward(self, x):
        y = self.first(x)
        y.data = x
        return y


def test_what_cannot_be_recorded_is_refused_and_named() -> None:
    with pytest.raises(RuntimeError, match=r"an assignment to \.data of a tensor at .*test_unusual\.py:\d+"):
        capture(build(AssignsData), (vector(),))
    assert issubclass(RecordingError, RuntimeError)


class ManySizes(nn.Module):
    def forward(self, x):
        batch, sequence = x.shape
        half = sequence // 2
        padding = (-sequence) % 4
        x = F.pad(x, (0, padding))
        mask = torch.ones(max(batch, sequence), min(batch, half + 1))
        scale = torch.tensor(float(sequence) ** 0.5 + sequence / 3)
        return x[:, half:].sum(), mask, x.new_zeros(batch * sequence - half, half + 2), scale


def test_arithmetic_of_sizes_is_written_as_python_would_do_it() -> None:
    gm = assert_replays(ManySizes(), (torch.randn(2, 11),), dynamic="all")
    assert gm.meta["fxopt"].rung == "symbolic"


class TakesCache(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids, cache):
        result = self.model(input_ids=ids, cache=cache, use_cache=True)
        return result.logits, result.cache if hasattr(result, "cache") else result.past_key_values


@torch.no_grad()
def test_a_part_of_a_transformers_model_can_be_a_leaf() -> None:
    model = TRANSFORMERS["bert"]()
    inputs = example_inputs(model)
    gm = capture(model, (), inputs, leaf="encoder")
    assert "encoder" in [node.target for node in gm.graph.find_nodes(op="call_module")]
    torch.testing.assert_close(gm(**inputs).pooler_output, model(**inputs).pooler_output)


@torch.no_grad()
def test_a_cache_object_goes_in_and_comes_out() -> None:
    from transformers import DynamicCache

    llama = TRANSFORMERS["llama"]()
    model = TakesCache(llama).eval()
    ids = torch.arange(10).reshape(2, 5)

    def filled() -> DynamicCache:
        cache = DynamicCache()
        llama(input_ids=ids, cache=cache, use_cache=True)
        return cache

    gm = capture(model, (ids, filled()))
    expected, expected_cache = model(ids, filled())
    logits, cache = gm(ids, filled())
    torch.testing.assert_close(logits, expected)
    assert type(cache) is DynamicCache
    assert cache.get_seq_length() == 10
    for x, y in zip(tensors_of(expected_cache), tensors_of(cache), strict=True):
        torch.testing.assert_close(y, x)


class Checkpoints(Perceptron):
    def __init__(self) -> None:
        super().__init__()
        self.lift = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.first, x * self.lift, use_reentrant=False)


def test_checkpointed_layers_are_seen() -> None:
    gm = assert_replays(build(Checkpoints), (vector(),), (vector(5),))
    assert [str(node.target) for node in gm.graph.find_nodes(op="call_module")] == ["first"]


def test_the_graph_follows_to_another_device() -> None:
    class OnDevice(Perceptron):
        def forward(self, x):
            return self.first(x) + torch.arange(16, device=x.device)

    gm = capture(build(OnDevice), (vector(),))
    result = gm.to("meta")(vector().to("meta"))
    assert result.device.type == "meta"


def test_half_precision_models_replay() -> None:
    assert_replays(build(Perceptron).to(torch.bfloat16), (vector().bfloat16(),), (vector(5).bfloat16(),))


def test_gradients_flow_through_the_graph_to_the_shared_weights() -> None:
    model = build(Perceptron)
    gm = capture(model, (vector(),))
    gm(vector()).sum().backward()
    assert model.first.weight.grad is not None
