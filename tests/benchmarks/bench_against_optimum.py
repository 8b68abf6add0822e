"""The passes against optimum 1.27, in one process: `python tests/benchmarks/bench_against_optimum.py`.

The first run makes a virtual environment with optimum 1.27 and transformers 4.57 in `.cache/optimum`. Each round times
both, in random order, on fresh copies of the same graph, in CPU time on one thread. What is printed is the median of
the ratios fxopt / optimum over the rounds, with a bootstrap interval of 95 %.
"""

import copy
import gc
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".cache" / "optimum"
ROUNDS = int(os.environ.get("ROUNDS", "15"))


def set_up() -> None:
    subprocess.run(["make", str(VENV.relative_to(ROOT) / "ready")], cwd=ROOT, check=True)
    python = str(VENV / "bin/python")
    os.execve(python, [python, __file__], {**os.environ, "PYTHONPATH": str(ROOT), "IN_VENV": "1"})


def main() -> None:
    import optimum.fx.optimization as theirs
    import torch
    from transformers import BertConfig, BertModel, ResNetConfig, ResNetModel
    from transformers.utils.fx import symbolic_trace

    import fxopt as ours

    torch.set_num_threads(1)
    bert = symbolic_trace(BertModel(BertConfig(attn_implementation="eager")).eval(), ["input_ids", "attention_mask"])
    resnet = symbolic_trace(ResNetModel(ResNetConfig()).eval(), ["pixel_values"], disable_check=True)
    cases = [
        ("MergeLinears on BERT-base", bert, "MergeLinears", (apply, apply_alone, apply_again, reverse, reverse_alone)),
        ("FuseBiasInLinear on BERT-base", bert, "FuseBiasInLinear", (apply,)),
        ("FuseBatchNorm2dInConv2d on ResNet-50", resnet, "FuseBatchNorm2dInConv2d", (apply,)),
    ]
    for title, gm, name, acts in cases:
        pair = [getattr(module, name)() for module in (ours, theirs)]
        for act in acts:
            report(f"{title}: {act.__doc__}", [lambda p=p, gm=gm, act=act: act(p, copy.deepcopy(gm)) for p in pair])


def apply(pass_: Callable[..., object], gm: object) -> float:
    """apply, full call"""
    return seconds(lambda: pass_(gm))


def apply_alone(pass_: Callable[..., object], gm: object) -> float:
    """apply, transform alone"""
    return seconds(lambda: pass_(gm, lint_and_recompile=False))


def apply_again(pass_: Callable[..., object], gm: object) -> float:
    """apply after a reverse, transform alone"""
    pass_(gm)
    pass_(gm, reverse=True)
    return seconds(lambda: pass_(gm, lint_and_recompile=False))


def reverse(pass_: Callable[..., object], gm: object) -> float:
    """reverse, full call"""
    pass_(gm)
    return seconds(lambda: pass_(gm, reverse=True))


def reverse_alone(pass_: Callable[..., object], gm: object) -> float:
    """reverse, transform alone"""
    pass_(gm)
    return seconds(lambda: pass_(gm, lint_and_recompile=False, reverse=True))


def seconds(act: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    gc.collect()
    start = time.process_time()
    act()
    return time.process_time() - start


def report(title: str, contenders: list[Callable[[], float]]) -> None:
    draw = random.Random(0)
    times: list[list[float]] = [[], []]
    for i in range(ROUNDS + 1):
        for which in draw.sample((0, 1), 2):
            taken = contenders[which]()
            if i:  # the first round warms up
                times[which].append(taken)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    mine, yours = (1e3 * statistics.median(t) for t in times)
    print(
        f"{title:70s} ratio {statistics.median(ratios):.3f} [{medians[50]:.3f}, {medians[-51]:.3f}]   "
        f"fxopt {mine:.2f} ms, optimum {yours:.1f} ms   ({ROUNDS} rounds)",
        flush=True,
    )


if __name__ == "__main__":
    main() if os.environ.get("IN_VENV") else set_up()
