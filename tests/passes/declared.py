"""The declarations of the test file of each registered pass for the laws, which run on all passes.

A test file ``tests/passes/test_<file>.py`` may have, at its top level:

- ``EXAMPLES``: a tuple of `tests.examples.Example`, small models for the laws and the golden files;
- ``PATTERNS``: lists of steps that random programs are grown around when the pass is fuzzed, see `tests.fuzz.builder`;
- ``INSTRUCTIONS``: functions that such steps name, where none of `tests.fuzz.steps` makes the pattern of the pass.

The laws read it here, and no test file of a pass imports this module, so there is no import cycle.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fxopt import ALL_PASSES, Pass
from tests import examples
from tests.fuzz.builder import Instruction, Step


def file_of_tests(kind: type[Pass[Any]]) -> str:
    """The path of the test file of a pass, from the root of the project."""
    return f"tests/passes/test_{kind.__module__.rpartition('.')[2]}.py"


def _declared(name: str) -> Iterator[tuple[type[Pass[Any]], Any]]:
    for kind in ALL_PASSES:
        file = Path(file_of_tests(kind))
        if (Path(__file__).parent / file.name).exists():  # a law of its own says where it does not
            module = importlib.import_module(".".join(file.with_suffix("").parts))
            yield kind, getattr(module, name, ())


EXAMPLES: tuple[examples.Example, ...] = (
    *examples.EXAMPLES,
    *(example for _, declared in _declared("EXAMPLES") for example in declared),
)
"""The general ones, and those of the passes."""

PATTERNS: dict[str, list[list[Step]]] = {kind.__name__: list(declared) for kind, declared in _declared("PATTERNS")}
"""By the names of the passes."""

INSTRUCTIONS: dict[str, Instruction] = {
    one.__name__: one for _, declared in _declared("INSTRUCTIONS") for one in declared
}
