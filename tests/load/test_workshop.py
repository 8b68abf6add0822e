"""A class at one small machine: forty learners at once, each of whom sees their own work and nobody else's.

It asserts that all is right. The times and the memory are printed (``pytest -s -m slow tests/load/test_workshop.py``):
on a machine that does other work they say nothing.
"""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.browser.serving import ROOT, answering, free_port
from tests.load.crowd import Server, Visitor

LEARNERS, ROUNDS = 40, 2
NODES = ("stem_conv", "residual_conv", "forked_conv", "head_hidden")
PASS = "Fold BatchNorm2d"
PASS_AT_STEM = f"{PASS} at stem_norm"
COMPARED = "A difference is explained by rounding"
THINKING_SECONDS = 3.0, 12.0
"""Between two acts of a learner, who reads a step of a lesson."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc"),
]


def test_forty_learners_work_at_once_and_see_their_own_work_alone(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "fxopt", "app", "--workshop", "--headless", f"--port={port}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    log = tmp_path / "log.txt"
    with answering(command, port, log, tmp_path, environment):
        asyncio.run(_class(f"http://127.0.0.1:{port}"))
    assert "Traceback" not in log.read_text()


async def _class(address: str) -> None:
    server = Server(address)
    before = server.megabytes
    toggles: list[float] = []
    others: dict[str, list[float]] = {"open": [], "select": [], "numerics": [], "together": []}
    async with AsyncExitStack() as crowd:
        learners = [await crowd.enter_async_context(Visitor(address)) for _ in range(LEARNERS)]
        found = await asyncio.gather(*(_learn(one, i, toggles, others) for i, one in enumerate(learners)))
        await asyncio.gather(*(_learn_together(*each, others["together"]) for each in zip(learners, found)))
        most = server.megabytes
    _tell("toggle", toggles)
    for name, seconds in others.items():
        _tell(name, seconds)
    each = (most - before) / LEARNERS
    sys.stdout.write(f"memory: {before:.0f} MB before, {most:.0f} MB with {LEARNERS} learners: {each:.1f} MB each\n")


async def _learn(
    visitor: Visitor, number: int, toggles: list[float], others: dict[str, list[float]]
) -> dict[str, bool]:
    """Open the page, switch sites of one's own choice, select nodes, and compare outputs; return the sites' states."""
    chance = random.Random(number)
    await asyncio.sleep(chance.uniform(0, THINKING_SECONDS[1]))
    others["open"].append(await visitor.open())
    sites = [label for label in visitor.switches if label.startswith(f"{PASS} at ")]
    assert len(sites) == 4, sites
    on = dict.fromkeys(sites, False)
    nodes = chance.sample(NODES, ROUNDS)
    for node in nodes:
        for label in chance.sample(sites, 2):
            await asyncio.sleep(chance.uniform(*THINKING_SECONDS))
            on[label] = not on[label]
            toggles.append(await visitor.switch(label, on[label]))
            _sees_own(visitor, on)
        await asyncio.sleep(chance.uniform(*THINKING_SECONDS))
        others["select"].append(await visitor.select(node))
        assert not visitor.errors
    if not any(on.values()):
        on[sites[0]] = True
        toggles.append(await visitor.switch(sites[0], True))
    others["numerics"].append(await visitor.open_tab("Numerics", COMPARED))
    _sees_own_difference(visitor, on)
    return on


async def _learn_together(visitor: Visitor, on: dict[str, bool], both: list[float]) -> None:
    """Switch a site on, or another one off, at the moment at which the whole class does, and see the comparison."""
    label = next((label for label, is_on in on.items() if not is_on), PASS_AT_STEM)
    on[label] = not on[label]
    switched = await visitor.switch(label, on[label])
    _sees_own(visitor, on)
    both.append(switched + await visitor.sees(COMPARED))
    _sees_own_difference(visitor, on)


def _sees_own_difference(visitor: Visitor, on: dict[str, bool]) -> None:
    """Check that the first node that differs, where the page names it, is that of a site which the learner has on."""
    texts = [text.replace("\\", "") for text in visitor.texts]
    named = [label for label in on for text in texts if f"changed by {label}" in text]
    assert all(on[label] for label in named), (on, named)
    assert not visitor.errors


def _sees_own(visitor: Visitor, on: dict[str, bool]) -> None:
    """Check that the page shows the learner's own switches, and no failure."""
    count = sum(on.values())
    badges = [text.lower() for text in visitor.texts if "-badge[" in text]
    told = (f"{count} site{'s' if count != 1 else ''} on",) if count else ("original", "restored")
    assert badges, visitor.texts
    assert any(one in badge for one in told for badge in badges[-1:]), (told, badges)
    assert not visitor.errors
    assert not visitor.toasts


def _tell(name: str, seconds: list[float]) -> None:
    p95 = statistics.quantiles(seconds, n=20)[-1]
    sys.stdout.write(f"{name}: median {statistics.median(seconds):.2f} s, p95 {p95:.2f} s, most {max(seconds):.2f} s\n")
