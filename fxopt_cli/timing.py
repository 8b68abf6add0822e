"""The command that says where time and memory go: ``times``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxopt_cli.options import Budget, Choice, ModelArgument, Sizes, Tables
from fxopt_cli.output import Answer, Form, Table, progress, show
from fxopt_cli.work import captured, model_data, passes_data, worked

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch.fx import GraphModule

    from fxopt.evidence import NodeTimes

_FEW = 12


def times(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Tables,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=1000, help="Calls to measure.")] = 15,
    budget: Budget = 30.0,
) -> None:
    """Measure the time of each node, and the most that each pass can bring by it, on one thread of this machine.

    The memory is counted without a run: the most bytes of tensors that live at once, beside weights and inputs.
    The times are of the graph with the chosen passes on; the ceilings are of the passes on the original.

    \b
    Examples:
      fxopt times bert-base
      fxopt times gpt2 -p ChangeAddmmToLinear -p PackLinears --json
    """
    form = output.form
    made = captured(model, sizes, form) if choice.is_empty else worked(model, sizes, choice, form)
    given, wb = made.given, made.wb
    with progress("measuring", form) as tell:
        from fxopt.evidence import demand_of, node_times
        from fxopt.workbench.ceilings import ceilings

        def told(share: float) -> None:
            tell(f"{share:.0%}")

        def measured(gm: GraphModule) -> NodeTimes:
            is_shown = gm is wb.current or not wb.is_changed
            return node_times(
                gm, given.args, given.kwargs, rounds=rounds, budget=budget, kernels=is_shown, on_progress=told
            )

        original = measured(wb.pristine)
        now = measured(wb.current) if wb.is_changed else original
        most = ceilings(original, wb.another().states)
        demand = demand_of(wb.current, given.args, dict(given.kwargs))
    passes = [
        {"pass": name, "share": one.share, "speedup": one.speedup if one.share < 1 else None}
        for name, one in most.items()
    ]
    data = {
        "model": model_data(given),
        "passes": passes_data(wb),
        "whole_ms": now.whole * 1000,
        "kernel_share": now.kernel_share,
        "rounds": now.rounds,
        "peak_bytes": demand.peak_bytes,
        "peak_at": demand.at,
        "calls": now.by_call.to_dict("records"),
        "modules": now.by_module().to_dict("records"),
        "nodes": now.frame.to_dict("records"),
        "ceilings": passes,
    }
    lines = [
        f"a call takes {now.whole * 1000:.3g} ms of CPU time; {now.rounds} rounds",
        f"{now.kernel_share or 0:.0%} of the time is in kernels; the rest is Python, dispatch, views and memory",
        f"at {demand.at}, tensors of {demand.peak_bytes:,} bytes live at once, beside weights and inputs",
    ]
    show(Answer(data, lines, _tables(now, passes, short=form is Form.table)), form, "times")


def _tables(now: NodeTimes, passes: list[dict[str, Any]], *, short: bool) -> list[Table]:
    """Return the tables: the whole, or with `short` the figures for a reader."""
    most = "Passes: share of the original's time, and speed-up at most"
    if not short:
        return [
            Table("Calls", tuple(now.by_call.columns), list(now.by_call.itertuples(index=False))),
            Table("Modules", tuple(now.by_module().columns), list(now.by_module().itertuples(index=False))),
            Table(most, ("pass", "share", "speedup"), [tuple(one.values()) for one in passes]),
            Table("Nodes", tuple(now.frame.columns), list(now.frame.itertuples(index=False))),
        ]
    ceilings = [(one["pass"], f"{one['share']:.1%}", f"{one['speedup'] or math.inf:.2f}x") for one in passes]
    return [
        _most(now.by_call, "calls"),
        _most(now.by_module(), "modules"),
        Table(most, ("pass", "share", "at most"), ceilings),
    ]


def _most(frame: DataFrame, what: str) -> Table:
    """Return the first rows of a table of times for a reader."""
    rows = [
        (group or "(the model itself)", nodes, f"{us:.0f}", f"{share:.1%}", f"{kernel:.0f}", f"{overhead:.0f}")
        for group, nodes, us, share, kernel, overhead in frame[:_FEW].itertuples(index=False)
    ]
    title = what.capitalize() if len(frame) <= _FEW else f"The {_FEW} {what} that take most"
    return Table(title, (str(frame.columns[0]), "nodes", "us", "share", "kernel us", "overhead us"), rows)
