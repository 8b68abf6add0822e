"""The cost of a class to the server: `python -m tests.benchmarks.bench_visitors`. Run by hand, with nothing beside it.

Visitors come without browsers (`tests.load.crowd`): all open one model at once, first where nobody has it open yet,
then where someone has, and is switching a pass meanwhile; all switch the same pass; all leave; others come and go.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.benchmarks.figures import Figure, told
from tests.browser.serving import served_to_others
from tests.load.crowd import Server, Visitor

MODEL, PASS = "BERT-base", "Merge linears"
PAUSE_SECONDS, SETTLING_SECONDS = 0.3, 30.0
MOST_LEFT = 200.0
"""Megabytes that may stay once all have left."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=40)
    parser.add_argument("--come-and-go", type=int, default=100)
    asked = parser.parse_args()
    figures: list[Figure] = []
    for is_cold in (True, False):
        with tempfile.TemporaryDirectory() as folder, served_to_others(log=Path(folder) / "log.txt") as address:
            figures += asyncio.run(_cold(address, asked.visitors) if is_cold else _warm(address, asked))
    print(told(figures))


async def _cold(address: str, visitors: int) -> list[Figure]:
    """All ask at once for a model that nobody has open."""
    crowd = await _come(address, visitors)
    await asyncio.gather(*(one.open() for one in crowd))
    seconds = await asyncio.gather(*(one.choose(MODEL) for one in crowd))
    return [Figure(f"{visitors} open {MODEL} at once, the first to do so", seconds, "s", most=10)]


async def _warm(address: str, asked: argparse.Namespace) -> list[Figure]:
    server, count = Server(address), int(asked.visitors)
    async with Visitor(address) as first:
        await first.open()
        await first.choose(MODEL)
        alone = [await first.switch(PASS, on) for on in (True, False) * 5]
        crowd = await _come(address, count)
        coming = await asyncio.gather(*(one.open() for one in crowd))
        cpu = server.cpu_seconds
        switching, opening = await _meanwhile(first, lambda: asyncio.gather(*(one.choose(MODEL) for one in crowd)))
        each_cpu, with_crowd = (server.cpu_seconds - cpu) / count, server.megabytes
        together = await asyncio.gather(*(one.switch(PASS, True) for one in crowd))
        each = (server.megabytes - with_crowd) / count
        for one in crowd:
            await one.__aexit__(None, None, None)
    begun = server.megabytes
    for _ in range(asked.come_and_go):
        async with Visitor(address) as visitor:
            await visitor.open()
            await visitor.choose(MODEL)
            await visitor.switch(PASS, True)
    left = await server.comes_down_to(begun + MOST_LEFT, SETTLING_SECONDS) - begun
    return [
        Figure("a switch, alone", alone, "s"),
        Figure(f"{count} come to the page at once", coming, "s"),
        Figure(f"{count} open {MODEL} at once, which is open", opening, "s", most=10),
        Figure("a switch of another visitor meanwhile", switching, "s", most=1),
        Figure("CPU time of an opening", [each_cpu], "s"),
        Figure(f"{count} switch {PASS} on at once", together, "s"),
        Figure(f"memory of a further visitor with {PASS} on", [each], "MB", most=5),
        Figure(f"memory after {asked.come_and_go} came and left", [left], "MB", most=MOST_LEFT),
    ]


async def _come(address: str, visitors: int) -> list[Visitor]:
    return [await Visitor(address).__aenter__() for _ in range(visitors)]


async def _meanwhile(visitor: Visitor, act: Callable[[], Awaitable[list[float]]]) -> tuple[list[float], list[float]]:
    """The seconds of the switches of a visitor while `act` is done, and its result."""
    acting, seconds = asyncio.ensure_future(act()), list[float]()
    while not acting.done():
        seconds.append(await visitor.switch(PASS, len(seconds) % 2 == 0))
        await asyncio.wait([acting], timeout=PAUSE_SECONDS)  # as one who looks at the effect for a moment
    return seconds, await acting


if __name__ == "__main__":
    main()
