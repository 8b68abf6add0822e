"""Means by which the laws try a pass: files, a failure midway, and the state of the world around."""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from fxopt.core import (
    Pass,
    Rewriter,
)


def pickled(thing: Any) -> Any:
    with warnings.catch_warnings():
        # torch tells of the way in which it pickles quantized tensors itself
        warnings.filterwarnings("ignore", "TypedStorage is deprecated", UserWarning)
        return pickle.loads(pickle.dumps(thing))


def failing(pass_: Pass[Any], last: int) -> Pass[Any]:
    """Return a twin of `pass_` that raises in the middle of a rewrite, at the edit number `last`."""
    kind, signature, made = type(pass_), pass_.signature, 0

    class Failing(kind):  # type: ignore[misc,valid-type]
        @property
        def signature(self) -> str:
            return signature

        def rewrite(self, match: Any, rewriter: Rewriter) -> None:
            do = rewriter._do

            def count(change: Any) -> None:
                nonlocal made
                made += 1
                do(change)
                if made == last:
                    raise ZeroDivisionError("on purpose")

            rewriter._do = count  # type: ignore[method-assign]
            kind.rewrite(self, match, rewriter)

    twin: Pass[Any] = object.__new__(Failing)
    twin.__dict__.update(vars(pass_))
    return twin


def world() -> dict[str, object]:
    """Return the state outside the graph, which a pass must leave alone."""
    state: Any = np.random.get_state(legacy=True)
    return {
        "the random numbers of torch": torch.get_rng_state().tolist(),
        "the random numbers of Python": random.getstate(),
        "the random numbers of numpy": [part.tolist() if isinstance(part, np.ndarray) else part for part in state],
        "the default dtype": torch.get_default_dtype(),
        "the number of threads": torch.get_num_threads(),
        "the grad mode": torch.is_grad_enabled(),
        "the warnings filters": list(warnings.filters),
        "the way modules are called": nn.Module.__call__,
    }
