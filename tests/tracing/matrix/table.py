"""The table of the matrix: `python -m tests.tracing.matrix.table` captures every model and writes docs/capture.md."""

from __future__ import annotations

import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.fx import GraphModule

from fxopt.tracing import CaptureReport
from fxopt.tracing.lines import briefly
from tests.tracing.matrix.models import ROWS, Row

FILE = Path(__file__).parents[3] / "docs/capture.md"
_TITLES = "| architecture | model | rung | CPU s | nodes | free sizes | limits |\n" + "|---" * 7 + "|\n"


@dataclass(frozen=True)
class Entry:
    """One row of the table."""

    architecture: str
    model: str
    rung: str
    seconds: str
    nodes: str
    free: str
    limits: str

    def __str__(self) -> str:
        return "| " + " | ".join(vars(self).values()) + " |"


def entry_of(row: Row, gm: GraphModule, seconds: float = 0.0) -> Entry:
    report: CaptureReport = gm.meta["fxopt"]
    free, nodes = ", ".join(report.free), str(len(gm.graph.nodes))
    return Entry(row.architecture, row.name, report.rung, f"{seconds:.1f}", nodes, free, limits_of(report))


def limits_of(report: CaptureReport) -> str:
    """Sizes that a line of the model fixed to a number, and why a rung was not reached."""
    found = [
        f"{each.condition} ({briefly(each.line)})"
        for each in report.fixed
        if each.line is not None and re.fullmatch(r"\w+ == \d+", each.condition)
    ]
    found += [
        f"{each.rung}: {each.reason}" + (f" ({briefly(each.line)})" if each.line else "") for each in report.tried
    ]
    return "; ".join(dict.fromkeys(found))


def written_entries(text: str) -> dict[str, Entry]:
    """The entries in the text of the table, by the name of their row."""
    cells = [re.split(r" *\| ?", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    entries = [Entry(*row) for row in cells if len(row) == 7]
    return {entry.model: entry for entry in entries if entry.model != "model"}


def page(entries: Iterable[Entry]) -> str:
    import transformers

    entries = list(entries)
    rungs = Counter(entry.rung for entry in entries)
    median = statistics.median(float(entry.seconds) for entry in entries)
    architectures = len({entry.architecture for entry in entries})
    versions = f"transformers {transformers.__version__} on torch {torch.__version__.partition('+')[0]}"
    counts = ", ".join(f"{count} on the rung `{rung}`" for rung, count in rungs.most_common())
    return f"""# Captured architectures

{len(entries)} captures of {architectures} architectures of {versions}: {counts};
{median:.1f} s of CPU time in the median, verification included. Each graph replays the model up to rounding, at the
example's sizes and at others, and calls every layer that the model calls, under its own path (`tests/tracing/matrix`).
`python -m tests.tracing.matrix.table` writes this page.

Rows without a cache run with `use_cache=False`; "next token" is one step of decoding, with the tensors of the cache
as inputs and outputs. Heights and widths are free where the model takes any. A graph on the rung
`real` decides as the example did (`allow_baked=True`).

{_TITLES}""" + "\n".join(map(str, entries)) + "\n"  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    entries = []
    for row in ROWS:
        model = row.build()
        begun = time.process_time()
        gm = row.capture(model)
        entries.append(entry_of(row, gm, time.process_time() - begun))
        sys.stderr.write(f"{entries[-1]}\n")
    FILE.write_text(page(entries))


if __name__ == "__main__":
    main()
