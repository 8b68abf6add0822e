import torch
from torch import nn

from fxopt import ALL_PASSES
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
