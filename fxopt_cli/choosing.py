"""The commands that choose among sites by runs: ``bisect`` and ``autotune``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.options import Budget, Choice, ModelArgument, Sizes, Tables
from fxopt_cli.output import Answer, Exit, Form, Table, progress, show
from fxopt_cli.rewriting import recipe_of
from fxopt_cli.sources import check_target
from fxopt_cli.work import Bench, model_data, passes_data, worked

Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Save the work without the sites that go, as a recipe (JSON)."),
]


def bisect(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Tables,
    slower: Annotated[
        bool, typer.Option("--slower", help="Look for the sites that make it slower, in place of those that break it.")
    ] = False,
    budget: Budget = 60.0,
    save: Save = None,
) -> None:
    """Find the smallest sets of sites that break the outputs, or make the model slower, by running ever smaller sets.

    The exit code is 1 where there is such a set.

    \b
    Examples:
      fxopt bisect bert-base --all
      fxopt bisect digits_conv_net --recipe broken.json --save mended.json
      fxopt bisect resnet-50 --all --slower --budget 300
    """
    form = output.form
    check_target("--save", save)
    made = worked(model, sizes, choice, form)
    given, wb = made.given, made.wb
    with progress("looking", form) as tell:
        from fxopt.workbench.bisecting import bisect as search

        def told(share: float) -> None:
            tell(f"{share:.0%} of the time")

        question: Any = "latency" if slower else "outputs"
        kwargs = dict(given.kwargs)
        found = search(wb, given.args, kwargs, question=question, budget=budget, on_progress=told)
    passes = passes_data(wb)
    wb.choose(found.choices)
    _save(made, save)
    data = {
        "model": model_data(given),
        "passes": passes,
        "question": found.question,
        "verdict": found.verdict,
        "groups": [[{"pass": one.pass_name, "site": one.site} for one in group] for group in found.groups],
        "after": found.after,
        "tried": [{"sites": len(one.sites), "fails": one.fails, "verdict": one.verdict} for one in found.tried],
        "stopped": found.stopped,
        "recipe": str(save) if save is not None else None,
    }
    groups = [(i + 1, one.pass_name, one.site) for i, group in enumerate(found.groups) for one in group]
    runs = [(i + 1, len(one.sites), one.fails, one.verdict) for i, one in enumerate(found.tried)]
    tables = [
        *([Table("Sites to blame", ("set", "pass", "site"), groups)] if groups else []),
        Table("Runs", ("run", "sites", "fails", "verdict"), runs),
    ]
    lines = [found.verdict, *([f"saved without them as {save}"] if save is not None else [])]
    show(Answer(data, lines, tables), form, "bisect")
    if found.groups:
        raise typer.Exit(Exit.no)


def autotune(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Tables,
    budget: Budget = 30.0,
    save: Save = None,
) -> None:
    """Keep the sites that pay on this machine for these inputs, and leave the others out, each with its evidence.

    \b
    Examples:
      fxopt autotune bert-base --all --budget 60 --save fast.json
      fxopt autotune model.py:make_model -p PackLinears --json
    """
    form = output.form
    check_target("--save", save)
    made = worked(model, sizes, choice, form)
    given, wb = made.given, made.wb
    with progress("measuring", form) as tell:
        from fxopt.workbench.autotuning import autotune as tune

        def told(share: float) -> None:
            tell(f"{share:.0%}")

        found = tune(wb, given.args, dict(given.kwargs), budget=budget, on_progress=told)
    wb.choose(found.choices)
    _save(made, save)
    latency = found.latency
    sites = [
        {
            "pass": one.pass_name,
            "sites": list(one.sites),
            "kept": one.kept,
            "saves_us": _micro(one.nodes),
            "saves_with_readers_us": _micro(one.readers),
            "reason": one.reason,
        }
        for one in found.sites
    ]
    data = {
        "model": model_data(given),
        "passes": passes_data(wb),
        "verdict": found.verdict,
        "sites": sites,
        "ratio": latency.ratio if latency is not None else None,
        "interval": [latency.low, latency.high] if latency is not None else [],
        "seconds": found.seconds,
        "stopped": found.stopped,
        "recipe": str(save) if save is not None else None,
    }
    rows = [(one.pass_name, len(one.sites), one.sites[0], one.kept, one.reason) for one in found.sites]
    short = Table("", ("pass", "sites", "first", "kept", "evidence"), rows)
    whole = Table("", tuple(found.frame.columns), list(found.frame.itertuples(index=False)))
    lines = [found.verdict, *([f"saved as {save}"] if save is not None else [])]
    show(Answer(data, lines, [short if form is Form.table else whole]), form, "autotune")


def _micro(saving: Any) -> list[float]:
    """Return a saving and its interval in microseconds; empty if it was not measured."""
    return [1e6 * one for one in saving or ()]


def _save(made: Bench, file: Path | None) -> None:
    if file is not None:
        recipe_of(made).save(file)
