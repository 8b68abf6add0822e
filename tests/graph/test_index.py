import torch
from torch import nn

from fxopt import ALL_PASSES, MergeLinears, annotate
from fxopt.core import GraphIndex
from tests.examples import EXAMPLES


def facts(index: GraphIndex) -> dict[str, object]:
    modules = {path: m for path, m in index.gm.named_modules(remove_duplicate=False) if "ledger" not in path}
    tensors = {
        id(t): t for m in modules.values() for t in [*m._parameters.values(), *m._buffers.values()] if t is not None
    }
    return {
        "modules": {path: index.module_at(path) is m for path, m in modules.items()},
        "nodes": {name: id(node) for name, node in index.nodes.items()},
        "calls": {path: sorted(n.name for n in index.calls_of(m)) for path, m in modules.items()},
        "reads": {path: sorted(n.name for n in index.reads_of(path)) for path in modules},
        "paths": {path: sorted(index.paths_of(m)) for path, m in modules.items()},
        "owners": {key: sorted(index.owners_of(t)) for key, t in tensors.items()},
        "writers": [node.name for node in index._writers],
    }


def test_the_edits_keep_the_index_true() -> None:
    for example in EXAMPLES:
        gm = example.graph()
        index = GraphIndex(gm)
        facts(index)  # fill every table
        for kind in ALL_PASSES:
            kind().apply(index)
            assert facts(index) == facts(GraphIndex(gm)), (example.name, kind)


def test_memory_is_followed_through_views_but_not_through_fresh_results() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            view = x.view(-1)
            other = torch.add(x, 1)
            view.add_(1)
            return other + view[0]

    gm = torch.fx.symbolic_trace(Model())
    index = GraphIndex(gm)
    node = index.nodes
    assert index.may_share_memory(node["x"], node["view"])
    assert not index.may_share_memory(node["x"], node["add"])
    assert index.writes_between(node["x"], node["add_1"], node["x"]) is node["add_"]
    assert index.writes_between(node["x"], node["add_1"], node["add"]) is None


def test_nodes_that_read_one_tensor_share_its_memory_by_any_name() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("whole", torch.zeros(4))
            self.register_buffer("part", self.whole[:2])
            self.register_buffer("other", torch.zeros(4))

    graph = torch.fx.Graph()
    names = ("whole", "whole", "part", "other")
    again, first, part, other = (graph.get_attr(name) for name in names)
    written = graph.call_method("add_", (first, 1))
    graph.output((again, part, other, written))
    index = GraphIndex(torch.fx.GraphModule(Model(), graph))
    assert index.may_share_memory(again, first)
    assert index.may_share_memory(part, written)
    assert not index.may_share_memory(other, written)


def test_linears_around_a_write_to_their_input_by_another_node_are_left_alone() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("buffer", torch.ones(2, 3))
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            a = self.a(self.buffer)
            self.buffer.add_(x)
            return a * self.b(self.buffer)

    gm = torch.fx.symbolic_trace(Model().eval())
    annotate(gm, torch.ones(2, 3))
    assert len(list(gm.graph.find_nodes(op="get_attr"))) == 3
    assert not MergeLinears().scan(gm).matches
