"""Models of other libraries: are they captured, what is folded, and is each reverse exact?

`python -m tests.benchmarks.bench_reverses [--of LIBRARY] [NAMES]`, by hand: convolution nets of timm by default, the
classifiers of torchvision, or all model types of transformers, shrunk. fxopt does without timm and torchvision. Each is
built with random weights and drawn statistics of its norms, and captured. Every pass is then applied to a copy,
compared with the model, and reversed; the graph must be as it was, to the bit.
"""

from __future__ import annotations

import argparse
import copy
import gc
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from fxopt import ALL_PASSES, FuseBatchNorm2dInConv2d, capture, fingerprint
from fxopt.evidence import compare_outputs
from fxopt.tracing import example_inputs
from tests.benchmarks import bench_inputs
from tests.tracing.small_configs import shrunk, with_few_layers

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
    parser.add_argument("names", nargs="*")
    parser.add_argument("--of", choices=("timm", "torchvision", "transformers"), default="timm")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    counts: Counter[str] = Counter()
    for name in options.names or names_of(options.of):
        begun = time.process_time()
        found = looked_at(options.of, name)
        counts.update(found)
        told = ", ".join(f"{key} {count}" for key, count in found.items())
        print(f"{name}: {told} ({time.process_time() - begun:.0f} s)", flush=True)
        gc.collect()
    print(f"all: {', '.join(f'{key} {count}' for key, count in counts.items())}")


def names_of(library: str) -> Iterable[str]:
    if library == "timm":
        return NETS
    if library == "transformers":
        return [name for name, _ in bench_inputs.model_types()]
    import torchvision

    names: list[str] = torchvision.models.list_models(torchvision.models)
    return names


def looked_at(library: str, name: str) -> Counter[str]:
    """Count the norms before and after folding, and the exact reverses of all passes on one model."""
    found: Counter[str] = Counter()
    try:
        model, args, kwargs = built(library, name)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        sys.stderr.write(f"{name} is not built: {' '.join(str(error).split())[:300]}\n")
        return Counter({"not built": 1})
    try:
        gm = capture(model, args, kwargs)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        sys.stderr.write(f"{name} is not captured: {' '.join(str(error).split())[:300]}\n")
        return Counter({"not captured": 1})
    found["captured"] += 1
    found["norms"] = norms_called(gm)
    before = fingerprint(gm)
    for kind in ALL_PASSES:
        pass_ = kind() if isinstance(kind, type) else kind
        sites = len(pass_.scan(gm).matches)
        if not sites:
            continue
        changed = copy.deepcopy(gm)
        of_copy = fingerprint(changed)
        pass_(changed)
        report = compare_outputs(gm, changed, [(args, kwargs)])
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


def built(library: str, name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """Return a model and an example call."""
    torch.manual_seed(0)
    if library == "transformers":
        model = built_of_type(name)
        return drawn(model), (), example_inputs(model)
    if library == "timm":
        import timm

        model, size = timm.create_model(name, pretrained=False).eval(), SIZE
        if getattr(model, "patch_embed", None) is not None:  # it takes images of one size
            size = model.pretrained_cfg["input_size"][-1]
        return drawn(model), (torch.randn(2, 3, size, size),), {}
    import torchvision

    plain = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **plain).eval()
    size = getattr(model, "image_size", 299 if name == "inception_v3" else SIZE)
    return drawn(model), (torch.randn(2, 3, size, size),), {}


def built_of_type(name: str) -> nn.Module:
    """Return a model of a type of transformers, shrunk as far as its config bears."""
    kinds = dict(bench_inputs.model_types())[name]
    try:
        return bench_inputs.built(*kinds, shrunk)
    except Exception:  # noqa: BLE001 - each config has checks of its own
        return bench_inputs.built(*kinds, with_few_layers)


def drawn(model: nn.Module) -> nn.Module:
    """Draw the statistics of the norms of `model`, and return it."""
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
