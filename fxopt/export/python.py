"""A graph module as a Python file and a file of weights, which need torch alone."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from torch import nn
from torch.fx import GraphModule

from fxopt.edits import Probe
from fxopt.errors import expect, expect_graph
from fxopt.export.code import Forward, forward_of
from fxopt.export.errors import ExportError
from fxopt.export.spelling import UnspelledError, spelled
from fxopt.export.tensors import DTYPES, Tensors
from fxopt.graph.marks import LEDGER
from fxopt.graph.nodes import attribute_of, info_of
from fxopt.tracing.installed_checks import check_inputs

TEMPLATE = Path(__file__).parent / "template.txt"
_TAKEN = {
    *("Output", "Path", "json", "load", "nn", "torch", "dataclass", "namedtuple"),
    *("DTYPES", "STRIDES", "TENSORS", "WEIGHTS"),
}
"""The names of the exported file itself."""


@dataclass(frozen=True)
class Exported:
    """The files of an export, and remarks on it in sentences."""

    code: Path
    weights: Path
    remarks: tuple[str, ...]


def export_python(gm: GraphModule, folder: str | os.PathLike[str], name: str = "model") -> Exported:
    """Write a graph module as ``name.py`` and ``name.safetensors``, which rebuild it with torch alone.

    The file has a class with the code of the graph, and ``load()``, which returns it with its weights. Kept are names,
    also those that are numbers, the order of the state_dict, dtypes, strides, ties, constants, buffers outside the
    state, ``requires_grad`` and the mode. Left out are the marks of passes and the way back, and the checks of inputs.

    Args:
        gm: the graph module, as captured and transformed. It is not changed.
        folder: where to write; made if it is missing.
        name: of the files, an identifier.

    Raises:
        ExportError: a part cannot be written: a module that is no class of torch.nn or has hooks, code outside of
            torch, a sparse tensor. Nothing is written.
    """
    expect_graph(gm, "export_python")
    expect(folder, str | os.PathLike, "export_python(gm, folder)", "a path")
    expect(name, str, "export_python(name=...)", "a text")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise ExportError([f"{name!r} cannot be imported; give a name such as model"])
    tensors, forward = Tensors.of(gm), forward_of(gm)
    built, problems = _modules(gm)
    problems = [*problems, *tensors.problems, *forward.problems, *_others(gm)]
    if problems:
        raise ExportError(problems)
    text = _text(gm, name, built, tensors, forward)
    compile(text, f"{name}.py", "exec")
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target) as made:
            tensors.save(Path(made) / f"{name}.safetensors")
            (Path(made) / f"{name}.py").write_text(text, encoding="utf-8")
            shutil.copymode(Path(made) / f"{name}.py", Path(made) / f"{name}.safetensors")  # safetensors says 0600
            for file in (f"{name}.safetensors", f"{name}.py"):
                os.replace(Path(made) / file, target / file)
    except OSError as error:
        raise ExportError([f"{target} cannot be written ({error.strerror})"]) from None
    return Exported(target / f"{name}.py", target / f"{name}.safetensors", tuple(_remarks(gm, forward)))


def _modules(gm: GraphModule) -> tuple[list[str], list[str]]:
    """Return the lines that build the modules, and the reasons why some cannot be built."""
    lines: list[str] = []
    problems: list[str] = []
    first: dict[int, str] = {id(gm): ""}
    leaves: list[str] = []
    for path, module in gm.named_modules(remove_duplicate=False):
        if not path or path.partition(".")[0] == LEDGER or any(path.startswith(f"{leaf}.") for leaf in leaves):
            continue
        is_container = type(module) is nn.Module
        if id(module) in first:
            lines.append(f"_put(self, {path!r}, self.get_submodule({first[id(module)]!r}))")
            leaves.append(path)
            continue
        first[id(module)] = path
        if is_container:
            lines.append(f"_put(self, {path!r}, nn.Module())")
            continue
        leaves.append(path)
        try:
            lines.append(f"_put(self, {path!r}, {spelled(module)})")
        except UnspelledError as error:
            problems.append(f"{path} ({type(module).__name__}): {error}")
    return lines, problems


def _others(gm: GraphModule) -> Iterator[str]:
    """Yield further reasons against an export: hooks of the whole, and attributes that are no tensors."""
    hooks = [hook for hook in gm._forward_pre_hooks.values() if hook is not check_inputs]
    if hooks or gm._forward_hooks or gm._backward_hooks or gm._backward_pre_hooks:
        yield "the graph module has hooks, which would be lost; remove them first"
    for node in gm.graph.nodes:
        if node.op == "get_attr" and not hasattr(attribute_of(gm, str(node.target)), "dtype"):
            yield f"{node.name} reads {node.target}, which is no tensor"


def _text(gm: GraphModule, name: str, built: list[str], tensors: Tensors, forward: Forward) -> str:
    modes = [path for path, module in gm.named_modules() if module.training != gm.training and _is_ours(path)]
    inputs = [f"    {node.target}: {info_of(node) or 'no tensor'}" for node in gm.graph.find_nodes(op="placeholder")]
    calls = ", ".join(str(node.target) for node in gm.graph.find_nodes(op="placeholder"))
    own = gm._get_name()
    kind = own if own.isidentifier() and not keyword.iskeyword(own) and own not in _TAKEN else "Model"
    strides = "\n".join(f"    {name!r}: {strides}," for name, strides in tensors.strides.items())
    used = {str(place.tensor.dtype).removeprefix("torch.") for place in tensors.places}
    dtypes = "\n".join(f'    "{code}": torch.{one},' for code, one in DTYPES.items() if one in used)
    parts = {
        "NAME": name,
        "KIND": kind,
        "VERSION": metadata.version("fxopt"),
        "CALL": calls,
        "INPUTS": "\n".join(inputs) or "    none",
        "IMPORTS": "\n".join(sorted({*forward.imports, *_needed(forward)})),
        "CLASSES": "\n\n\n".join(forward.classes),
        "BUILD": "\n".join(f"            {line}" for line in built) or "            pass",
        "MODE": str(gm.training),
        "MODES": "".join(f"\n        self.get_submodule({path!r}).training = {not gm.training}" for path in modes),
        "FORWARD": "\n".join(f"    {line}".rstrip() for line in forward.source.splitlines()),
        "TENSORS": "\n".join(place.row for place in tensors.places),
        "STRIDES": strides,
        "DTYPES": dtypes,
    }
    text = re.sub("<<([A-Z]+)>>", lambda found: parts[found[1]], TEMPLATE.read_text(encoding="utf-8"))
    return re.sub("\n{4,}", "\n\n\n", text)


def _is_ours(path: str) -> bool:
    return path.partition(".")[0] != LEDGER


def _needed(forward: Forward) -> Iterator[str]:
    for words, statement in (("@dataclass", "from dataclasses import dataclass"),
                             ("= namedtuple(", "from collections import namedtuple")):  # fmt: skip
        if any(words in one for one in forward.classes):
            yield statement


def _remarks(gm: GraphModule, forward: Forward) -> Iterator[str]:
    probes = [path for path, module in gm.named_modules() if isinstance(module, Probe)]
    if probes:
        yield f"{', '.join(probes)}: a Probe became an Identity, as the notes that it takes are fxopt's"
    if any("(Output)" in one for one in forward.classes):
        yield "results of transformers became classes of the file, with the same parts by name and by number"
    if check_inputs in gm._forward_pre_hooks.values():
        yield "the file does not check its inputs; the sizes that the graph holds for stand at its top"
