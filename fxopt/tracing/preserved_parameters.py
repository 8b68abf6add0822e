"""Parameters stay as they were where forward writes to them, as one that normalizes its prototypes in place does."""

from __future__ import annotations

import warnings

import torch
from torch import nn

from fxopt.graph.tensor_state import TensorState, is_plain, same_bytes

MOST_COPIED = 2**24
"""Bytes of the parameters of a model that are copied before each run, which takes some milliseconds.

Of larger ones only the version is kept: a write is told, and stays.
"""


class PreservedParameters:
    """The parameters of a model before a run; `bring_back` undoes the writes of the run."""

    def __init__(self, model: nn.Module) -> None:
        plain = [(name, parameter) for name, parameter in model.named_parameters() if is_plain(parameter)]
        copied = sum(parameter.nbytes for _, parameter in plain) <= MOST_COPIED
        self._before = [
            (name, parameter, parameter.data, TensorState.of(parameter), parameter.data.clone() if copied else None)
            for name, parameter in plain
        ]

    def bring_back(self) -> None:
        for name, parameter, data, state, copy in self._before:
            written = TensorState.of(parameter).version != state.version
            if TensorState.of(parameter).memory != state.memory:
                parameter.data = data
            if copy is not None and not same_bytes(data, copy):
                with torch.inference_mode(data.is_inference()), torch.no_grad():
                    data.copy_(copy)
            if copy is None and written:
                warnings.warn(
                    f"forward writes to the parameter {name}, and the model is too large to be copied before each run: "
                    "the parameter has changed; load the model again",
                    stacklevel=2,
                )
