"""The instructions by name."""

from tests.fuzz.arithmetic import ARITHMETIC
from tests.fuzz.attention import attention
from tests.fuzz.builder import Instruction
from tests.fuzz.layers import LAYERS
from tests.fuzz.memory import MEMORY
from tests.fuzz.strides import STRIDES

STEPS: dict[str, Instruction] = {one.__name__: one for one in (*LAYERS, attention, *ARITHMETIC, *MEMORY, *STRIDES)}
