"""Linear layers and convolutions whose weights lie in the order in which oneDNN reads them."""

from fxopt.packed.activation import Activation
from fxopt.packed.bfloat16 import BFloat16Linear
from fxopt.packed.convolution import PackedConv2d
from fxopt.packed.int8 import Int8Linear, multiplies_int8
from fxopt.packed.layer import PackedLayer, Step, UnboundedError
from fxopt.packed.linear import PackedLinear
from fxopt.packed.onednn import DTYPES, is_available, supports

__all__ = [
    "DTYPES",
    "Activation",
    "BFloat16Linear",
    "Int8Linear",
    "PackedConv2d",
    "PackedLayer",
    "PackedLinear",
    "Step",
    "UnboundedError",
    "is_available",
    "multiplies_int8",
    "supports",
]
