"""Is this graph module the same, to the last bit?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule, Node

from fxopt.errors import expect_graph
from fxopt.graph.marks import LEDGER
from fxopt.graph.nodes import target_name
from fxopt.graph.tensor_state import TensorState, counts_writes

_INFO = "tensor_info"

_Known = tuple[torch.Tensor, torch.UntypedStorage, TensorState, str]


class Fingerprint:
    """Digests of graph modules, with those of tensors remembered while they are unchanged.

    A tensor's digest is remembered by identity, memory and version, which every in-place operation raises, so only
    tensors that are new or were written to are read again.

    Args:
        like: begins with the digests that this one remembers.
    """

    def __init__(self, like: Fingerprint | None = None) -> None:
        self._known: dict[int, _Known] = {} if like is None else {**like._known}

    def __repr__(self) -> str:
        return f"Fingerprint({len(self._known)} tensors read)"

    def has_read(self, gm: GraphModule) -> bool:
        """Return whether the digest of every parameter and buffer of `gm` is remembered and holds. Reads no tensor."""
        return all(self._remembered(tensor) is not None for tensor in (*gm.parameters(), *gm.buffers()))

    def of(self, gm: GraphModule, *, portable: bool = False) -> str:
        """Return a digest of all that a reverse has to bring back.

        That is: node names, order, ops, targets, arguments, types and metadata; generated code; module tree and its
        order; and of each parameter and buffer its name, bytes, shape, strides, dtype, device, ``requires_grad`` and
        ties.

        Args:
            portable: leave out all that depends on the place of the model's source: the files, lines and Python modules
                that it stands in. So the digest is the same on another machine, and for a class run as a script.
        """
        expect_graph(gm, "fxopt.fingerprint")
        digest = hashlib.blake2b(digest_size=16)
        for line in self._lines(gm, portable):
            digest.update(line.encode(errors="surrogatepass"))
            digest.update(b"\n")
        return digest.hexdigest()

    def _lines(self, gm: GraphModule, portable: bool) -> Iterator[str]:
        for node in gm.graph.nodes:
            yield _described(node, {_INFO: node.meta.get(_INFO)}) if portable else describe(node)
        if not portable:
            yield gm.code
        seen: dict[int, str] = {}
        for path, module in gm.named_modules(remove_duplicate=False):
            if path == LEDGER:
                continue
            kind = type(module).__qualname__
            kind = kind if portable else f"{type(module).__module__}.{kind}"
            yield f"{path} {kind} {module.training} {module.extra_repr()}"
            for role, table in (("parameter", module._parameters), ("buffer", module._buffers)):
                for name, tensor in table.items():
                    full = f"{path}.{name}"
                    if tensor is None:
                        yield f"{role} {full} None"
                        continue
                    first = seen.setdefault(id(tensor), full)
                    yield f"{role} {full} {self._tensor(tensor) if first == full else f'is {first}'}"

    def _tensor(self, tensor: torch.Tensor) -> str:
        content = self._remembered(tensor)
        if content is None:
            content = _content(tensor)
            if counts_writes(tensor):  # the storage is kept, so that its address is not given to another one
                self._known[id(tensor)] = (tensor, tensor.untyped_storage(), TensorState.of(tensor), content)
        layout = f"{tuple(tensor.shape)} {tensor.stride() if tensor.layout == torch.strided else tensor.layout}"
        return f"{type(tensor).__name__} {tensor.dtype} {tensor.device} {layout} {tensor.requires_grad} {content}"

    def _remembered(self, tensor: torch.Tensor) -> str | None:
        """Return the digest of the numbers of `tensor`, if it is remembered and holds."""
        known = self._known.get(id(tensor))
        if known is None or known[0] is not tensor or known[2] != TensorState.of(tensor):
            return None
        return known[3]


def fingerprint(gm: GraphModule) -> str:
    """Return a digest of all that a reverse has to bring back; see `Fingerprint.of`."""
    return Fingerprint().of(gm)


def describe(node: Node) -> str:
    """Return a node as text: everything about it, the same in every process."""
    return f"{_described(node, {str(key): value for key, value in node.meta.items()})} {node.type}"


def _described(node: Node, facts: Mapping[str, Any]) -> str:
    return (
        f"{node.name} {node.op} {target_name(node)} {_text(node.args)} {_text(node.kwargs)} "
        f"{ {key: _text(facts[key]) for key in sorted(facts)} }"
    )


def has_default_repr(value: object) -> bool:
    """Return whether the repr of `value` is that of `object`, which holds an address and so differs from run to run."""
    return type(value).__dict__.get("__repr__", type(value).__repr__) == object.__repr__


def _text(value: Any) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, torch.Tensor):
        return f"Tensor({tuple(value.shape)},{value.dtype})"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__.removeprefix('immutable_')}({','.join(map(_text, value))})"
    if isinstance(value, dict):
        return f"dict({','.join(f'{_text(key)}:{_text(item)}' for key, item in value.items())})"
    if isinstance(value, slice):
        return f"slice({_text(value.start)},{_text(value.stop)},{_text(value.step)})"
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, nn.Module) or has_default_repr(value):
        return f"{type(value).__module__}.{type(value).__qualname__}"
    return f"{type(value).__name__}({value!r})"


def _content(tensor: torch.Tensor) -> str:
    if tensor.is_meta:
        return "meta"
    data = tensor.detach().cpu()
    if data.layout != torch.strided:
        data = data.to_dense()
    flat = data.contiguous().flatten()
    return hashlib.blake2b(flat.view(torch.uint8).numpy().data, digest_size=16).hexdigest()
