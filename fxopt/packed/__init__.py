"""Linear layers and convolutions whose weights lie in the order in which oneDNN reads them."""

from fxopt.packed.activation import Activation
from fxopt.packed.convolution import PackedConv2d
from fxopt.packed.layer import PackedLayer, Step, UnboundedError
from fxopt.packed.linear import PackedLinear
from fxopt.packed.onednn import DTYPES, is_available, supports

__all__ = [
    "DTYPES",
    "Activation",
    "PackedConv2d",
    "PackedLayer",
    "PackedLinear",
    "Step",
    "UnboundedError",
    "is_available",
    "supports",
]
