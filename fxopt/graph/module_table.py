"""The table of torch's modules: the operator that a call of each one is.

The effects on numbers and memory then are those that `operator_table.py` has for that operator, and `modules_of` finds
the modules of a set there. `tests/graph/test_module_table.py` compares each module with its operator on real tensors.

A module takes one tensor and returns one. `nn.Identity`, which passes on anything, is in no table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from fxopt.packed import PackedConv2d, PackedLinear

WITHOUT_WEIGHTS: Mapping[type[nn.Module], tuple[str, tuple[str, ...]]] = {
    nn.ReLU: ("relu", ()),
    nn.ReLU6: ("relu6", ()),
    nn.GELU: ("gelu", ("approximate",)),
    nn.SiLU: ("silu", ()),
    nn.Mish: ("mish", ()),
    nn.ELU: ("elu", ("alpha",)),
    nn.SELU: ("selu", ()),
    nn.CELU: ("celu", ("alpha",)),
    nn.LeakyReLU: ("leaky_relu", ("negative_slope",)),
    nn.Hardtanh: ("hardtanh", ("min_val", "max_val")),
    nn.Hardswish: ("hardswish", ()),
    nn.Hardsigmoid: ("hardsigmoid", ()),
    nn.Softplus: ("softplus", ("beta", "threshold")),
    nn.Sigmoid: ("sigmoid", ()),
    nn.Tanh: ("tanh", ()),
    nn.Softmax: ("softmax", ("dim",)),
    nn.LogSoftmax: ("log_softmax", ("dim",)),
    nn.Dropout: ("dropout", ("p", "training")),
    nn.Flatten: ("flatten", ("start_dim", "end_dim")),
}
"""The operator, and the attributes that are its arguments: a rule takes the call of one for the other."""

WITH_WEIGHTS: Mapping[type[nn.Module], str] = {
    nn.Linear: "linear",
    nn.Conv1d: "conv1d",
    nn.Conv2d: "conv2d",
    nn.Conv3d: "conv3d",
    nn.ConvTranspose1d: "conv_transpose1d",
    nn.ConvTranspose2d: "conv_transpose2d",
    nn.ConvTranspose3d: "conv_transpose3d",
    nn.BatchNorm1d: "batch_norm",
    nn.BatchNorm2d: "batch_norm",
    nn.BatchNorm3d: "batch_norm",
    nn.LayerNorm: "layer_norm",
    nn.GroupNorm: "group_norm",
    nn.Embedding: "embedding",
}
"""The operator, which a rule takes for the module where it computes on parameters of the model."""

_IN_EFFECT: Mapping[type[nn.Module], str] = {
    nn.PReLU: "prelu",
    nn.LogSigmoid: "logsigmoid",
    nn.Softsign: "softsign",
    nn.Softshrink: "softshrink",
    nn.Tanhshrink: "tanhshrink",
    nn.Hardshrink: "hardshrink",
    nn.Threshold: "threshold",
    nn.Dropout1d: "dropout1d",
    nn.Dropout2d: "dropout2d",
    nn.Dropout3d: "dropout3d",
    nn.AlphaDropout: "alpha_dropout",
    nn.FeatureAlphaDropout: "feature_alpha_dropout",
    nn.Unflatten: "unflatten",
    nn.RMSNorm: "rms_norm",
    _BatchNorm: "batch_norm",
    _InstanceNorm: "instance_norm",
    PackedLinear: "linear",
    PackedConv2d: "conv2d",
}
"""The operator, whose effects a call has. Rules keep the two apart."""

MODULES: Mapping[type[nn.Module], str] = {
    **{kind: operator for kind, (operator, _) in WITHOUT_WEIGHTS.items()},
    **WITH_WEIGHTS,
    **_IN_EFFECT,
}
"""All of them."""


def modules_of(operators: Collection[str]) -> tuple[type[nn.Module], ...]:
    """Return the modules that are calls of one of `operators`.

    >>> [kind.__name__ for kind in modules_of({"relu", "linear"})]
    ['ReLU', 'Linear', 'PackedLinear']
    """
    return tuple(kind for kind, operator in MODULES.items() if operator in operators)
