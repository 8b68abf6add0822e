"""Shape propagation: fill in ``tensor_info`` for a graph that was not recorded, by one run on fake tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch.fx import GraphModule, Interpreter, Node

from fxopt.process.fake_tensors import fake_mode, quiet
from fxopt.tracing.hygiene import preserved
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.node_values import Snapshot, finished, snapshot
from fxopt.tracing.size_names import SizeNames
from fxopt.tracing.sizes import Dynamic, Sizes


@dataclass(frozen=True, eq=False)
class Propagated:
    """The names of the sizes if they could stay symbolic, or the reason for fixed ones."""

    names: SizeNames | None = None
    reason: str = ""


def fill_in_shapes(gm: GraphModule, inputs: Inputs, dynamic: Dynamic) -> Propagated:
    """Set ``tensor_info`` of all nodes of `gm`: with symbolic sizes, else with the example's, else leave it unset."""
    reason = ""
    attempts: list[Sizes | None] = [None] if dynamic == "none" else [Sizes(inputs, dynamic), None]
    for sizes in attempts:
        values: dict[Node, Snapshot] = {}
        try:
            _run(gm, inputs, sizes, values)
        except Exception as error:  # noqa: BLE001  torch raises much; shapes are a help, not a must
            reason = f"shapes stop at {next(reversed(values), None)}: {type(error).__name__}: {error}"
            reason = reason.splitlines()[0]
        else:
            names = SizeNames(sizes) if sizes is not None else None
            write_infos(values, names.text if names is not None else int)
            return Propagated(names, reason)
        finally:
            if sizes is not None:
                sizes.release()
    write_infos(values, int)
    return Propagated(None, reason)


def write_infos(values: dict[Node, Snapshot], text: Callable[[Any], int | str]) -> None:
    for node, value in values.items():
        info = finished(value, text)
        if info is not None:
            node.meta["tensor_info"] = info


def _run(gm: GraphModule, inputs: Inputs, sizes: Sizes | None, values: dict[Node, Snapshot]) -> None:
    mode = fake_mode(sizes.env if sizes else None)
    tensors = [
        sizes.fake(mode, each, tensor) if sizes else mode.from_tensor(tensor)
        for each, tensor in zip(inputs.tensors, inputs.copies())
    ]
    args, kwargs = inputs.call(tensors)
    by_name = dict(zip((argument.name for argument in inputs.arguments), _in_order(inputs, args, kwargs)))
    given = [by_name[str(node.target)] for node in gm.graph.find_nodes(op="placeholder") if node.target in by_name]
    with quiet(), preserved(gm), mode, enable_python_dispatcher(), torch.no_grad():
        _Recorder(gm, values).run(*given)


def _in_order(inputs: Inputs, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    positional = iter(args)
    return [next(positional) if argument.keyword is None else kwargs[argument.keyword] for argument in inputs.arguments]


class _Recorder(Interpreter):
    def __init__(self, gm: GraphModule, values: dict[Node, Snapshot]) -> None:
        super().__init__(gm)
        self.values = values

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        self.values[n] = snapshot(value)
        return value
