"""How often the interval of a latency holds the truth: python -m tests.benchmarks.bench_latency_coverage

A model that calls a small network some times is measured against itself, and against one that calls it 3, 10 and 30 %
more often, on the machine as it is and beside processes that multiply matrices on every core. Printed are for each the
number of runs whose interval holds the truth, the number with a verdict, and how many of these were wrong.
With samples of 2 ms in the place of 20, all takes about ten minutes on two quiet cores.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fxopt.evidence import LatencyReport, latency, measure

SAMPLE_SECONDS = 0.002
RUNS_ALIKE = 200


class Repeated(nn.Module):
    """Calls `body` a number of times on the same input."""

    def __init__(self, body: nn.Module, times: int) -> None:
        super().__init__()
        self.body, self.times = body, times

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.times):
            y: Tensor = self.body(x)
        return y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS_ALIKE, help="runs for each row")
    parser.add_argument("--early", action="store_true", help="measurements that may end early, as those of the page")
    parser.add_argument("--busy", type=int, default=os.cpu_count() or 1, help="processes that keep the cores busy")
    options = parser.parse_args()
    latency.SAMPLE_SECONDS = SAMPLE_SECONDS
    torch.set_num_threads(1)
    print("| machine | slower by | holds the truth | control holds 1 | a verdict | wrong | median width |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, busy in (("as it is", 0), (f"with {options.busy} busy processes", options.busy)):
        with kept_busy(busy):
            for slower_by in (0, 3, 10, 30):
                print(row(name, slower_by, options.runs, options.early), flush=True)


def row(name: str, slower_by: int, runs: int, early: bool) -> str:
    body = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.LayerNorm(64)).eval()
    one, other, x = Repeated(body, 100), Repeated(body, 100 + slower_by), torch.randn(4, 64)
    truth = 1 / (1 + slower_by / 100)
    reports: list[LatencyReport] = [measure(one, other, (x,), seed=seed, early=early) for seed in range(runs)]
    holds = sum(report.low <= truth <= report.high for report in reports)
    control = sum(report.control_low <= 1 <= report.control_high for report in reports)
    shown = [report for report in reports if report.shown]
    wrong = sum(report.ratio > 1 or not slower_by for report in shown)
    width = sorted(report.high / report.low - 1 for report in reports)[runs // 2]
    figures = f"{holds} of {runs} | {control} of {runs} | {len(shown)} | {wrong} | {width:.1%}"
    return f"| {name} | {slower_by} % | {figures} |"


@contextlib.contextmanager
def kept_busy(processes: int) -> Iterator[None]:
    started = [multiprocessing.get_context("spawn").Process(target=multiply, daemon=True) for _ in range(processes)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()


def multiply() -> None:
    torch.set_num_threads(1)
    x, since = torch.randn(700, 700), time.monotonic()
    while time.monotonic() - since < 3600 and os.getppid() > 1:
        x = (x @ x).clamp(-1, 1)


if __name__ == "__main__":
    main()
