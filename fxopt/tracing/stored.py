"""Captures kept on disk: the graph, its metadata and the report, without weights, read back onto the same model."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import io
import logging
import os
import pickle
import platform
import re
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import CodeGen
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_flatten

from fxopt.graph.fingerprint import describe, has_default_repr
from fxopt.recording.node_record import NodeRecord, Ref
from fxopt.tracing.assemble import assembled, at_path, targets_of
from fxopt.tracing.installed_checks import install_checks
from fxopt.tracing.ladder import Progress, capture
from fxopt.tracing.report import CaptureReport

MOST_FILES = 64
"""So many captures are kept; the one that was made first goes first."""

_LOG = logging.getLogger(__name__)
_SUFFIX = ".capture"
_DIGEST_BYTES = 16


class CaptureStore:
    """Captures of models that are built anew with the same weights, in a folder of the user's own.

    A capture is taken from the folder only for the very model, example and code that it was made with: the sources of
    fxopt and of the model's classes, and the versions of torch, transformers and Python. A file that is damaged, or a
    folder that others may write to, is passed over, and the model is captured.

    Args:
        folder: it is made where there is none. The files are pickles, so only the user may write to it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"CaptureStore({str(self.folder)!r})"

    @classmethod
    def of_this_user(cls) -> CaptureStore:
        """Return the store of the page and the command: in the environment's `FXOPT_CACHE`, or in the user's cache."""
        given = os.environ.get("FXOPT_CACHE")
        if given:
            return cls(Path(given) / "captures")
        import platformdirs  # for the page and the command alone: passes and capture do without

        return cls(platformdirs.user_cache_path("fxopt") / "captures")

    def capture(
        self,
        name: str,
        model: nn.Module,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> GraphModule:
        """Return the capture that is kept, or capture `model` and keep that.

        Args:
            name: the name of the model and its weights, which the file begins with.
            args, kwargs, progress: see `fxopt.capture`.

        Raises:
            ValueError: `name` is more than letters, digits, spaces, commas, dots, hyphens and underscores.
            CaptureError, CaptureCancelledError, InputError: see `fxopt.capture`.
        """
        if not re.fullmatch(r"[\w ,.-]+", name):
            raise ValueError(f"{name!r} cannot begin the name of a file: use letters, digits, spaces and hyphens alone")
        key = _key(model, args, kwargs or {})
        file = self.folder / f"{name} {key}{_SUFFIX}"
        kept = self._read(file, model) if key else None
        if kept is not None:
            return kept
        gm = capture(model, args, kwargs, progress=progress)
        if key:
            self._keep(file, gm, model)
        return gm

    def _read(self, file: Path, model: nn.Module) -> GraphModule | None:
        try:
            if not file.is_file() or not _is_private(self.folder):
                return None
            data = file.read_bytes()
            digest, content = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
            if digest != _digest(content):
                raise ValueError("it is damaged")
            return _graph_module(content, model)
        except Exception as error:  # noqa: BLE001  a file that cannot be read is made anew
            _LOG.warning("fxopt: %s is passed over: %s", file, error)
            return None

    def _keep(self, file: Path, gm: GraphModule, model: nn.Module) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.folder):
                raise PermissionError(f"others may write to {self.folder}")
            content = _content(gm, model)
            if _lines(_graph_module(content, model)) != _lines(gm):
                raise ValueError("it would be read back as another graph")
            handle, temporary = tempfile.mkstemp(dir=self.folder)
            with os.fdopen(handle, "wb") as stream:
                stream.write(_digest(content) + content)
            os.replace(temporary, file)
            self._bound()
        except Exception as error:  # noqa: BLE001  the capture is there; to keep it saves time only
            _LOG.warning("fxopt: the capture %s is not kept: %s", file.name, error)

    def _bound(self) -> None:
        files = sorted(self.folder.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
        for file in files[:-MOST_FILES]:
            file.unlink(missing_ok=True)


@dataclass(frozen=True)
class _Kept:
    """The content of a file."""

    nodes: tuple[NodeRecord, ...]
    values: dict[str, Any]
    """The modules and tensors of the graph by target; those of the model are named by their paths."""
    report: CaptureReport


def _content(gm: GraphModule, model: nn.Module) -> bytes:
    if type(gm.graph._codegen) is not CodeGen:
        raise ValueError(f"its code is generated by {type(gm.graph._codegen).__name__}")
    values = {target: at_path(gm, target) for target in targets_of(gm.graph)}
    kept = _Kept(tuple(map(NodeRecord.of, gm.graph.nodes)), values, gm.meta["fxopt"])
    stream = io.BytesIO()
    _Pickler(stream, model).dump(kept)
    return stream.getvalue()


def _graph_module(content: bytes, model: nn.Module) -> GraphModule:
    kept: _Kept = _Unpickler(io.BytesIO(content), model).load()
    graph = Graph()
    nodes: dict[str, Node] = {}

    def named(value: Any) -> Any:
        return nodes[value.name] if isinstance(value, Ref) else value

    for record in kept.nodes:
        call = record.call
        args, kwargs = map_aggregate(call.args, named), map_aggregate(call.kwargs, named)
        node = graph.create_node(call.op, call.target, args, kwargs, record.name, record.type)
        node.meta.update(record.meta)
        nodes[record.name] = node
    gm = assembled(graph, model, kept.values)
    gm.meta["fxopt"] = kept.report
    install_checks(gm)
    return gm


def packed(gm: GraphModule, model: nn.Module | None = None) -> bytes:
    """Return a captured graph with its metadata and weights, for another process of one's own (`unpacked`).

    With the `model` that it was captured from, modules and weights are left out which that process has as well.

    Raises:
        ValueError, pickle.PicklingError, TypeError, AttributeError: it cannot be packed.
    """
    return _content(gm, model if model is not None else nn.Module())


def unpacked(content: bytes, model: nn.Module | None = None) -> GraphModule:
    """Return the graph of `packed`. It is a pickle: only one that this user's own process has made may be read."""
    return _graph_module(content, model if model is not None else nn.Module())


class _Pickler(pickle.Pickler):
    """Writes the path of each module and tensor of the model in its place."""

    def __init__(self, stream: io.BytesIO, model: nn.Module) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self._paths: dict[int, str] = {}
        for path, value in _members(model):
            self._paths.setdefault(id(value), path)

    def persistent_id(self, value: Any) -> str | None:
        return self._paths.get(id(value)) if isinstance(value, nn.Module | torch.Tensor) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream: io.BytesIO, model: nn.Module) -> None:
        super().__init__(stream)
        self._model = model

    def persistent_load(self, path: str) -> Any:
        return at_path(self._model, path)


def _members(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the modules of `model`, and all tensors that are attributes of them, by path."""
    for path, module in model.named_modules():
        if path:
            yield path, module
        tables = (module._parameters, module._buffers, module.__dict__)
        for name, value in (item for table in tables for item in table.items()):
            if isinstance(value, torch.Tensor):
                yield f"{path}.{name}".lstrip("."), value


def _lines(gm: GraphModule) -> list[str]:
    """Return all that makes two graph modules of the same model the same."""
    modules = [f"{path} {type(module).__qualname__} {module.training}" for path, module in gm.named_modules()]
    tensors = [f"{name} {id(value)}" for name, value in _members(gm) if isinstance(value, torch.Tensor)]
    return [*map(describe, gm.graph.nodes), gm.code, *modules, *tensors, repr(gm.meta["fxopt"])]


def _key(model: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return a digest of all that a capture depends on but the weights; "" where that cannot be said."""
    sources = _sources(model)
    if sources is None:
        return ""
    lines = [code_version(), *sources, str(getattr(model, "config", ""))]
    for path, module in model.named_modules():
        kind = type(module)
        lines.append(f"{path} {kind.__module__}.{kind.__qualname__} {module.training} {module.extra_repr()}")
    first: dict[int, str] = {}
    for path, value in _members(model):
        if isinstance(value, torch.Tensor):
            lines.append(f"{path} {_described(value)} {first.setdefault(id(value), path)}")
    leaves, structure = tree_flatten((tuple(args), dict(kwargs)))
    lines.append(str(structure))
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
            content = leaf.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
            lines.append(f"{_described(leaf)} {_digest(content).hex()}")
        elif has_default_repr(leaf) or isinstance(leaf, torch.Tensor):
            return ""
        else:
            lines.append(repr(leaf))
    return _digest("\n".join(lines).encode()).hex()


def _described(tensor: torch.Tensor) -> str:
    return f"{type(tensor).__name__} {tensor.dtype} {tuple(tensor.shape)} {tensor.device} {tensor.requires_grad}"


@functools.cache
def code_version() -> str:
    """Return the versions and the sources that captures depend on."""
    versions = (platform.python_version(), torch.__version__, _version("transformers"))
    root = Path(__file__).parents[1]
    folders = ("graph", "process", "recording", "tracing")
    sources = (file.read_bytes() for folder in folders for file in sorted((root / folder).glob("*.py")))
    return f"{versions} {_digest(b''.join(sources)).hex()}"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _sources(model: nn.Module) -> list[str] | None:
    """Return digests of the files of the model's classes, but for torch's own; None where a class is in no file."""
    names = {type(module).__module__ for module in model.modules()}
    files = {str(getattr(sys.modules.get(name), "__file__", "")) for name in names if not name.startswith("torch.")}
    if "" in files:
        return None
    return [f"{file} {_digest(Path(file).read_bytes()).hex()}" for file in sorted(files)]


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _is_private(folder: Path) -> bool:
    """Return whether the user alone may write to `folder`: a pickle can run code."""
    found = folder.stat()
    return os.name == "nt" or (found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
