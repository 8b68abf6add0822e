"""The commands that keep work: ``replay`` and ``export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.names import complete_model
from fxopt_cli.options import AsJson, Batch, Every, Inputs, ModelArgument, Only, Passes, RecipeFile, Without, form_of
from fxopt_cli.options import Sequence as Tokens
from fxopt_cli.output import Answer, Exit, counted, progress, show
from fxopt_cli.sources import UsageError
from fxopt_cli.work import Choice, Wanted, captured, model_data, passes_data, passes_table, worked

RecipeArgument = Annotated[Path, typer.Argument(metavar="RECIPE", help="The JSON file of a recipe.")]
OtherModel = Annotated[
    str | None,
    typer.Argument(
        metavar="[MODEL]",
        help="The model, where it is another one than in the recipe. A recipe never runs code: name a model in Python "
        "here yourself.",
        autocompletion=complete_model,
    ),
]


def replay(
    recipe: RecipeArgument,
    model: OtherModel = None,
    batch: Batch = None,
    sequence: Tokens = None,
    input: Inputs = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Where parts of the recipe no longer apply, apply the rest.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Do the work of a recipe again, and say whether the result is the same.

    The exit code is 1 where a part of it no longer applies, or the same model comes to another result.

    \b
    Examples:
      fxopt replay merged.json
      fxopt replay merged.json model.py:make_model --rest
    """
    form = form_of(json)
    with progress("importing torch", form):
        from fxopt import Recipe
    loaded = Recipe.load(recipe)
    bench = captured(_wanted(loaded, recipe, model, batch, sequence, input or ()), form, loaded.passes())
    with progress("replaying", form):
        found = loaded.replay(bench.wb, strict=not rest)
    data = {
        "recipe": str(recipe),
        "model": model_data(bench.given),
        "passes": passes_data(bench.wb),
        "sites_on": found.sites_on,
        "is_same_model": found.is_same_model,
        "is_same": found.is_same,
        "problems": [
            {"step": one.step, "name": one.name, "site": one.site, "reason": one.reason, "remedy": one.remedy}
            for one in found.problems
        ],
        "new_sites": [{"name": name, "site": site} for name, site in found.new_sites],
        "versions": found.versions,
    }
    show(Answer(data, _lines(found), [passes_table(bench.wb)]), form, "replay")
    if found.problems:
        raise typer.Exit(Exit.no)


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Write here; made if it is missing.")],
    name: Annotated[str, typer.Option("--name", help="Of the files: NAME.py and NAME.safetensors.")] = "model",
    batch: Batch = None,
    sequence: Tokens = None,
    input: Inputs = None,
    pass_: Passes = None,
    every: Every = False,
    only: Only = None,
    without: Without = None,
    recipe: RecipeFile = None,
    json: AsJson = False,
) -> None:
    """Write the graph, with passes on if you name some, as a Python file and safetensors that need torch alone.

    \b
    Examples:
      fxopt export digits_conv_net -p FuseBatchNorm2dInConv2d -o exported
      fxopt export model.py:make_model --recipe merged.json -o exported --name merged
    """
    form = form_of(json)
    if not name.isidentifier():
        raise UsageError(f"--name {name}: it cannot be imported; give a name such as model")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: this is a file; give a folder")
    wanted = Wanted(model, batch, sequence, input or ())
    bench = worked(wanted, Choice(pass_ or (), every, only or (), without or (), recipe), form, needed=False)
    with progress("writing", form):
        from fxopt.export import export_python

        made = export_python(bench.wb.current, out, name)
    data = {
        "model": model_data(bench.given),
        "passes": passes_data(bench.wb),
        "code": str(made.code),
        "weights": str(made.weights),
        "bytes": made.weights.stat().st_size,
        "remarks": made.remarks,
    }
    lines = [
        f"{made.code} and {made.weights} ({data['bytes']:,} bytes)",
        f"in that folder: from {name} import load; model = load()",
        *(f"note: {remark}" for remark in made.remarks),
    ]
    show(Answer(data, lines), form, "export")


def _wanted(loaded: Any, file: Path, model: str | None, batch: int | None, sequence: int | None, inputs: Any) -> Wanted:
    kind, name = loaded.model.kind, loaded.model.name
    if model is None and kind not in ("zoo", "folder"):
        where = f"{name} in Python" if kind == "python" else f"a {name} that a script had"
        raise UsageError(
            f"{file} was made on {where}, and a recipe never runs code: give the model, fxopt replay {file} MODEL"
        )
    if model is not None:
        return Wanted(model, batch, sequence, inputs)
    return Wanted(name, batch or loaded.batch, sequence or loaded.sequence, inputs)


def _lines(found: Any) -> list[str]:
    on = f"{counted(found.sites_on, 'site')} on"
    if found.is_same and not found.problems:
        lines = [f"{on}: the same graph and weights as in the recipe, to the last bit"]
    elif found.is_same_model:
        lines = [f"{on}; the model is that of the recipe, and the result is another one"]
    else:
        fits = "all of the recipe applies" if not found.problems else "not all of the recipe applies"
        lines = [f"{on}; graph or weights of the model are others than in the recipe, and {fits}"]
    lines += [f"left out: {problem}" for problem in found.problems]
    lines += [f"new here, and off: {name} at {site}" for name, site in found.new_sites]
    return [*lines, *found.versions]
