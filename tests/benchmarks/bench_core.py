"""How the core scales: `python tests/benchmarks/bench_core.py`.

CPU time on one thread. Printed are medians; for ratios the median over paired rounds with a bootstrap interval of 95 %.

- scan: microseconds a node a pass, on a chain of linears, activations, divisions and batch norms;
- time(64k nodes) / time(16k nodes) for scan, apply and reverse of each pass: 4 is linear;
- `compose(..., inplace=False)` against `copy.deepcopy` and the pass in place, on a BERT of base size;
- 4,000 linears on one input, for the passes that look at siblings.
"""

import copy
import gc
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule

import fxopt
from fxopt import ALL_PASSES, compose
from fxopt.core import GraphIndex

ROUNDS = int(os.environ.get("ROUNDS", "7"))


def chain(nodes: int) -> GraphModule:
    """Blocks of eight nodes, with something for each pass in every one."""
    root, graph = nn.Module(), Graph()
    x = graph.placeholder("x", type_expr=torch.Tensor)
    for i in range(nodes // 8):
        block = nn.Module()
        root.add_module(f"b{i}", block)
        for name in ("q", "k", "v"):
            block.add_module(name, nn.Linear(4, 4))
        block.add_module("norm", nn.BatchNorm1d(4))
        q, k, v = (graph.call_module(f"b{i}.{name}", (x,)) for name in ("q", "k", "v"))
        both = graph.call_function(torch.add, (q, k))
        divided = graph.call_function(torch.div, (both, 8.0))
        x = graph.call_function(torch.add, (divided, graph.call_module(f"b{i}.norm", (v,))))
    graph.output(x)
    return GraphModule(root, graph).eval()


def seconds(act: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    act()
    return time.process_time() - start


def interval(ratios: list[float]) -> str:
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):.2f} [{medians[50]:.2f}, {medians[-51]:.2f}]"


def scaling() -> None:
    small, large = chain(16_000), chain(64_000)
    for kind in ALL_PASSES:
        pass_: Any = kind()
        times: dict[str, list[list[float]]] = {name: [[], []] for name in ("scan", "apply", "reverse")}
        for _ in range(ROUNDS):
            for which, gm in enumerate((small, large)):
                index = GraphIndex(gm)
                times["scan"][which].append(seconds(lambda p=pass_, i=index: p.scan(i)))
                times["apply"][which].append(seconds(lambda p=pass_, g=gm: p.transform(g)))
                times["reverse"][which].append(seconds(lambda p=pass_, g=gm: p.undo(g)))
        scan = 1e6 * statistics.median(times["scan"][1]) / len(large.graph.nodes)
        grown = "   ".join(
            f"{name} {statistics.median(t[1]):.2f} s, x{interval([b / a for a, b in zip(*t, strict=True)])}"
            for name, t in times.items()
        )
        print(f"{pass_.name:30s} scan {scan:5.1f} us a node   64k/16k: {grown}", flush=True)


def copies() -> None:
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(attn_implementation="eager")).eval()
    gm = fxopt.trace(model, input_names=["input_ids", "attention_mask"])
    aside = compose(fxopt.MergeLinears(), inplace=False)
    nothing = compose(fxopt.FuseBatchNorm2dInConv2d(), inplace=False)
    ratios: dict[str, list[float]] = {"MergeLinears": [], "the copy itself": []}
    for _ in range(ROUNDS):
        deep = seconds(lambda: copy.deepcopy(gm))
        ratios["MergeLinears"].append(deep / seconds(lambda: aside(gm, lint_and_recompile=False)))
        ratios["the copy itself"].append(deep / seconds(lambda: nothing(gm, lint_and_recompile=False)))
    for name, found in ratios.items():
        print(f"BERT-base, inplace=False ({name}): copy.deepcopy takes x{interval(found)} as long", flush=True)


def fan_out() -> None:
    root, graph = nn.Module(), Graph()
    x = graph.placeholder("x")
    for i in range(4000):
        root.add_module(f"l{i}", nn.Linear(4, 4))
    graph.output([graph.call_module(f"l{i}", (x,)) for i in range(4000)])
    gm = GraphModule(root, graph).eval()
    for kind in (fxopt.FuseBiasInLinear, fxopt.MergeLinears):
        pass_ = kind()
        there = [seconds(lambda p=pass_: p.transform(gm)) for _ in range(1)]
        back = seconds(lambda p=pass_: p.undo(gm))
        print(f"4,000 linears on one input, {pass_.name}: apply {there[0]:.2f} s, reverse {back:.2f} s", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    fan_out()
    copies()
    scaling()
