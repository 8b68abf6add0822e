"""A whole model as `torch.compile`, ONNX Runtime or OpenVINO computes it. An engine is imported when it is asked for.

All engines get the model flat: its inputs are tensors by position, and so are its outputs. A call of an engine gives
the tensors among the outputs of the model, in their order.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from fxopt.engines.compiled import INDUCTOR, compiler_of, compiling

_CONSTANTS = (int, float, bool, complex, str, type(None), torch.dtype, torch.device)


class Flat(nn.Module):
    """Compute a model for tensors by position, and return a tuple of the tensors among its outputs.

    Args:
        model: to compute; it is called in the mode that it is in.
        args, kwargs: an example of its inputs. Their numbers, texts and containers are those of each call.

    Raises:
        TypeError: an input is neither a tensor, nor a plain value, nor a container of these that torch knows.
    """

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.model = model
        leaves, shape = tree_flatten((args, kwargs))
        strange = next((one for one in leaves if not isinstance(one, (Tensor, *_CONSTANTS))), None)
        if strange is not None:
            raise TypeError(f"an input holds a {type(strange).__name__}, whose tensors torch does not see")
        self._constants = [None if isinstance(one, Tensor) else one for one in leaves]
        self._places = [i for i, one in enumerate(leaves) if isinstance(one, Tensor)]
        self._rebuilt = lambda leaves: tree_unflatten(leaves, shape)  # a deep copy keeps a function as it is

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        leaves = list(self._constants)
        for place, tensor in zip(self._places, tensors, strict=True):
            leaves[place] = tensor
        args, kwargs = self._rebuilt(leaves)
        return tensors_among(self.model(*args, **kwargs))

    def around(self, model: Callable[..., Any]) -> Flat:
        """Return the same around another model."""
        other = copy.copy(self)
        other._modules = {"model": model}  # type: ignore[dict-item]  # what torch.compile makes of a module is one
        return other


class InEngine(nn.Module):
    """Compute a model in an engine: it takes the inputs of the model, and returns the tensors among its outputs.

    Args:
        call: takes and returns tensors by position; a module is a child.
    """

    def __init__(self, call: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.call = call
        self.training = False

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        return self.call(*tensors_among((args, kwargs)))


def tensors_among(value: Any) -> tuple[Tensor, ...]:
    """Return the tensors in inputs or outputs, in the order in which torch flattens them."""
    if isinstance(value, Tensor):
        return (value,)
    return tuple(one for one in tree_leaves(value) if isinstance(one, Tensor))


@dataclass(frozen=True)
class Engine:
    """One that computes a whole model on one thread."""

    name: str
    packages: tuple[str, ...]
    """All that it needs beside torch, as Python imports them."""
    extra: str
    """The optional extra of fxopt that installs them."""
    build: Callable[[Flat, tuple[Tensor, ...]], Callable[..., tuple[Tensor, ...]]]
    """Takes the model and example tensors. It raises any exception where the engine cannot have the model."""

    @property
    def missing(self) -> str:
        """The reason why it is not to be had on this machine; empty where it is."""
        if self.build is _inductor and not compiler_of(INDUCTOR):
            return "it needs a C++ compiler, such as g++"
        without = [name for name in self.packages if not _is_installed(name)]
        return f"it needs {' and '.join(without)}: pip install 'fxopt[{self.extra}]'" if without else ""


def _is_installed(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _inductor(flat: Flat, tensors: tuple[Tensor, ...]) -> Callable[..., tuple[Tensor, ...]]:
    with compiling(1):
        call = flat.around(torch.compile(flat.model))
        call(*tensors)
    return call


def _onnx_runtime(flat: Flat, tensors: tuple[Tensor, ...]) -> Callable[..., tuple[Tensor, ...]]:
    program = _exported(flat, tensors)
    with _quiet_exporter():
        made = torch.onnx.export(program, dynamo=True, verbose=False)
    assert made is not None, "without a file, torch returns the program"
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    content = made.model_proto.SerializeToString()
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    places = {name: i for i, name in enumerate(program.graph_signature.user_inputs)}
    order = [(one.name, places[one.name]) for one in session.get_inputs()]

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        found = session.run(None, {name: tensors[place].detach().numpy() for name, place in order})
        return tuple(map(torch.from_numpy, found))

    return call


def _openvino(flat: Flat, tensors: tuple[Tensor, ...]) -> Callable[..., tuple[Tensor, ...]]:
    program = _exported(flat, tensors)
    with _without_telemetry():
        openvino = importlib.import_module("openvino")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = openvino.convert_model(program)
    # the precision of the model: on some processors it would be bfloat16 of its own accord
    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.compile_model(model, "CPU", settings)
    places = {name: i for i, name in enumerate(program.graph_signature.user_inputs)}
    order = [next(places[name] for name in one.names if name in places) for one in compiled.inputs]
    many = len(compiled.outputs)

    def call(*tensors: Tensor) -> tuple[Tensor, ...]:
        found = compiled([tensors[place].detach().numpy() for place in order])
        return tuple(torch.from_numpy(found[i]) for i in range(many))

    return call


ENGINES = (
    Engine("torch.compile", (), "", _inductor),
    Engine("ONNX Runtime", ("onnx", "onnxscript", "onnxruntime"), "onnx", _onnx_runtime),
    Engine("OpenVINO", ("openvino",), "openvino", _openvino),
)
"""Those that one would pick instead of passes."""


def _exported(flat: Flat, tensors: tuple[Tensor, ...]) -> torch.export.ExportedProgram:
    """Return the model as a program with the sizes of the example, which suits engines best."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # torch warns of its own doings
        return torch.export.export(flat, tensors, strict=False)


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
