"""The cost of a capture: `python tests/benchmarks/bench_capture.py [quick]`.

- One model of each architecture of the matrix against `torch.export.export(strict=False)`: paired, in random order, CPU
  time on one thread, median of the ratios fxopt / export with a bootstrap interval of 95 %. Verification by replay is
  part of fxopt's time.
- BERT-base, a Llama of 24 layers and width 512, t5-small: CPU seconds on each rung, beside one eager forward.
- Graph size: nodes that call something, for each torch-level call that the model makes.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
ROUNDS = int(os.environ.get("ROUNDS", "3"))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.fx import GraphModule  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402

from fxopt.tracing import capture, example_inputs, rungs  # noqa: E402
from fxopt.tracing.leaves import is_torch_layer  # noqa: E402
from tests.tracing.matrix.models import BARE  # noqa: E402

Inputs = dict[str, Any]


def cpu_seconds(act: Callable[[], Any]) -> tuple[float, Any]:
    gc.collect()
    start = time.process_time()
    result = act()
    return time.process_time() - start, result


def exported(model: nn.Module, inputs: Inputs) -> Any:
    """By torch.export with the sizes free that fxopt frees; it keeps no layers."""
    auto = torch.export.Dim.AUTO
    shapes = {
        name: None
        if not isinstance(value, torch.Tensor)
        else {0: auto, 1: auto}
        if 2 <= value.dim() <= 3
        else {0: auto}
        for name, value in inputs.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.export(model, (), inputs, dynamic_shapes=shapes, strict=False)


# ---------------------------------------------------------------- against torch.export
def compare_with_export() -> None:
    logging.getLogger("torch").setLevel(logging.CRITICAL)  # torch.export writes whole programs where it fails
    draw = random.Random(0)
    medians = []
    for row in BARE:
        name, model = row.name, row.build()
        inputs = row.inputs(model)
        contenders = (lambda r=row, m=model: r.capture(m), lambda m=model, i=inputs: exported(m, i))
        times: tuple[list[float], list[float]] = ([], [])
        failure = ""
        for round_ in range(ROUNDS + 1):
            for which in draw.sample((0, 1), 2):
                try:
                    seconds, _ = cpu_seconds(contenders[which])
                except Exception as error:  # noqa: BLE001  what torch.export cannot do is part of the table
                    failure = f"{('fxopt', 'torch.export')[which]}: {type(error).__name__}"
                    continue
                if round_:  # the first warms up
                    times[which].append(seconds)
        if failure:
            print(f"{name:30s} {failure}", flush=True)
            continue
        ratios = [mine / yours for mine, yours in zip(*times, strict=True)]
        medians.append(statistics.median(ratios))
        low, high = interval(ratios, draw)
        mine, yours = map(statistics.median, times)
        print(f"{name:30s} {medians[-1]:.2f} [{low:.2f}, {high:.2f}]   {mine:.2f} s, export {yours:.2f} s", flush=True)
    print(f"median over {len(medians)} models: {statistics.median(medians):.2f}", flush=True)


def interval(ratios: list[float], draw: random.Random) -> tuple[float, float]:
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


# ---------------------------------------------------------------- models of a real size
def large_models() -> dict[str, Callable[[], nn.Module]]:
    from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel, T5Config, T5Model

    llama = LlamaConfig(num_hidden_layers=24, hidden_size=512, intermediate_size=1376, num_attention_heads=8)
    return {
        "bert-base": lambda: BertModel(BertConfig()),
        "llama 24x512": lambda: LlamaModel(llama),
        "t5-small": lambda: T5Model(T5Config()),
    }


def time_large_models() -> None:
    for name, build in large_models().items():
        model = build().eval()
        inputs = example_inputs(model)
        rows = {rung: median_seconds(lambda r=rung, m=model, i=inputs: on_rung(r, m, i)) for rung in RUNGS}
        with torch.no_grad():
            eager = median_seconds(lambda m=model, i=inputs: m(**i))
        told = ", ".join(f"{rung} {seconds:.2f}" for rung, seconds in rows.items())
        bound = 3 * eager + 0.5
        print(f"{name:13s} {told}; eager {eager:.3f} (3 x eager + 0.5 = {bound:.2f})", flush=True)


RUNGS = ("symbolic sizes", "fixed sizes", "real values")


def on_rung(rung: str, model: nn.Module, inputs: Inputs) -> GraphModule:
    ways = rungs.Rungs.ways
    rungs.Rungs.ways = lambda self, allow_baked: (way for way in ways(self, True) if way[0] == rung)
    try:
        return capture(model, (), inputs)
    finally:
        rungs.Rungs.ways = ways


def median_seconds(act: Callable[[], Any]) -> float:
    act()
    return statistics.median(cpu_seconds(act)[0] for _ in range(3))


# ---------------------------------------------------------------- graph size
class Calls(TorchFunctionMode):
    """Counts the torch-level calls that give a tensor, and calls of torch's layers as one each."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.inside = 0, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        parts = result if isinstance(result, (tuple, list)) else (result,)
        self.count += not self.inside and any(isinstance(part, torch.Tensor) for part in parts)
        return result

    def enter(self, module: nn.Module, _: Any) -> None:
        if is_torch_layer(module):
            self.count += not self.inside
            self.inside += 1

    def leave(self, module: nn.Module, *_: Any) -> None:
        self.inside -= is_torch_layer(module)


def calls_of(model: nn.Module, inputs: Inputs) -> int:
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    from fxopt.tracing.interception import exporting

    calls = Calls()
    handles = register_module_forward_pre_hook(calls.enter), register_module_forward_hook(calls.leave)
    try:
        with torch.no_grad(), exporting(), calls:  # the recording runs the model as in an export, too
            model(**inputs)
    finally:
        for handle in handles:
            handle.remove()
    return calls.count


def compare_sizes() -> None:
    ratios = []
    small = {row.name: (row.build, row.inputs) for row in BARE if row.rung == "symbolic"}
    large = {name: (build, example_inputs) for name, build in large_models().items()}
    for name, (build, inputs_of) in {**small, **large}.items():
        model = build().eval()
        inputs = inputs_of(model)
        gm = capture(model, (), inputs, verify=False)
        nodes = sum(node.op.startswith("call_") for node in gm.graph.nodes)
        calls = calls_of(model, inputs)
        ratios.append(nodes / calls)
        print(f"{name:30s} {nodes:5d} nodes, {calls:5d} calls: {ratios[-1]:.2f}", flush=True)
    print(f"largest ratio: {max(ratios):.2f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    compare_sizes()
    compare_with_export()
    if "quick" not in sys.argv:
        time_large_models()
