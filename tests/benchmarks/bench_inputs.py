"""Which model types of transformers get example inputs: `python -m tests.benchmarks.bench_inputs`.

Each type of `MODEL_MAPPING` is built from its own config class, shrunk. A type counts as built where one of the
attempts gives a model of at most 300 million parameters; as having inputs where the model runs on those of
`example_inputs`; as captured where `fxopt.capture` takes them. A line for each type that lacks one says why, on
standard error. Names of types limit it to these; `--capture` captures, too.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxopt.tracing import CaptureError, InputError, capture, example_inputs
from tests.tracing.small_configs import shrunk, with_few_layers

_MOST_PARAMETERS = 300_000_000


@dataclass(frozen=True)
class Result:
    """The fate of one model type."""

    name: str
    stage: str  # "not built", "no inputs", "does not run", "not captured", "captured" or "has inputs"
    reason: str = ""
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--capture", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for name, kinds in model_types():
        if options.names and name not in options.names:
            continue
        result = measured(name, kinds, options.capture)
        counts[result.stage] += 1
        if result.reason or options.names:
            sys.stderr.write(f"{result.stage} | {name} | {result.seconds:.1f} s | {result.reason}\n")
        gc.collect()
    print(", ".join(f"{stage}: {count}" for stage, count in counts.most_common()))


def model_types() -> Iterator[tuple[str, tuple[Any, Any]]]:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    for config_kind in transformers.MODEL_MAPPING:
        try:
            kind = transformers.MODEL_MAPPING[config_kind]
        except ValueError as error:  # it names a class that transformers does not export
            print(f"{config_kind.model_type}: not counted, {error}")
            continue
        yield config_kind.model_type, (config_kind, kind[0] if isinstance(kind, tuple) else kind)


def measured(name: str, kinds: tuple[Any, Any], captures: bool) -> Result:
    """The result of the attempt that comes furthest."""
    best = Result(name, "not built")
    for shrink in (shrunk, with_few_layers):
        try:
            model = built(*kinds, shrink)
        except Exception as error:  # noqa: BLE001  each config has checks of its own
            best = Result(name, best.stage, best.reason or told(error))
            continue
        result = tried(name, model, captures)
        if result.stage in ("captured", "has inputs"):
            return result
        if best.stage == "not built":
            best = result
    return best


def built(config_kind: Any, kind: Any, shrink: Any) -> nn.Module:
    config = shrink(config_kind())
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > _MOST_PARAMETERS:
        raise ValueError(f"{count:,} parameters are too many for this script")
    torch.manual_seed(0)
    model: nn.Module = kind(shrink(config_kind())).eval()
    return model


def tried(name: str, model: nn.Module, captures: bool) -> Result:
    begun = time.process_time()
    try:
        inputs = example_inputs(model)
    except InputError as error:
        return Result(name, "no inputs", told(error))
    except Exception as error:  # noqa: BLE001  whatever it is, it is told
        return Result(name, "no inputs", f"RAW {told(error)}")
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # noqa: BLE001
        return Result(name, "does not run", f"{shapes(inputs)}: {told(error)}")
    if not captures:
        return Result(name, "has inputs")
    try:
        report = capture(model, (), inputs).meta["fxopt"]
    except CaptureError as error:
        return Result(name, "not captured", str(error).replace("\n", " ")[:700], time.process_time() - begun)
    except Exception as error:  # noqa: BLE001
        return Result(name, "not captured", f"RAW {told(error)}", time.process_time() - begun)
    tries = "; ".join(map(str, report.tried))[:300]
    lower = f"rung {report.rung}: {tries}" if report.rung == "fixed" else ""
    return Result(name, "captured", lower, time.process_time() - begun)


def shapes(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value.shape) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


if __name__ == "__main__":
    main()
