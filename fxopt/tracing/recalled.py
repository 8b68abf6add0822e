"""Inputs for a graph that comes without an example, from the shapes that its inputs are known to have."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule

from fxopt.graph.nodes import TensorInfo, info_of
from fxopt.tracing.checks import InputError
from fxopt.tracing.report import CaptureReport


def recalled_inputs(gm: GraphModule) -> dict[str, Any]:
    """Return inputs by name as large as those that `gm` was captured with: the same on each call.

    Real ones are random. Whole numbers are 0, an index that every table has; a mask is 1 or True, and hides nothing.

    Raises:
        InputError: the shape of an input is unknown.
    """
    report = gm.meta.get("fxopt")
    sizes = report.example if isinstance(report, CaptureReport) else {}
    generator = torch.Generator().manual_seed(0)
    found: dict[str, Any] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        info = info_of(node)
        shape = _shape(info, sizes) if isinstance(info, TensorInfo) else None
        if info is None or shape is None:
            raise InputError(f"the shape of the input {node.target} is unknown; give an example of the inputs")
        name = str(node.target)
        if info.dtype.is_floating_point or info.dtype.is_complex:
            found[name] = torch.randn(shape, generator=generator).to(info.device, info.dtype)
        else:
            is_mask = info.dtype is torch.bool or "mask" in name
            found[name] = torch.full(shape, int(is_mask), dtype=info.dtype, device=info.device)
    return found


def _shape(info: TensorInfo, sizes: dict[str, int]) -> list[int] | None:
    shape = [size if isinstance(size, int) else sizes.get(size) for size in info.shape]
    known = [size for size in shape if size is not None]
    return known if len(known) == len(shape) else None
