"""The cost of rules: `python tests/benchmarks/bench_rules.py`.

CPU time on one thread, as in ``bench_core.py``. Printed are medians, and ratios over paired rounds with an interval.

- scan: microseconds a node and a site, where a sixth of all nodes are sites, of a rule for modules and two without;
- time of four times as many nodes: 4 is linear;
- siblings: linears on one input, for a rule with ``*linears``, likewise.
"""

import statistics
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule

from fxopt.core import GraphIndex
from tests.benchmarks.bench_core import ROUNDS, interval, seconds
from tests.rules.rules import fold_scale, merge, relu_once, use_silu


def chain(blocks: int) -> GraphModule:
    """Blocks of six nodes, with a site for each rule in every one."""
    root, graph = nn.Module(), Graph()
    x = graph.placeholder("x", type_expr=torch.Tensor)
    for i in range(blocks):
        root.add_module(f"l{i}", nn.Linear(4, 4))
        x = graph.call_function(torch.mul, (graph.call_module(f"l{i}", (x,)), 2.0))
        x = graph.call_function(torch.relu, (graph.call_function(torch.relu, (x,)),))
        x = graph.call_function(torch.mul, (x, graph.call_function(torch.sigmoid, (x,))))
    graph.output(x)
    return GraphModule(root, graph).eval()


def siblings(linears: int) -> GraphModule:
    root, graph = nn.Module(), Graph()
    x = graph.placeholder("x", type_expr=torch.Tensor)
    for i in range(linears):
        root.add_module(f"l{i}", nn.Linear(4, 4))
    graph.output([graph.call_function(torch.relu, (graph.call_module(f"l{i}", (x,)),)) for i in range(linears)])
    return GraphModule(root, graph).eval()


def scans(rule: Any, small: GraphModule, large: GraphModule) -> None:
    sites = len(rule.scan(large).matches)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for found, gm in zip(times, (small, large)):
            found.append(seconds(lambda g=gm: rule.scan(GraphIndex(g))))
    took = 1e6 * statistics.median(times[1])
    grown = interval([b / a for a, b in zip(*times)])
    print(f"{rule.name:12s} scan {took / len(large.graph.nodes):6.1f} us a node, {took / sites:8.1f} us a site   "
          f"4 times as large: x{grown}", flush=True)  # fmt: skip


if __name__ == "__main__":
    torch.set_num_threads(1)
    small, large = chain(400), chain(1600)
    for rule in (fold_scale, use_silu, relu_once):
        scans(rule, small, large)
    scans(merge.with_options(most=10**6), siblings(400), siblings(1600))
