"""Masks among the inputs, which models read as data: padded or all ones, a model may take another way."""

from __future__ import annotations

from collections.abc import Collection

import torch

from fxopt.tracing.inputs import Inputs, InputTensor


def masks_of(inputs: Inputs) -> list[InputTensor]:
    """Return the tensors called masks that hold zeros and ones only."""
    return [each for each in inputs.tensors if str(each.path).endswith("mask") and _is_zeros_and_ones(each.tensor)]


def _is_zeros_and_ones(tensor: torch.Tensor) -> bool:
    if tensor.device.type == "meta" or tensor.dim() < 2 or not tensor.numel() or tensor.layout != torch.strided:
        return False
    return tensor.dtype is torch.bool or bool(((tensor == 0) | (tensor == 1)).all())


def is_full(mask: torch.Tensor) -> bool:
    return bool((mask != 0).all())


def has_padding(mask: torch.Tensor, left: bool) -> bool:
    """Return whether a row begins (`left`) or ends with zero, and holds a one."""
    return bool(((mask[..., 0 if left else -1] == 0) & (mask != 0).any(-1)).any())


def filled(inputs: Inputs, masks: Collection[InputTensor]) -> Inputs:
    """Return `inputs` with these masks all ones."""
    paths = {each.path for each in masks}
    return inputs.with_tensors(
        [torch.ones_like(each.tensor) if each.path in paths else each.tensor for each in inputs.tensors]
    )


def padded(inputs: Inputs, masks: Collection[InputTensor], left: bool = False) -> Inputs:
    """Return `inputs` with these masks all ones, except for one zero that ends the last row, or begins it."""
    changed = filled(inputs, masks)
    for each in masks_of(changed):
        if any(each.path == mask.path for mask in masks):
            row = each.tensor.reshape(-1, each.tensor.shape[-1])[-1]  # a view: the tensor is fresh
            row[0 if left else -1] = 0
    return changed


def flipped(inputs: Inputs, masks: Collection[InputTensor]) -> Inputs:
    """Return inputs in which these masks are full instead of padded, or padded instead of full."""
    full = [mask for mask in masks if is_full(mask.tensor)]
    return padded(filled(inputs, masks), full)
