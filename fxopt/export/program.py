"""A graph module as an exported program of torch (``.pt2``) or as ONNX, with its free sizes."""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves, tree_map

from fxopt.errors import expect, expect_graph, warn
from fxopt.evidence.difference import same_bits
from fxopt.evidence.running import copied, run
from fxopt.export.errors import ExportError
from fxopt.export.spelling import why_packed_stays
from fxopt.graph.nodes import TensorInfo, info_of
from fxopt.packed.layer import PackedLayer
from fxopt.tracing.installed_checks import without_checks

PT2 = "a program of torch.export"
_ONNX = ("onnx", "onnxscript")


def export_program(
    gm: GraphModule, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> torch.export.ExportedProgram:
    """Return a graph module as an exported program, whose sizes are free where those of the graph are.

    It is run beside the graph module on copies of the example, with the same random draws, and has to give the same
    bits. Left out are the marks of passes and the way back, and the checks of inputs.

    >>> import fxopt
    >>> gm = fxopt.capture(torch.nn.Linear(4, 3), (torch.rand(2, 4),))
    >>> export_program(gm, (torch.rand(2, 4),)).module()(torch.rand(7, 4)).shape
    torch.Size([7, 3])

    Args:
        gm: the graph module, as captured and transformed. It is not changed.
        args, kwargs: an example of its inputs. It is not changed.

    Raises:
        ExportError: torch cannot export it, a layer is packed (see `PackLinears`), or the program gives other numbers.

    Warns:
        FxoptWarning: torch has fixed a size that is free in the graph.
    """
    expect_graph(gm, "export_program")
    expect(args, tuple | list, "export_program(gm, args)", "the positional arguments as a tuple or list")
    packed = [f"{path}: {why_packed_stays(one)}" for path, one in gm.named_modules() if isinstance(one, PackedLayer)]
    if packed:
        raise ExportError(packed, PT2)
    named = dict(kwargs or {})
    plain = without_checks(gm)
    _expect_example(plain, tuple(args), named)
    shapes = _dynamic_shapes(gm, tuple(args), named)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # torch warns of its own doings
            example, example_by_name = copied((tuple(args), named))
            program = torch.export.export(plain, example, example_by_name, dynamic_shapes=shapes)
            found, expected = run(program.module(), tuple(args), named), run(plain, tuple(args), named)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise ExportError([f"torch.export refuses the graph: {type(error).__name__}: {first}"], PT2) from error
    _say_what_is_fixed(gm, program)
    if not _same_tensors(expected, found):
        raise ExportError(["the exported program computes other numbers than the graph on the example"], PT2)
    return program


def program_bytes(gm: GraphModule, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> bytes:
    """Return the content of the ``.pt2`` file of `export_program`, for ``torch.export.load``.

    Raises:
        ExportError: see `export_program`.
    """
    content = io.BytesIO()
    program = export_program(gm, args, kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, content)
    return content.getvalue()


def export_onnx(
    gm: GraphModule, file: str | os.PathLike[str], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Path:
    """Write a graph module as ONNX, whose sizes are free where those of the graph are.

    Args:
        gm: the graph module, as captured and transformed. It is not changed.
        file: to write; it ends in ``.onnx``.
        args, kwargs: an example of its inputs.

    Raises:
        ExportError: onnx or onnxscript is not installed, an operation has no form in ONNX, or the file cannot be
            written; see also `export_program`.
    """
    missing = [name for name in _ONNX if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError([f"ONNX needs {' and '.join(missing)}: pip install {' '.join(_ONNX)}"], "ONNX")
    target = Path(file)
    program = export_program(gm, args, kwargs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = torch.onnx.export(program, dynamo=True, verbose=False)
            assert made is not None, "without a file, torch returns the program"
            made.save(str(target))
    except OSError as error:
        raise ExportError([f"{target} cannot be written ({error.strerror})"], "ONNX") from None
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise ExportError([f"torch.onnx refuses the graph: {type(error).__name__}: {first}"], "ONNX") from error
    return target


def _expect_example(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        inspect.signature(gm.forward).bind(*args, **kwargs)
    except TypeError as error:
        names = ", ".join(str(node.target) for node in gm.graph.find_nodes(op="placeholder"))
        remedy = f"its inputs are ({names}); give one of each, such as export_program(gm, args=(...), kwargs={{...}})"
        raise ExportError([f"the example does not fit the graph: {error}; {remedy}"], PT2) from None


def _dynamic_shapes(gm: GraphModule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the sizes that may be free, in the form of `torch.export.export`: those that are free in the graph."""
    infos = {str(node.target): info_of(node) for node in gm.graph.find_nodes(op="placeholder")}
    by_name = {**dict(zip(infos, args)), **kwargs}
    automatic = torch.export.Dim.AUTO

    def free(value: Any, info: Any) -> Any:
        if isinstance(value, torch.Tensor) and isinstance(info, TensorInfo):
            return {i: automatic for i, size in enumerate(info.shape) if isinstance(size, str)}
        return tree_map(lambda leaf: [automatic] * leaf.dim() if isinstance(leaf, torch.Tensor) else None, value)

    return {name: free(value, infos.get(name)) for name, value in by_name.items()}


def _say_what_is_fixed(gm: GraphModule, program: torch.export.ExportedProgram) -> None:
    """Warn of sizes that are free in the graph, and that torch has fixed."""
    infos = {str(node.target): info_of(node) for node in gm.graph.find_nodes(op="placeholder")}
    for node in program.graph.find_nodes(op="placeholder"):
        info, value = infos.get(node.name), node.meta.get("val")
        if isinstance(info, TensorInfo) and isinstance(value, torch.Tensor):
            for i, (size, now) in enumerate(zip(info.shape, value.shape)):
                if isinstance(size, str) and isinstance(now, int):
                    warn(f"{size}, size {i} of {node.name}, is fixed at {now} in the exported program")


def _same_tensors(one: Any, other: Any) -> bool:
    """Check that two outputs hold the same tensors, bit by bit: infinities and NaN are told apart too."""
    ones, others = _tensors(one), _tensors(other)
    return len(ones) == len(others) and all(map(same_bits, ones, others))


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
