"""Models of other libraries: are they captured, what is folded, and is each reverse exact?

`python -m tests.benchmarks.bench_reverses [NAMES]`, by hand, with timm and torchvision installed, which fxopt does
without: convolution nets by default. Each is built with random weights and drawn statistics of its norms, and captured.
Every pass is then applied to a copy, compared with the model, and reversed; the graph must be as it was, to the bit.
"""

from __future__ import annotations

import argparse
import copy
import gc
import sys
import time
import warnings
from collections import Counter

import torch
from torch import nn

from fxopt import ALL_PASSES, FuseBatchNorm2dInConv2d, capture, fingerprint
from fxopt.evidence import compare_outputs

NETS = (
    "resnet18", "resnet50", "resnext50_32x4d", "seresnet50", "res2net50_26w_4s", "skresnet18", "densenet121",
    "efficientnet_b0", "mobilenetv2_100", "mobilenetv3_small_100", "mnasnet_100", "fbnetc_100", "regnetx_002",
    "regnety_002", "rexnet_100", "ghostnet_100", "hrnet_w18_small", "dla34", "inception_v3", "inception_v4",
    "xception41", "vgg11_bn", "darknet53", "cspresnet50", "repvgg_a0", "dpn68",
)  # fmt: skip
"""Architectures of timm whose norms follow convolutions."""
SIZE = 96


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=NETS)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    for name in parser.parse_args().names:
        begun = time.process_time()
        found = looked_at(name)
        counts.update(found)
        told = ", ".join(f"{key} {count}" for key, count in found.items())
        print(f"{name}: {told} ({time.process_time() - begun:.0f} s)", flush=True)
        gc.collect()
    print(f"all: {', '.join(f'{key} {count}' for key, count in counts.items())}")


def looked_at(name: str) -> Counter[str]:
    """Count the norms before and after folding, and the exact reverses of all passes on one model."""
    found: Counter[str] = Counter()
    model, x = built(name), torch.randn(2, 3, SIZE, SIZE)
    try:
        gm = capture(model, (x,))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        sys.stderr.write(f"{name} is not captured: {error}\n")
        return Counter({"not captured": 1})
    found["captured"] += 1
    found["norms"] = norms_called(gm)
    before = fingerprint(gm)
    for kind in ALL_PASSES:
        pass_ = kind() if isinstance(kind, type) else kind
        changed = copy.deepcopy(gm)
        of_copy = fingerprint(changed)
        sites = len(pass_.scan(changed).matches)
        if not sites:
            continue
        pass_(changed)
        report = compare_outputs(gm, changed, [((x,), {})])
        found["applied"] += 1
        found["sites"] += sites
        if kind is FuseBatchNorm2dInConv2d:
            found["norms left"] = norms_called(changed)
        if report.fits is False:
            sys.stderr.write(f"{name}: {pass_.name}: {report.verdict}\n")
            found["beyond rounding"] += 1
        pass_(changed, reverse=True)
        is_exact = fingerprint(changed) == of_copy
        found["exact reverses" if is_exact else "inexact reverses"] += 1
    if fingerprint(gm) != before:
        sys.stderr.write(f"{name}: the captured graph was changed\n")
    return found


def built(name: str) -> nn.Module:
    torch.manual_seed(0)
    import timm

    model: nn.Module = timm.create_model(name, pretrained=False).eval()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is not None:
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return model


def norms_called(gm: torch.fx.GraphModule) -> int:
    """Count the calls of norms, also of those of a class of their own, as timm's."""
    names = [node for node in gm.graph.nodes if node.op in ("call_module", "call_function")]
    modules = dict(gm.named_modules())
    return sum(
        isinstance(modules.get(str(node.target)), nn.modules.batchnorm._BatchNorm)
        or node.target is torch.nn.functional.batch_norm
        or node.target is torch.batch_norm
        for node in names
    )


if __name__ == "__main__":
    main()
