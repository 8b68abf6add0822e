"""Graphs to draw: small ones traced from modules, and large ones made up node by node."""

from __future__ import annotations

import torch
from torch import nn

from fxopt.view import GraphView, NodeView


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(self.query(x), self.key(x).transpose(-1, -2)) / 2.8
        mixed = torch.matmul(scores.softmax(-1), self.value(x))
        mixed = mixed.view(x.size(0), x.size(1), 8)
        return self.norm(x + torch.relu(self.dense(mixed)))


class Tower(nn.Module):
    """A stem and a few equal blocks, with a constant and some size arithmetic."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.layer = nn.ModuleList(Block() for _ in range(blocks))
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x) * self.scale
        for block in self.layer:
            x = block(x)
        return x.reshape(x.size(0) * 2, -1)


class _Tracer(torch.fx.Tracer):
    def is_leaf_module(self, module: nn.Module, path: str) -> bool:
        return not isinstance(module, (Tower, Block))


def tower(blocks: int = 2) -> torch.fx.GraphModule:
    model = Tower(blocks).eval()
    return torch.fx.GraphModule(model, _Tracer().trace(model))


def call(name: str, *path: tuple[str, str], target: str = "torch.relu", kind: str = "activation") -> NodeView:
    return NodeView(name, "call_function", target, kind, modules=path, shape="batch×16×768", dtype="float32")


def encoder(layers: int = 12) -> GraphView:
    """A BERT as capture records it, made up: about 27 nodes a layer, one mask that every layer reads."""
    nodes = [
        NodeView("input_ids", "placeholder", "input_ids", "io", shape="batch×sequence", dtype="int64"),
        NodeView("attention_mask", "placeholder", "attention_mask", "io", shape="batch×sequence", dtype="int64"),
    ]
    edges: list[tuple[str, str]] = []
    hidden = "batch×sequence×768"

    def add(
        name: str,
        op: str,
        target: str,
        kind: str,
        path: tuple[tuple[str, str], ...],
        *inputs: str,
        called: str = "",
        shape: str = hidden,
        dtype: str = "float32",
    ) -> str:
        nodes.append(NodeView(name, op, target, kind, called, path, shape, dtype))
        edges.extend((other, name) for other in inputs)
        return name

    def module(path: str, called: str, kind: str, stack: tuple[tuple[str, str], ...], *inputs: str) -> str:
        return add(path.replace(".", "_"), "call_module", path, kind, stack, *inputs, called=called)

    stem = (("embeddings", "BertEmbeddings"),)
    words = module("embeddings.word_embeddings", "Embedding", "embedding", stem, "input_ids")
    places = module("embeddings.position_embeddings", "Embedding", "embedding", stem, "input_ids")
    summed = add("add", "call_function", "operator.add", "arithmetic", stem, words, places)
    x = module("embeddings.LayerNorm", "LayerNorm", "norm", stem, summed)
    x = module("embeddings.dropout", "Dropout", "other", stem, x)
    mask = add(
        "unsqueeze",
        "call_method",
        ".unsqueeze",
        "shape",
        (),
        "attention_mask",
        shape="batch×1×1×sequence",
        dtype="bool",
    )
    for number in range(layers):
        layer = f"encoder.layer.{number}"
        outer = (("encoder", "BertEncoder"), (layer, "BertLayer"))
        attention = (*outer, (f"{layer}.attention", "BertAttention"))
        inner = (*attention, (f"{layer}.attention.self", "BertSelfAttention"))
        out = (*attention, (f"{layer}.attention.output", "BertSelfOutput"))
        heads = []
        for part in ("query", "key", "value"):
            projected = module(f"{layer}.attention.self.{part}", "Linear", "linear", inner, x)
            viewed = add(f"view_{number}_{part}", "call_method", ".view", "shape", inner, projected)
            heads.append(add(f"transpose_{number}_{part}", "call_method", ".transpose", "shape", inner, viewed))
        scores = add(f"matmul_{number}", "call_function", "torch.matmul", "attention", inner, heads[0], heads[1])
        scaled = add(f"truediv_{number}", "call_function", "operator.truediv", "arithmetic", inner, scores)
        masked = add(f"masked_{number}", "call_function", "operator.add", "arithmetic", inner, scaled, mask)
        weights = add(f"softmax_{number}", "call_function", "torch.softmax", "attention", inner, masked)
        mixed = add(f"mixed_{number}", "call_function", "torch.matmul", "attention", inner, weights, heads[2])
        merged = add(f"reshape_{number}", "call_method", ".reshape", "shape", inner, mixed)
        dense = module(f"{layer}.attention.output.dense", "Linear", "linear", out, merged)
        dropped = module(f"{layer}.attention.output.dropout", "Dropout", "other", out, dense)
        added = add(f"add_{number}_1", "call_function", "operator.add", "arithmetic", out, dropped, x)
        x = module(f"{layer}.attention.output.LayerNorm", "LayerNorm", "norm", out, added)
        wide = (*outer, (f"{layer}.intermediate", "BertIntermediate"))
        grown = module(f"{layer}.intermediate.dense", "Linear", "linear", wide, x)
        grown = add(f"gelu_{number}", "call_function", "F.gelu", "activation", wide, grown, shape="batch×sequence×3072")
        last = (*outer, (f"{layer}.output", "BertOutput"))
        shrunk = module(f"{layer}.output.dense", "Linear", "linear", last, grown)
        dropped = module(f"{layer}.output.dropout", "Dropout", "other", last, shrunk)
        added = add(f"add_{number}_2", "call_function", "operator.add", "arithmetic", last, dropped, x)
        x = module(f"{layer}.output.LayerNorm", "LayerNorm", "norm", last, added)
    pool = (("pooler", "BertPooler"),)
    first = add("getitem", "call_function", "operator.getitem", "shape", pool, x)
    pooled = module("pooler.dense", "Linear", "linear", pool, first)
    pooled = module("pooler.activation", "Tanh", "activation", pool, pooled)
    add("output", "output", "output", "io", (), x, pooled, shape="")
    return GraphView(tuple(nodes), tuple(edges))


def flat(count: int, width: int = 3, seed: int = 0) -> GraphView:
    """`count` operations without any modules, each reading one or two of the last few."""
    import random

    draw = random.Random(seed)
    kinds = ["linear", "conv", "norm", "activation", "attention", "arithmetic", "shape"]
    nodes = [NodeView("x", "placeholder", "x", "io", shape="1×64", dtype="float32")]
    edges = []
    for number in range(count):
        name = f"node_{number}"
        nodes.append(call(name, kind=draw.choice(kinds), target=f"torch.op_{number % 17}"))
        recent = [node.name for node in nodes[-width - 1 : -1]]
        for other in set(draw.choices(recent, k=draw.choice((1, 1, 2)))):
            edges.append((other, name))
    nodes.append(NodeView("output", "output", "output", "io"))
    edges.append((nodes[-2].name, "output"))
    return GraphView(tuple(nodes), tuple(edges))


STRANGE = [
    "a->b", "{x|y}", "<b>bold</b>", "<x>", 'say "hi"', "back\\slash \\n \\N", "line\nbreak", "tab\there", "emoji 🙂 層",
    "a,a->a", "", "&amp; &lt;", "}]);//", "%s %d", "x" * 300, "naïve", "''", "`code`", "${x}", "c:n",
]  # fmt: skip
"""Labels that have broken other pictures."""


def strange() -> GraphView:
    nodes = [
        NodeView(f"n{i}", "call_method", text, "other", modules=((f"m{i}", text),)) for i, text in enumerate(STRANGE)
    ]
    nodes += [NodeView(f"p{i}", "placeholder", text, "io") for i, text in enumerate(STRANGE)]
    edges = [(f"p{i}", f"n{i}") for i in range(len(STRANGE))]
    return GraphView(tuple(nodes[len(STRANGE) :] + nodes[: len(STRANGE)]), tuple(edges))
