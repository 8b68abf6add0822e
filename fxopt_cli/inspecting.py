"""The commands that look: ``models``, ``passes``, ``capture``, ``scan`` and ``draw``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.options import Choice, Code, ModelArgument, Passes, Plain, Sizes, Tables
from fxopt_cli.output import Answer, Form, Table, counted, progress, show
from fxopt_cli.sources import UsageError, check_target
from fxopt_cli.work import captured, model_data, pass_of, worked


def models(output: Tables) -> None:
    """List the built-in models.

    \b
    Examples:
      fxopt models
      fxopt models --json
    """
    form = output.form
    with progress("importing torch", form):
        from fxopt.models import ZOO
    found = [{"name": one.key, "title": one.title, "description": one.description} for one in ZOO]
    rows = [tuple(one.values()) for one in found]
    show(Answer({"models": found}, tables=[Table("", ("name", "model", "description"), rows)]), form, "models")


def passes(output: Tables) -> None:
    """List the passes, the rewrite that each makes, and the package that brings it.

    Those on request are approximate: `--pass` takes them, and `--all` leaves them out.

    \b
    Examples:
      fxopt passes
      fxopt passes --markdown > passes.md
    """
    form = output.form
    with progress("importing torch", form):
        from fxopt.errors import remarks
        from fxopt.passes import APPROXIMATE_PASSES, others_installed, registered_passes

        with remarks():  # they are told below
            others = others_installed()
    found, rows = [], []
    for kind in (*registered_passes(), *APPROXIMATE_PASSES):
        one = kind()
        arguments = {} if kind.__init__ is object.__init__ else dict(inspect.signature(kind).parameters)
        defaults = {name: each.default for name, each in arguments.items()}
        package = others.package_of(one) or "fxopt"
        row = {"name": one.name, "summary": one.summary, "arguments": defaults, "package": package}
        found.append(row | {"on_request": kind in APPROXIMATE_PASSES})
        asked = ", on request" if kind in APPROXIMATE_PASSES else ""
        rows.append((one.name, one.summary, _arguments(defaults), package + asked))
    columns = ("pass", "rewrite", "arguments", "package")
    left_out = [str(one) for one in others.refused]
    answer = Answer({"passes": found, "left_out": left_out}, tables=[Table("", columns, rows)], notes=left_out)
    show(answer, form, "passes")


def _arguments(defaults: Any) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in defaults.items())


def capture(
    model: ModelArgument,
    sizes: Sizes,
    output: Tables,
    code: Code = False,
) -> None:
    """Capture a model as a graph, and tell how: free sizes, conditions, nodes.

    The tables of --csv and --markdown, and "nodes" of --json, hold each node with its shape.

    \b
    Examples:
      fxopt capture bert-base --batch 2 --sequence 64
      fxopt capture my_package.models:make_model --input 2x3x224x224
      fxopt capture model.py:make_model --code
    """
    form = output.form
    bench = captured(model, sizes, form, ())
    gm = bench.wb.pristine
    report = gm.meta["fxopt"]
    nodes = [_node(node) for node in gm.graph.nodes]
    data = {
        "model": model_data(bench.given),
        "way": report.rung,
        "verified": report.verified,
        "seconds": report.seconds,
        "free": report.free,
        "fixed": [str(one) for one in report.fixed],
        "baked": [str(one) for one in report.baked],
        "notes": report.notes,
        "inputs": [{"name": one["name"], "value": one["value"]} for one in nodes if one["op"] == "placeholder"],
        "nodes": nodes,
        "fingerprint": bench.wb.portable_fingerprints()[0],
    }
    lines = [
        f"{bench.given.title}: {len(nodes):,} nodes, {_WAYS.get(report.rung, report.rung)} in {report.seconds:.1f} s"
        + (", replayed against the model" if report.verified else ""),
        *(f"free: {name} ({where})" for name, where in report.free.items()),
        *(f"fixed: {one}" for one in data["fixed"]),
        *(f"baked: {one}" for one in data["baked"]),
        *(f"note: {one}" for one in report.notes),
    ]
    columns = ("name", "op", "target", "value", "module", "source")
    table = Table("", columns, [tuple(one[column] for column in columns) for one in nodes])
    whole = Answer(data, lines, [table] if form is not Form.table else (), gm.code.strip() if code else "")
    show(whole, form, "capture")


_WAYS = {
    "plain": "traced by torch.fx",
    "symbolic": "captured with free sizes",
    "fixed": "captured at fixed sizes",
    "real": "captured with values of the example in it",
    "given": "given as a graph",
}


def _node(node: Any) -> dict[str, Any]:
    from fxopt.graph.nodes import info_of, module_stack_of, source_of, target_name

    source, stack = source_of(node), module_stack_of(node)
    return {
        "name": node.name,
        "op": node.op,
        "target": target_name(node),
        "inputs": [other.name for other in node.all_input_nodes],
        "value": str(info_of(node) or ""),
        "module": stack[-1][0] if stack else "",
        "source": f"{source.file}:{source.line}" if source is not None else "",
    }


def scan(
    model: ModelArgument,
    sizes: Sizes,
    output: Tables,
    passes: Passes = None,
    most: Annotated[int, typer.Option("--most", min=0, help="Show so many sites and near misses of each pass.")] = 5,
) -> None:
    """Show where passes apply, and why they leave other places alone.

    JSON, CSV and Markdown hold all of them. The near misses are sorted, the nearest first.

    \b
    Examples:
      fxopt scan bert-base
      fxopt scan google-bert/bert-base-uncased
      fxopt scan resnet-50 -p FuseBatchNorm2dInConv2d --most 20
      fxopt scan model.py:make_model --json
    """
    form = output.form
    bench = captured(model, sizes, form, [pass_of(text) for text in passes] if passes else None)
    states = bench.wb.states
    data = {"model": model_data(bench.given), "passes": [_scanned(state) for state in states]}
    if form is Form.table:
        tables = [_short_table(state, most) for state in states if state.sites or state.misses or state.error]
    else:
        rows = [(state.name, *row) for state in states for row in (*_applies(state), *_misses(state))]
        tables = [Table("", ("pass", *_SCANNED), rows)]
    silent = [state.name for state in states if not state.sites and not state.misses and not state.error]
    lines = [f"no site and no near miss: {', '.join(silent)}"] if silent else []
    show(Answer(data, lines, tables), form, "scan")


_SCANNED = ("answer", "node", "why")


def _short_table(state: Any, most: int) -> Table:
    """Return the first sites and near misses of a pass as a table, which says how many there are."""
    sites, misses = list(_applies(state)), list(_misses(state))
    rows = [*sites[:most], *misses[:most]]
    left = len(sites) + len(misses) - len(rows)
    rows += [("", "", f"and {left} more (--most {max(len(sites), len(misses))} shows all)")] if left else []
    many = f"{counted(len(sites), 'site')}, {counted(len(misses), 'near miss', 'near misses')}"
    return Table(f"{state.name}: {many}", _SCANNED, rows)


def _scanned(state: Any) -> dict[str, Any]:
    sites = [
        {"site": one.site, "id": one.id, "nodes": one.nodes, "explanation": one.explanation,
         "exactness": one.exactness.name.lower()}
        for one in state.sites
    ]  # fmt: skip
    missed = [
        {"site": one.site, "reason": one.reason, "remedy": one.remedy, "actual": one.actual, "needed": one.needed}
        for one in state.misses
    ]
    return {"name": state.name, "sites": sites, "misses": missed, "seconds": state.seconds, "error": state.error}


def _applies(state: Any) -> Iterator[tuple[str, str, str]]:
    for one in state.sites:
        yield "applies", one.site, one.explanation
    if state.error:
        yield "failed", state.failed_at, state.error


def _misses(state: Any) -> Iterator[tuple[str, str, str]]:
    for one in state.misses:
        yield "leaves alone", one.site, one.reason + (f" ({one.remedy})" if one.remedy else "")


def draw(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Plain,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="Write to a file ending in .svg, .png, .pdf or .dot; else DOT."
        ),
    ] = None,
    unfold: Annotated[bool, typer.Option("--unfold", help="Open every module; else only the outer ones.")] = False,
) -> None:
    """Draw the graph, with passes on if you name some, as a picture or DOT.

    \b
    Examples:
      fxopt draw bert-base -o bert.svg
      fxopt draw bert-base -p MergeLinears --unfold -o merged.dot
    """
    form = output.form
    if out is not None and out.suffix not in (".svg", ".png", ".pdf", ".dot"):
        raise UsageError(f"--out {out}: give a file that ends in .svg, .png, .pdf or .dot")
    check_target("--out", out)
    bench = worked(model, sizes, choice, form, needed=False)
    from fxopt.view import GraphView, default_unfolded, to_dot, to_picture

    view = GraphView.of(bench.wb.current)
    dot = to_dot(view, None if unfold else default_unfolded(view))
    data = {"model": model_data(bench.given), "nodes": len(view.nodes), "file": str(out) if out else None, "dot": dot}
    if out is None:
        show(Answer(data, text=dot), form, "draw")
        return
    with progress("drawing", form):
        content = dot.encode() if out.suffix == ".dot" else to_picture(dot, out.suffix[1:])  # type: ignore[arg-type]
    written(out, content)
    show(Answer(data, [f"{out}: {len(view.nodes):,} nodes"]), form, "draw")


def written(out: Path, content: bytes) -> None:
    """Write a file.

    Raises:
        UsageError: it cannot be written.
    """
    try:
        out.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror})") from None
