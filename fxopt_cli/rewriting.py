"""The commands that rewrite: ``apply`` and ``reverse``."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.options import Choice, Code, ModelArgument, Plain, Sizes
from fxopt_cli.output import Answer, Exit, counted, progress, show
from fxopt_cli.sources import check_target
from fxopt_cli.work import Bench, model_data, passes_data, passes_table, worked


def apply(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Plain,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Save the work as a recipe (JSON).")
    ] = None,
    code: Code = False,
) -> None:
    """Apply passes, show where they rewrote the graph, and save the work as a recipe.

    \b
    Examples:
      fxopt apply bert-base -p MergeLinears --save merged.json
      fxopt apply digits_conv_net --all --without FoldBatchNorm:norm
      fxopt apply digits_transformer --only MergeLinears:blocks_0_query --code
    """
    form = output.form
    check_target("--save", save)
    bench = worked(model, sizes, choice, form)
    wb = bench.wb
    before, after = wb.portable_fingerprints()
    if save is not None:
        recipe_of(bench).save(save)
    sites = sum(state.sites_on for state in wb.states)
    nodes = len(wb.pristine.graph.nodes), len(wb.current.graph.nodes)
    data = {
        "model": model_data(bench.given),
        "passes": passes_data(wb),
        "sites_on": sites,
        "nodes_before": nodes[0],
        "nodes_after": nodes[1],
        "fingerprint_before": before,
        "fingerprint_after": after,
        "recipe": str(save) if save is not None else None,
        "code": wb.current.code.strip() if code else None,
    }
    lines = [f"{counted(sites, 'site')} rewritten; {nodes[0]:,} nodes became {nodes[1]:,}"]
    if save is not None:
        again = ["fxopt", "replay", str(save), *_again(bench, model, sizes)]
        lines.append(f"saved as {save}; to do it again: {shlex.join(again)}")
    shown = Answer(data, lines, [passes_table(wb)], wb.current.code.strip() if code else "")
    show(shown, form, "apply")


def _again(bench: Bench, model: str, sizes: Sizes) -> list[str]:
    """Return the arguments that a replay needs beside the recipe: it finds built-in models and folders by itself."""
    if bench.given.source.kind in ("zoo", "folder"):
        return []
    given = [("--batch", sizes.batch), ("--sequence", sizes.sequence), *(("--input", one) for one in sizes.input or ())]
    return [model, *(part for option, value in given if value is not None for part in (option, str(value)))]


def recipe_of(bench: Bench) -> Any:
    """Return the recipe of a command's workbench."""
    from fxopt import Recipe

    return Recipe.of(bench.wb, bench.given.source, batch=bench.given.batch, sequence=bench.given.sequence)


def reverse(
    model: ModelArgument,
    sizes: Sizes,
    choice: Choice,
    output: Plain,
) -> None:
    """Apply passes and reverse them: is the graph the original again, to the last bit?

    Graph, modules, code, and the bytes of all parameters and buffers are compared. The exit code is 1 where it is not.

    \b
    Examples:
      fxopt reverse bert-base --all
      fxopt reverse model.py:make_model -p MergeLinears
    """
    form = output.form
    bench = worked(model, sizes, choice, form)
    from fxopt import fingerprint

    wb = bench.wb
    sites, changed, done = sum(state.sites_on for state in wb.states), fingerprint(wb.current), passes_data(wb)
    start = time.perf_counter()
    with progress("reversing", form):
        wb.reverse_all()
    seconds = time.perf_counter() - start
    restored = fingerprint(wb.current)
    exact = restored == wb.fingerprint
    data = {
        "model": model_data(bench.given),
        "passes": done,
        "sites_reversed": sites,
        "exact": exact,
        "fingerprint_before": wb.fingerprint,
        "fingerprint_changed": changed,
        "fingerprint_restored": restored,
        "seconds": seconds,
    }
    verdict = "restored, bit for bit" if exact else "not the original"
    line = f"{counted(sites, 'site')} rewritten and reversed in {seconds * 1000:.0f} ms: {verdict}"
    show(Answer(data, [line], exit=Exit.yes if exact else Exit.no), form, "reverse")
    if not exact:
        raise typer.Exit(Exit.no)
