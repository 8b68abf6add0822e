"""The cost of visitors to a server that runs: each of them little beyond the first, and nothing once they have left."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.browser.serving import ROOT, served
from tests.load.crowd import Server, Visitor

MODEL, PASS = "BERT-base", "Merge linears"
AT_ONCE, GROUPS, ONE_BY_ONE = 6, 3, 8
MOST_MEGABYTES_OF_A_VISITOR = 5.0
MOST_MEGABYTES_LEFT = 200.0
PATIENCE_SECONDS = 30.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc"),
]


def test_a_further_visitor_costs_little_and_who_leaves_gives_it_back(tmp_path: Path) -> None:
    with served(ROOT / "app.py", log=tmp_path / "log.txt") as address:
        asyncio.run(_visits(address))


async def _visits(address: str) -> None:
    server = Server(address)
    async with Visitor(address) as first:
        await _at_work(first)
        with_one = server.megabytes
        others = await _come(address)  # work at once takes memory that further visitors use again
        before = server.megabytes
        for _ in range(GROUPS):
            others += await _come(address)
        assert (server.megabytes - before) / (GROUPS * AT_ONCE) < MOST_MEGABYTES_OF_A_VISITOR
        for other in others:
            await other.__aexit__(None, None, None)
    for _ in range(ONE_BY_ONE):
        async with Visitor(address) as visitor:
            await _at_work(visitor)
    most = with_one + MOST_MEGABYTES_LEFT
    assert await server.comes_down_to(most, PATIENCE_SECONDS) <= most


async def _come(address: str) -> list[Visitor]:
    """Let visitors come and work, all at once; they stay."""
    visitors = [Visitor(address) for _ in range(AT_ONCE)]
    for visitor in visitors:
        await visitor.__aenter__()
    await asyncio.gather(*map(_at_work, visitors))
    return visitors


async def _at_work(visitor: Visitor) -> None:
    """Open the model, and switch the pass on, off and on."""
    await visitor.open()
    await visitor.choose(MODEL)
    for on in (True, False, True):
        await visitor.switch(PASS, on)
    assert not visitor.errors, visitor.errors
