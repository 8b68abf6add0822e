"""Random programs grown around each pass's own pattern obey the laws.

By default a few programs run. The slow tests run for 10 seconds a pass, and as long for all rules, over the same
sequence of seeds each time; the seconds are those of the processor, so other work beside them takes no program away.
With ``FXOPT_FUZZ_SECONDS`` set (`make fuzz`) the seeds are new ones. A failure shows its seed and the smallest program
that fails, as the body of a test for `test_found.py`.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fxopt import ALL_PASSES, MergeLinears, Pass, Rule
from tests.fuzz.programs import PATTERNS, Program, build, programs
from tests.fuzz.properties import check_program
from tests.fuzz.rules import RULES
from tests.quick import third

LONGER = os.environ.get("FXOPT_FUZZ_SECONDS")
SECONDS = float(LONGER or 10)
BATCH = 25

PASSES: tuple[Pass[Any], ...] = (*(kind() for kind in ALL_PASSES), MergeLinears(keep="view"), *RULES)


def call_of(pass_: Pass[Any]) -> str:
    """The pass as Python."""
    if isinstance(pass_, Rule):
        return pass_.name
    return f"{pass_.name}({', '.join(f'{name}={value!r}' for name, value in vars(pass_).items())})"


every_pass = pytest.mark.parametrize("pass_", PASSES, ids=call_of)


def other_passes(pass_: Pass[Any], walk: int) -> list[Pass[Any]]:
    """Those that are switched on and off together with `pass_`: two rules among them."""
    rules = random.Random(walk).sample(RULES, 2)
    passes = [other for other in PASSES if not isinstance(other, Rule) or other in rules]
    return [other for other in passes if other.signature != pass_.signature]


def check(pass_: Pass[Any], program: Program, walk: int = 0) -> Counter[str]:
    """All laws, for a pass and a program; `walk` is the seed of the switches."""
    built = build(program)
    if built is None:
        return Counter(refused=1)
    return check_program(built, pass_, other_passes(pass_, walk), walk)


def batch(pass_: Pass[Any], number: int, examples: int, done: Counter[str]) -> None:
    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(program=programs(pass_.name), walk=st.integers(0, 99))
    def attempt(program: Program, walk: int) -> None:
        try:
            done.update(check(pass_, program, walk))
        except Exception as error:
            error.add_note(f"seed {number}; the test:\n\n    check({call_of(pass_)}, {program}, {walk})\n")
            raise

    attempt()


@pytest.mark.parametrize("pass_", third(PASSES), ids=call_of)
def test_the_laws_hold_for_random_programs(pass_: Pass[Any]) -> None:
    batch(pass_, 0, 1, Counter())


def numbers() -> Iterator[int]:
    """The fixed sequence of seeds, or one that starts anywhere."""
    first = random.randrange(10**6) if LONGER else 1
    return iter(range(first, first + 10**6))


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 1200)
@every_pass
def test_the_laws_hold_for_many_random_programs(pass_: Pass[Any], record_property: Callable[..., None]) -> None:
    done: Counter[str] = Counter()
    end = time.process_time() + (SECONDS / len(RULES) if isinstance(pass_, Rule) else SECONDS)
    seeds = numbers()
    while time.process_time() < end:
        batch(pass_, next(seeds), BATCH, done)
    for what, count in done.items():
        record_property(what, count)
    print(f"\n{call_of(pass_)}: {dict(done)}")  # noqa: T201


@every_pass
def test_every_pass_has_a_site_where_its_pattern_stands_alone(pass_: Pass[Any]) -> None:
    built = [build(Program(tuple(pattern))) for pattern in PATTERNS.get(pass_.name, [])]
    assert any(pass_.scan(one.gm).matches for one in built if one is not None), (
        f"{pass_.name} has no site in a program of the steps in its PATTERNS, so random programs grown around them "
        "prove little. Declare what it looks for in its test file (of a rule: in tests/fuzz/programs.py), in the "
        "instructions of tests/fuzz/steps.py or INSTRUCTIONS of its own, and what reads it (what nothing reads is an "
        'output): PATTERNS = ([("divide", 0, 0), ("pointwise", 0, 0)],)'
    )
