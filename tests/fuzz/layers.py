"""Instructions that call layers, well-behaved ones and others."""

import copy
import operator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import Node
from torch.nn.utils import parametrizations, prune

from tests.fuzz.builder import Builder, Choices, RefusedError


def channels(build: Builder, x: Node) -> int:
    width = build.shape(x)[1]
    if not width:
        raise RefusedError
    return width


class LinearOfOurOwn(nn.Linear):
    """A subclass that computes something else."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) * 2


def doubled(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
    return output * 2


def new_linear(build: Builder, width: int, out: int, bias: bool = True, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """A linear layer of any sizes: torch warns of drawing no weights."""
    if not width:
        raise RefusedError
    layer = kind(width, out or 1, bias=bias, dtype=build.dtype).eval()
    if not out:
        layer.out_features = 0
        layer.weight = nn.Parameter(layer.weight.detach()[:0])
        layer.bias = nn.Parameter(layer.bias.detach()[:0]) if bias else None
    return layer


def linear(build: Builder, x: Node, choose: Choices) -> Node:
    width, bias = build.shape(x)[-1], choose(True, False)
    out = choose(width, 6, 1, 0)
    how = choose("plain", "plain", "keyword", "frozen", "half frozen", "hook", "subclass", "parametrized", "pruned",
                 "train", "float64")  # fmt: skip
    layer = new_linear(build, width, out, bias, LinearOfOurOwn if how == "subclass" else nn.Linear)
    if how in ("frozen", "half frozen"):
        layer.weight.requires_grad_(False)
    if how == "frozen" and bias:
        layer.bias.requires_grad_(False)
    if how == "hook":
        layer.register_forward_hook(doubled)
    if how == "parametrized" and out:
        parametrizations.weight_norm(layer)
    if how == "pruned" and out:
        prune.l1_unstructured(layer, "weight", 0.5)
    if how == "train":
        layer.train()
    if how == "float64":
        layer.double()
    return build.call(layer, x, choose, keyword=how == "keyword")


def conv(build: Builder, x: Node, choose: Choices) -> Node:
    rank = choose(4, 3, 5) if len(build.shape(x)) < 3 or choose(False, False, True) else len(build.shape(x))
    x = build.ranked(x, rank)
    width, transposed, bias = channels(build, x), choose(False, True), choose(True, False)
    out = choose(width, 6)
    kinds = {3: (nn.Conv1d, nn.ConvTranspose1d), 4: (nn.Conv2d, nn.ConvTranspose2d), 5: (nn.Conv3d, nn.ConvTranspose3d)}
    size = choose(1, 2, 3)
    options: dict[str, Any] = {
        "stride": choose(1, 1, 2),
        "padding": choose(0, 1),
        "dilation": choose(1, 2),
        "groups": choose(1, 2, width),
    }
    mode = choose("zeros", "zeros", "reflect", "replicate", "circular")
    try:
        layer = kinds[rank][transposed](width, out, size, bias=bias, padding_mode=mode, **options)
    except ValueError as error:  # groups, or a mode that transposed convolutions do not have
        raise RefusedError from error
    return build.call(layer.eval().to(build.dtype), x, choose, keyword=choose(False, False, True))


def norm(build: Builder, x: Node, choose: Choices) -> Node:
    rank, width = len(build.shape(x)), channels(build, x)
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d, 5: nn.BatchNorm3d}[rank]
    how = choose("affine", "affine", "plain", "no momentum", "no statistics", "training", "frozen", "half frozen",
                 "zero gamma", "keyword", "float64", "sync", "no bias")  # fmt: skip
    bn: nn.modules.batchnorm._BatchNorm
    options: dict[str, Any] = {"affine": how != "plain", "track_running_stats": how != "no statistics"}
    if how == "no momentum":
        options["momentum"] = None
    bn = (nn.SyncBatchNorm if how == "sync" else kind)(width, eps=choose(1e-5, 1e-3, 0.5), dtype=build.dtype, **options)
    bn.train(how == "training")
    if bn.running_mean is not None and bn.running_var is not None:
        bn.running_mean.normal_(0, 0.3)
        bn.running_var.uniform_(0.5, 1.5)
    if how != "plain":
        nn.init.uniform_(bn.weight, 0.5, 1.5)
        nn.init.normal_(bn.bias)
    if how in ("frozen", "half frozen"):
        bn.weight.requires_grad_(False)
    if how == "frozen":
        bn.bias.requires_grad_(False)
    if how == "zero gamma":
        nn.init.zeros_(bn.weight)
    if how == "no bias":
        bn.register_parameter("bias", None)
    if how == "float64":
        bn.double()
    return build.call(bn, x, choose, keyword=how == "keyword")


def layer(build: Builder, x: Node, choose: Choices) -> Node:
    """A layer that no weight-folding pass knows, or that does nothing."""
    width = build.shape(x)[-1]
    kind = choose(nn.Identity, nn.Dropout, nn.ReLU, nn.LayerNorm, nn.GELU, nn.Flatten, nn.Dropout1d, nn.Softmax)
    options = {nn.LayerNorm: (width,), nn.Softmax: (-1,)}.get(kind, ())
    if kind is nn.LayerNorm and not width:
        raise RefusedError
    module = kind(*options).to(build.dtype)
    module.train(kind is nn.Dropout and choose(False, False, True))
    if kind in (nn.ReLU, nn.Dropout):
        module.inplace = choose(False, True)
    return build.call(module, x, choose)


def again(build: Builder, x: Node, choose: Choices) -> Node | None:
    """Call a module that was called before, under its name or under a second one."""
    if not build.paths:
        return None
    path, renamed = choose(*build.paths), choose(False, True)
    if renamed:
        return build.call(build.root.get_submodule(path), x, choose)
    return build.emit("call_module", path, x)


def tied(build: Builder, x: Node, choose: Choices) -> Node | None:
    """A second module like one before, with one parameter or buffer in common."""
    if not build.paths:
        return None
    old = build.root.get_submodule(choose(*build.paths))
    names = [name for name, _ in (*old.named_parameters(recurse=False), *old.named_buffers(recurse=False))]
    if not names:
        return None
    new, name = copy.deepcopy(old), choose(*names)
    table = new._parameters if name in new._parameters else new._buffers
    table[name] = getattr(old, name)
    return build.call(new, x, choose)


def read(build: Builder, x: Node, choose: Choices) -> Node | None:
    """Read a parameter or buffer of a module that is called elsewhere."""
    names = [name for name, tensor in build.root.state_dict().items() if tensor.is_floating_point()]
    if not names:
        return None
    tensor = build.emit("get_attr", choose(*names))
    how = choose("add", "linear", "matmul", "dtype", "shape")
    if how == "dtype":
        return build.method("to", x, build.function(getattr, tensor, "dtype"))
    if how == "shape":
        rows = build.function(operator.getitem, build.function(getattr, tensor, "shape"), choose(0, -1))
        return build.function(operator.mul, x, rows)
    if how == "linear":
        return build.function(F.linear, x, tensor)
    if how == "matmul":
        return build.function(torch.matmul, x, tensor)
    return build.function(operator.add, x, build.method("mean", tensor))


def buffer(build: Builder, x: Node, choose: Choices) -> Node:
    """A buffer of the model itself, read and perhaps written on each call."""
    build.count += 1
    build.root.register_buffer(f"state{build.count}", torch.ones(1, dtype=build.dtype))
    state = build.emit("get_attr", f"state{build.count}")
    if choose(False, True):
        build.method("add_", state, 0.5)
    return build.function(operator.mul, x, state)


def aliased(build: Builder, x: Node, choose: Choices) -> Node:
    """A normalized linear layer; its mean, or its scale, is written to by another name, which has a part of it."""
    x = build.ranked(x, 2)
    width = channels(build, x)
    bn = nn.BatchNorm1d(width, dtype=build.dtype).eval()
    shared = choose(bn.running_mean, bn.running_var, bn.weight.detach())
    build.count += 1
    build.root.register_buffer(f"part{build.count}", choose(shared[:2], shared.view(-1, 1)))
    build.method("add_", build.emit("get_attr", f"part{build.count}"), 0.5)
    return build.call(bn, build.call(new_linear(build, width, width), x, choose), choose)


LAYERS = (linear, conv, norm, layer, again, tied, read, buffer, aliased)
