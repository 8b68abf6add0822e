"""The commands that judge a rewrite: ``compare`` and ``bench``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fxopt_cli.options import Budget, Choice, ModelArgument, Sizes, Tables
from fxopt_cli.output import Answer, Exit, Form, Table, counted, progress, show
from fxopt_cli.sources import UsageError, check_target
from fxopt_cli.work import Bench, model_data, passes_data, worked

if TYPE_CHECKING:
    from fxopt import Workbench
    from fxopt.evidence import NumericsReport
    from fxopt.evidence.engines import EngineRow

_PARAMETERS = ("module", "class", "parameters before", "parameters after", "bytes before", "bytes after", "change")


def compare(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Tables,
    reference: Annotated[
        bool,
        typer.Option(
            "--reference/--no-reference", help="Judge by the original in float64, which takes twice its memory."
        ),
    ] = True,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write the comparison as one page too, which opens from disk."),
    ] = None,
) -> None:
    """Compare the rewritten graph with the original: outputs, judged by rounding, and parameters.

    The exit code is 1 where rounding does not explain the difference.

    \b
    Examples:
      fxopt compare bert-base -p MergeLinears
      fxopt compare resnet-50 --all --markdown
      fxopt compare model.py:make_model --recipe merged.json --json
      fxopt compare bert-base -p MergeLinears --html merged.html
    """
    form = output.form
    check_target("--html", html)
    bench = worked(model, sizes, choice, form)
    with progress("running both", form):
        from fxopt.evidence import compare_outputs, parameter_table

        wb, given = bench.wb, bench.given
        numerics = compare_outputs(wb.pristine, wb.current, [(given.args, dict(given.kwargs))], reference=reference)
        parameters = parameter_table(wb.pristine, wb.current)
    outputs = [_output(one) for one in numerics.outputs]
    changed = [asdict(row) for row in parameters.changed_rows]
    data = {
        "model": model_data(given),
        "passes": passes_data(wb),
        "numerics": {
            "fits": numerics.fits,
            "identical": numerics.identical,
            "verdict": numerics.verdict,
            "outputs": outputs,
            "not_covered": numerics.not_covered,
        },
        "parameters": {"before": asdict(parameters.before), "after": asdict(parameters.after), "changed": changed},
        "html": str(html) if html is not None else None,
    }
    if html is not None:
        _write_page(html, wb, given.title, numerics)
    lines = [f"outputs: {numerics.verdict}", f"parameters: {parameters.summary}"]
    lines += [f"not covered: {one}" for one in numerics.not_covered]
    tables = (_short_tables if form is Form.table else _whole_tables)(outputs, changed)
    show(Answer(data, lines, tables), form, "compare")
    if numerics.fits is False:
        raise typer.Exit(Exit.no)


def _write_page(file: Path, wb: Workbench, title: str, numerics: NumericsReport) -> None:
    from fxopt.ui.report import comparison_html

    try:
        file.write_text(comparison_html(wb, title, numerics=numerics), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {file}: it cannot be written ({error.strerror})") from None


def _short_tables(outputs: list[dict[str, Any]], changed: list[dict[str, Any]]) -> list[Table]:
    """Return the tables that fit a terminal."""
    verdicts = [(one["name"], one["shape"], one["verdict"]) for one in outputs]
    rows = [
        (one["path"], one["kind"], one["parameters_before"], one["parameters_after"], one["what"]) for one in changed
    ]
    found = [
        Table("Outputs", ("name", "shape", "verdict"), verdicts if len(outputs) > 1 else ()),
        Table("Parameters that changed", ("module", "class", "before", "after", "change"), rows),
    ]
    return [one for one in found if one.rows]


def _whole_tables(outputs: list[dict[str, Any]], changed: list[dict[str, Any]]) -> list[Table]:
    return [
        Table("Outputs", tuple(outputs[0]) if outputs else ("name",), [tuple(one.values()) for one in outputs]),
        Table("Parameters", _PARAMETERS, [_row(row) for row in changed]),
    ]


def _output(one: Any) -> dict[str, Any]:
    found = one.difference
    return {
        "name": one.name,
        "shape": one.shape,
        "dtype": one.dtype,
        "fits": one.fits,
        "max_ulp": found.max_ulp if found is not None else None,
        "max_abs": found.max_abs if found is not None else None,
        "error_before": one.error_before,
        "error_after": one.error_after,
        "allowed": one.allowed,
        "verdict": one.verdict,
    }


def _row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("path", "kind", "parameters_before", "parameters_after", "bytes_before", "bytes_after", "what")
    return tuple(row[name] for name in names)


def bench(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Tables,
    rounds: Annotated[int, typer.Option("--rounds", min=6, max=1000, help="Rounds to measure.")] = 15,
    budget: Budget = 60.0,
    engines: Annotated[
        bool,
        typer.Option(
            "--engines", help="Measure the original in torch.compile, ONNX Runtime and OpenVINO too, if installed."
        ),
    ] = False,
) -> None:
    """Measure the latency of the rewritten graph beside the original, on one thread of this machine.

    A difference is claimed only where it exceeds that of the original against itself.

    \b
    Examples:
      fxopt bench resnet-50 -p FuseBatchNorm2dInConv2d
      fxopt bench bert-base --all --rounds 30 --json
      fxopt bench bert-base -p PackLinears --engines
    """
    form = output.form
    made = worked(model, sizes, choice, form)
    with progress("measuring", form) as tell:
        from fxopt.evidence import measure

        def told(share: float) -> None:
            tell(f"{share:.0%}")

        given, wb = made.given, made.wb
        report = measure(
            wb.pristine, wb.current, given.args, dict(given.kwargs), rounds=rounds, budget=budget, on_progress=told
        )
    found = _engines(made, rounds, budget, form) if engines else ()
    rows = [(one.before * 1000, one.after * 1000, one.control * 1000) for one in report.rounds]
    data = {
        "model": model_data(given),
        "passes": passes_data(wb),
        "verdict": report.verdict,
        "shown": report.shown,
        "ratio": report.ratio,
        "interval": [report.low, report.high],
        "control": [report.control_low, report.control_high],
        "before_ms": report.before_ms,
        "after_ms": report.after_ms,
        "rounds": [dict(zip(("before_ms", "after_ms", "control_ms"), row)) for row in rows],
        "threads": report.threads,
        "machine": report.machine,
        "stopped": report.stopped,
        "engines": list(map(_engine, found)),
    }
    lines = [
        report.verdict,
        f"original {report.before_ms:.3g} ms, new {report.after_ms:.3g} ms of CPU time a call; "
        f"{counted(len(report.rounds), 'round')} on {report.machine}",
        *([f"stopped early: {report.stopped}"] if report.stopped else []),
    ]
    columns = ("round", "before ms", "after ms", "before again ms")
    table = Table("", columns, [(i + 1, *row) for i, row in enumerate(rows)])
    tables = [table] if form is not Form.table else []
    if found:
        tables.append(_engine_table(found))
    show(Answer(data, lines, tables), form, "bench")


def _engines(made: Bench, rounds: int, budget: float, form: Form) -> tuple[EngineRow, ...]:
    from fxopt.evidence.engines import compare_engines

    given = made.given
    with progress("engines", form) as tell:
        return compare_engines(
            made.wb.pristine, given.args, dict(given.kwargs), rounds=rounds, budget=budget,
            on_progress=lambda share: tell(f"{share:.0%}"),
        ).rows  # fmt: skip


def _engine(row: EngineRow) -> dict[str, Any]:
    """Return the row of an engine for JSON; figures that there are not are null."""
    latency = row.latency
    return {
        "name": row.name,
        "problem": row.problem or None,
        "verdict": row.verdict,
        "shown": latency.shown if latency is not None else None,
        "ratio": latency.ratio if latency is not None else None,
        "interval": [latency.low, latency.high] if latency is not None else None,
        "control": [latency.control_low, latency.control_high] if latency is not None else None,
        "ms": latency.after_ms if latency is not None else None,
        "setup_s": row.setup_seconds,
        "max_abs": row.max_abs,
        "error": row.numerics.verdict if row.numerics is not None else None,
    }


def _engine_table(rows: Sequence[EngineRow]) -> Table:
    cells = [
        (one.name, one.verdict, *(f"{value:.3g}" if value is not None else "" for value in _figures(one)))
        for one in rows
    ]
    return Table("The original in other engines", ("engine", "verdict", "ms", "set-up s", "max abs error"), cells)


def _figures(row: EngineRow) -> tuple[float | None, ...]:
    return row.latency.after_ms if row.latency is not None else None, row.setup_seconds, row.max_abs
