"""The same program at the level of modules, of functions with weights read by ``get_attr``, and of ATen."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx import GraphModule, Node

_CONVOLUTIONS: dict[type[nn.Module], Callable[..., Any]] = {
    nn.Conv1d: F.conv1d,
    nn.Conv2d: F.conv2d,
    nn.Conv3d: F.conv3d,
    nn.ConvTranspose1d: F.conv_transpose1d,
    nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}


def as_functions(gm: GraphModule) -> GraphModule:
    """`gm` with its plain layers as calls of torch's functions, in place."""
    for node in list(gm.graph.nodes):
        if node.op != "call_module" or len(node.all_input_nodes) != 1:
            continue
        module = gm.get_submodule(node.target)
        if not (module._forward_hooks or module._forward_pre_hooks):
            with gm.graph.inserting_before(node):
                made = _function_call(gm, node, module, node.all_input_nodes[0])
            if made is not None:
                node.replace_all_uses_with(made)
                gm.graph.erase_node(node)
    gm.recompile()
    return gm


def _function_call(gm: GraphModule, node: Node, module: nn.Module, x: Node) -> Node | None:
    graph = gm.graph

    def read(name: str) -> Node | None:
        return None if getattr(module, name) is None else graph.get_attr(f"{node.target}.{name}")

    if type(module) is nn.Linear and "weight" in module._parameters:
        return graph.call_function(F.linear, (x, read("weight"), read("bias")))
    if type(module) in _CONVOLUTIONS:
        assert isinstance(module, nn.modules.conv._ConvNd)
        if module.padding_mode != "zeros":
            return None
        options: dict[str, Any] = {key: getattr(module, key) for key in ("stride", "padding", "dilation", "groups")}
        if module.transposed:
            options["output_padding"] = module.output_padding
        return graph.call_function(_CONVOLUTIONS[type(module)], (x, read("weight"), read("bias")), options)
    if type(module) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        assert isinstance(module, nn.modules.batchnorm._BatchNorm)
        if module.training or module.running_mean is None:
            return None
        statistics = read("running_mean"), read("running_var"), read("weight"), read("bias")
        return graph.call_function(F.batch_norm, (x, *statistics), {"training": False, "eps": module.eps})
    if type(module) is nn.Dropout and not module.training:
        return graph.call_function(F.dropout, (x,), {"p": module.p, "training": False, "inplace": module.inplace})
    if type(module) is nn.ReLU:
        return graph.call_function(F.relu, (x,), {"inplace": module.inplace})
    return None


_REFUSED = (RuntimeError, ValueError, TypeError, AttributeError, AssertionError, torch._dynamo.exc.TorchDynamoException)


def as_aten(gm: GraphModule, inputs: tuple[torch.Tensor, ...]) -> GraphModule | None:
    """The graph that ``torch.export`` makes of `gm`; None where it refuses or warns."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error")
            made = torch.export.export(gm, tuple(x.clone() for x in inputs)).module()
    except (*_REFUSED, Warning):
        return None
    assert isinstance(made, GraphModule)
    return made
