"""The checks of a captured graph on the inputs of each call: put on, and taken off for exporters.

They are a forward pre-hook, which a recompilation leaves in place; `deepcopy` of a graph module drops hooks, so a
deepcopy hook puts it back. Pickle drops both: call `install_checks` after loading, with the report in
``gm.meta["fxopt"]``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from fxopt.graph.copying import shared_copy
from fxopt.graph.marks import LEDGER
from fxopt.tracing.checks import CallInputs, LeftOutError


def check_inputs(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise `InputError` unless these are inputs that `gm` was captured for."""
    report = gm.meta.get("fxopt")
    if report is None or torch.compiler.is_compiling():
        return
    placeholders = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
    inputs = CallInputs(dict(zip(placeholders, args)) | kwargs)
    for check in report.checks:
        try:
            check.check(inputs)
        except LeftOutError:
            continue


def without_checks(gm: GraphModule) -> GraphModule:
    """Return the graph module as exporters and `torch.jit.script` are to see it: without the checks and the ledger.

    A script compiles hooks and children with the forward, and both use Python beyond its language; the checks would fix
    sizes of an exported program.
    """
    twin = shared_copy(gm)
    for key, hook in list(twin._forward_pre_hooks.items()):
        if hook is check_inputs:
            del twin._forward_pre_hooks[key]
            twin._forward_pre_hooks_with_kwargs.pop(key, None)
    twin._modules.pop(LEDGER, None)
    return twin


def install_checks(gm: GraphModule) -> None:
    """Check the inputs of each call of `gm`, and of its deep copies, against its capture report.

    Deep copies also keep a property that GraphModule forgets: which of its buffers are temporary.
    """
    gm._non_persistent_buffers_set |= set(gm.meta["fxopt"].temporary) & gm._buffers.keys()
    gm.register_forward_pre_hook(check_inputs, with_kwargs=True)
    type(gm).__prepare_scriptable__ = without_checks  # type: ignore[attr-defined]  # each graph module has a class of its own
    if not hasattr(gm, "_deepcopy_hooks"):  # before torch 2.8
        type(gm).__deepcopy__ = _deep_copied  # type: ignore[assignment]
    elif install_checks not in gm._deepcopy_hooks:
        gm._deepcopy_hooks.append(install_checks)


def _deep_copied(gm: GraphModule, memo: dict[int, Any]) -> GraphModule:
    copied: GraphModule = GraphModule.__deepcopy__(gm, memo)
    install_checks(copied)
    return copied
