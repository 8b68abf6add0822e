"""The gain and the error of approximate passes: `python -m tests.benchmarks.bench_approximate [NAME ...]`.

Each model is captured, and rewritten by portable passes and one of four: packed float32, bfloat16, integers of 8 bits
with the span of each call, and with spans that were measured over `CALIBRATION` other inputs. Its latency is measured
against the captured graph as in `bench_speed`, and its error over `TRIED` inputs that no span was measured on. A row
goes into `docs/approximate.md`, under the machine; other rows stay as they are.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

import fxopt
from fxopt.evidence import compare_outputs, measure, spans_of
from tests.benchmarks import bench_speed
from tests.benchmarks.bench_speed import MODELS, error_of, ratio_of

TABLE = Path(__file__).parents[2] / "docs/approximate.md"
CALIBRATION, TRIED = 8, 8
HEAD = f"""# Approximate passes

`CastLinearsToBFloat16` and `QuantizeLinears`, beside `PackLinears` in float32, against the captured graph; written by
`python -m tests.benchmarks.bench_approximate`. A ratio above 1 means faster, by that factor: the median of interleaved
rounds in CPU time of one thread, with its interval. The error is the largest of all numbers of all outputs, in percent
of the largest output, and the cosine is the least between an output before and now, over {TRIED} inputs. Static spans
were measured over {CALIBRATION} other inputs. Weights are random unless a model is called trained: judge by trained
ones, and by your own task.
"""
COLUMNS = """
| model | input | linears | ratio | error | cosine |
|:--|:--|:--|:--|--:|--:|
"""
KINDS: dict[str, Callable[[GraphModule, list[Any]], fxopt.Pass[Any]]] = {
    "float32": lambda gm, inputs: fxopt.PackLinears(),
    "bfloat16": lambda gm, inputs: fxopt.CastLinearsToBFloat16(),
    "int8, dynamic": lambda gm, inputs: fxopt.QuantizeLinears(),
    "int8, static": lambda gm, inputs: fxopt.QuantizeLinears(spans_of(gm, inputs)),
}
NAMES = ("bert-1x16", "bert-1x128", "minilm-1x16", "minilm-8x64", "vit-small", "llama-1x128", "gpt2-1x64")


def draws(inputs: dict[str, torch.Tensor], count: int) -> Iterator[dict[str, torch.Tensor]]:
    """Return other inputs of the same kind: tokens in another order and with others among them, or other images."""
    for _ in range(count):
        drawn = dict(inputs)
        for name, x in inputs.items():
            if name == "input_ids":
                drawn[name] = torch.randint(1000, 8000, x.shape)
            elif x.is_floating_point():
                drawn[name] = torch.randn_like(x)
        yield drawn


def cosine_of(before: GraphModule, after: GraphModule, inputs: list[Any]) -> float:
    """Return the least cosine between an output of the one and the same of the other."""
    found = []
    with torch.inference_mode():
        for one in inputs:
            for old, new in zip(*(torch.utils._pytree.tree_leaves(gm(**one)) for gm in (before, after)), strict=True):
                if isinstance(old, torch.Tensor):
                    found.append(float(torch.cosine_similarity(old.flatten().double(), new.flatten().double(), dim=0)))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="models; all if none is named")
    parser.add_argument(
        "--kinds", nargs="+", choices=[*KINDS], default=[*KINDS], help="of linears; all if none is named"
    )
    parser.add_argument("--budget", type=float, default=20.0, help="seconds for the rounds of a row")
    options = parser.parse_args()
    for key in options.names or NAMES:
        name, size, make = MODELS[key]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model, inputs = make()
            graph = fxopt.capture(model.eval(), (), inputs)
            calibration, tried = (list(draws(inputs, count)) for count in (CALIBRATION, TRIED))
        for kind in options.kinds:
            passes = [fxopt.RemoveIdentities, fxopt.FuseGelu, fxopt.FuseRMSNorm, fxopt.ChangeAddmmToLinear]
            before = fxopt.compose(*(one() for one in passes))(fxopt.core.shared_copy(graph))
            after = KINDS[kind](before, calibration)(fxopt.core.shared_copy(before))
            numerics = compare_outputs(graph, after, [((), one) for one in tried], reference=False)
            error, scale = error_of(numerics)
            latency = measure(graph, after, (), inputs, budget=options.budget)
            figures = f"{ratio_of(latency)} | {100 * error / scale:.2g} % | {cosine_of(graph, after, tried):.6f}"
            print(f"{name} | {size} | {kind} | {figures}", flush=True)
            write(f"{name} | {size} | {kind}", figures)
            del before, after
            gc.collect()


def write(key: str, figures: str) -> None:
    """Put a row into the table of this machine, in the order of `NAMES` and `KINDS`."""
    order = [" | ".join([*MODELS[name][:2], kind]) for name in NAMES for kind in KINDS]
    bench_speed.write_row(TABLE, HEAD, COLUMNS, order, key, f"| {key} | {figures} |")


if __name__ == "__main__":
    main()
