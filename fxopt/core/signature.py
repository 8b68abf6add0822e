"""Signatures of transformations: digests that are the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import reprlib
from collections.abc import Iterable, Mapping, Set
from typing import Any

import torch

from fxopt.graph.fingerprint import has_default_repr


class Signed:
    """A thing that is known by its class and its public attributes."""

    @property
    def signature(self) -> str:
        """A digest of the class and the instance's attributes, the same in every process and on every machine."""
        kind = type(self)
        state = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        return digest(f"{kind.__module__}.{kind.__qualname__}", state)

    def __repr__(self) -> str:
        state = [f"{name}={_short(value)}" for name, value in vars(self).items() if not name.startswith("_")]
        return f"{type(self).__name__}({', '.join(state)})"


def _short(value: Any) -> str:
    """Return the repr of a value in one line, its middle left out where it is long."""
    return " ".join(reprlib.repr(value).split())


def digest(name: str, state: Mapping[str, Any]) -> str:
    """Return the signature of a thing with this name and these attributes."""
    text = "\n".join([name, *(f"{key}={_canonical(state[key])}" for key in sorted(state))])
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> str:
    """Return `value` as text that tells different values apart, 1 from 1.0 and True too, and is the same everywhere."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, torch.Tensor):
        data = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        return f"{kind}({tuple(value.shape)},{value.dtype},{hashlib.sha256(data).hexdigest()})"
    if isinstance(value, Signed):
        return f"{kind}({value.signature})"
    if isinstance(value, Mapping):
        items = sorted(f"{_canonical(key)}:{_canonical(item)}" for key, item in value.items())
        return f"{kind}({','.join(items)})"
    if isinstance(value, Set):
        return f"{kind}({','.join(sorted(map(_canonical, value)))})"
    if isinstance(value, str | bytes):
        return f"{kind}({value!r})"
    if isinstance(value, Iterable):
        return f"{kind}({','.join(map(_canonical, value))})"
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if has_default_repr(value):
        return f"{kind}({_canonical(vars(value)) if hasattr(value, '__dict__') else ''})"
    return f"{kind}({value!r})"
