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
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".cache" / "optimum"
ROUNDS = int(os.environ.get("ROUNDS", "15"))


def set_up() -> None:
    if not (VENV / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        packages = ["torch==2.13.0", "transformers==4.57.6", "optimum==1.27.0", "pandas", "graphviz-pure", "graphviz"]
        subprocess.run([VENV / "bin/python", "-m", "pip", "install", "-q", *packages], check=True)
        (VENV / "ready").touch()
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
    rounds = [
        ("MergeLinears on BERT-base, apply", bert, "MergeLinears", False),
        ("MergeLinears on BERT-base, reverse", bert, "MergeLinears", True),
        ("FuseBiasInLinear on BERT-base, apply", bert, "FuseBiasInLinear", False),
        ("FuseBatchNorm2dInConv2d on ResNet-50, apply", resnet, "FuseBatchNorm2dInConv2d", False),
    ]
    for title, gm, name, back in rounds:
        pair = [getattr(module, name)() for module in (ours, theirs)]
        report(title, [lambda p=p, gm=gm, back=back: once(p, copy.deepcopy(gm), back) for p in pair])


def once(pass_: Callable[..., object], gm: object, back: bool) -> float:
    """CPU seconds of one full call, lint and recompile included."""
    if back:
        pass_(gm)
    gc.collect()
    start = time.process_time()
    pass_(gm, reverse=True) if back else pass_(gm)
    return time.process_time() - start


def report(title: str, contenders: list[Callable[[], float]]) -> None:
    draw = random.Random(0)
    times: list[list[float]] = [[], []]
    for i in range(ROUNDS + 1):
        for which in draw.sample((0, 1), 2):
            seconds = contenders[which]()
            if i:  # the first round warms up
                times[which].append(seconds)
    ratios = [a / b for a, b in zip(*times, strict=True)]
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    mine, yours = (1e3 * statistics.median(t) for t in times)
    print(
        f"{title:45s} ratio {statistics.median(ratios):.3f} [{medians[50]:.3f}, {medians[-51]:.3f}]   "
        f"fxopt {mine:.1f} ms, optimum {yours:.1f} ms   ({ROUNDS} rounds)",
        flush=True,
    )


if __name__ == "__main__":
    main() if os.environ.get("IN_VENV") else set_up()
