"""ONNX Runtime and OpenVINO: an exported program as a call. Each is imported when it is asked for."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from fxopt.engines.flat import Flat

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Runtime:
    """An engine outside torch."""

    name: str
    packages: tuple[str, ...]
    """All that it needs beside torch, as Python imports them."""
    extra: str
    """The optional extra of fxopt that installs them."""
    load: Callable[[ExportedProgram, int], Callable[..., Tensors]]
    """Takes a program and a number of threads. It raises any exception where the engine cannot have the program."""

    @property
    def missing(self) -> str:
        """The reason why it is not to be had on this machine; empty where it is."""
        return missing_of(self.packages, self.extra)


def missing_of(packages: tuple[str, ...], extra: str) -> str:
    """Return the packages that are not installed, with the remedy; empty if all are."""
    without = [name for name in packages if not _is_installed(name)]
    return f"it needs {' and '.join(without)}: pip install 'fxopt[{extra}]'" if without else ""


def _is_installed(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def exported(flat: Flat, tensors: Tensors, sizes: Any = None) -> ExportedProgram:
    """Return the model as a program with the sizes of the example, which suits engines best, but for free `sizes`."""
    with warnings.catch_warnings(), torch.inference_mode(False), torch.no_grad():
        warnings.simplefilter("ignore")  # torch warns of its own doings
        example = tuple(one.clone() for one in tensors)  # those of inference mode are no tensors for torch.export
        return torch.export.export(flat, example, dynamic_shapes=sizes, strict=False)


def _onnx_runtime(program: ExportedProgram, threads: int) -> Callable[..., Tensors]:
    with _quiet_exporter():
        made = torch.onnx.export(program, dynamo=True, verbose=False)
    assert made is not None, "without a file, torch returns the program"
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors
    content = made.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    places = {name: i for i, name in enumerate(program.graph_signature.user_inputs)}
    order = [(one.name, places[one.name]) for one in session.get_inputs()]

    def call(*tensors: Tensor) -> Tensors:
        found = session.run(None, {name: tensors[place].detach().numpy() for name, place in order})
        return tuple(map(torch.from_numpy, found))

    return call


def _openvino(program: ExportedProgram, threads: int) -> Callable[..., Tensors]:
    with _without_telemetry():
        openvino = importlib.import_module("openvino")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = openvino.convert_model(program)
    # the precision of the model: on some processors it would be bfloat16 of its own accord
    settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(model, "CPU", settings)
    places = {name: i for i, name in enumerate(program.graph_signature.user_inputs)}
    order = [next(places[name] for name in one.names if name in places) for one in compiled.inputs]
    many = len(compiled.outputs)
    turn = threading.Lock()  # a compiled model has one request, which one thread may use at a time

    def call(*tensors: Tensor) -> Tensors:
        with turn:
            found = compiled([tensors[place].detach().numpy() for place in order])
        return tuple(torch.from_numpy(found[i]) for i in range(many))

    return call


RUNTIMES = {
    "onnxruntime": Runtime("ONNX Runtime", ("onnx", "onnxscript", "onnxruntime"), "onnx", _onnx_runtime),
    "openvino": Runtime("OpenVINO", ("openvino",), "openvino", _openvino),
}
"""By the name of the package."""


@contextlib.contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Hide the remarks of torch's exporter on packages that the model does not need."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels):
            one.setLevel(level)


@contextlib.contextmanager
def _without_telemetry() -> Iterator[None]:
    """Import OpenVINO without the package by which it tells its makers of each conversion, over the network."""
    name = "openvino_telemetry"
    kept = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]  # as if it were not installed
    try:
        yield
    finally:
        del sys.modules[name]
        if kept is not None:
            sys.modules[name] = kept
