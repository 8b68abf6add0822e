"""Pickle support for the ledger: torch retraces a graph module on load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from torch.fx import Graph, GraphModule, Tracer

from fxopt.errors import RewriteError
from fxopt.graph.index import GraphIndex
from fxopt.graph.marks import LEDGER
from fxopt.graph.nodes import target_name
from fxopt.recording.node_changes import SetCall
from fxopt.recording.node_record import Call, NodeRecord, can_be_pickled


@dataclass(frozen=True)
class NotSaved:
    """Stands for a transformation whose class cannot be pickled: its patch can be undone, but not done again."""

    name: str

    def run_again(self, index: GraphIndex, sites: set[str]) -> set[str]:
        return set()


@dataclass(frozen=True)
class SavedNode:
    """A node as it was: pickling a graph module traces it again, which loses names, metadata and forms of calls."""

    record: NodeRecord
    target: str


class BufferTracer(Tracer):
    """Traces a pickled graph module again, and keeps the calls that read buffers alone, which torch computes instead.

    A few functions, as `torch.as_tensor`, take no proxy. A graph that gives a buffer to one is traced as torch does.
    """

    proxy_buffer_attributes = True

    def trace(self, *args: Any, **kwargs: Any) -> Graph:
        try:
            return super().trace(*args, **kwargs)
        except Exception:  # noqa: BLE001 - whatever such a function refuses a proxy with; another error comes back below
            self.proxy_buffer_attributes = False
            return super().trace(*args, **kwargs)


def choose_tracer(gm: GraphModule) -> None:
    """Let `BufferTracer` trace a pickle of `gm` while patches are in force, unless it has a tracer of its own."""
    old, new = ((None, Tracer), BufferTracer) if LEDGER in gm._modules else ((BufferTracer,), Tracer)
    for holder in (gm.graph.__dict__, gm.__dict__):  # a deep copy takes that of the graph, and a pickle the other
        if holder.get("_tracer_cls") in old:
            holder["_tracer_cls"] = new


def saved_nodes(gm: GraphModule) -> list[SavedNode]:
    saved = []
    for node in gm.graph.nodes:
        record = NodeRecord.of(node)
        if not can_be_pickled(record.call):
            record = replace(record, call=Call(node.op, None, (), {}))  # the traced one will do
        saved.append(SavedNode(record, _last_part(target_name(node))))
    return saved


def adopt(gm: GraphModule, saved: list[SavedNode]) -> None:
    """Give the nodes of a graph module that was just loaded their state of before."""
    nodes = list(gm.graph.nodes)
    found = [(node.op, _last_part(target_name(node))) for node in nodes]
    if found != [(known.record.call.op, known.target) for known in saved]:
        raise RewriteError(
            "this graph module was loaded from a pickle, and its nodes differ from those that were saved, so nothing "
            "can be reversed in it. Reverse it before saving."
        )
    names = gm.graph._graph_namespace._used_names
    for node, known in zip(nodes, saved):
        names.discard(node.name)
        node.name = known.record.name
        node.meta.update(known.record.meta)
    names.update(known.record.name for known in saved)
    index = GraphIndex(gm)
    for node, known in zip(nodes, saved):
        if known.record.call.target is not None:
            SetCall(node.name, Call.of(node), known.record.call).apply(index)


def _last_part(target: str) -> str:
    return target.rpartition(".")[2]
