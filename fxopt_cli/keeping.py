"""The commands that keep work: ``replay`` and ``export``."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any

import typer

from fxopt_cli.names import complete_model, complete_recipe, model_names
from fxopt_cli.options import Choice, ModelArgument, Plain, Sizes
from fxopt_cli.output import Answer, Exit, Form, counted, progress, show
from fxopt_cli.sources import UsageError
from fxopt_cli.work import captured, model_data, passes_data, passes_table, worked


class ExportKind(StrEnum):
    """The form of an export."""

    python = "python"
    pt2 = "pt2"
    onnx = "onnx"


_OTHERS = {
    **dict.fromkeys((".svg", ".png", ".pdf", ".dot"), "fxopt draw writes the graph as a picture"),
    ".html": "fxopt compare --html FILE writes the comparison as one page",
}
"""The commands that write files of other kinds, by suffix."""

RecipeArgument = Annotated[
    Path, typer.Argument(metavar="RECIPE", help="The JSON file of a recipe.", autocompletion=complete_recipe)
]
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
    sizes: Sizes,
    output: Plain,
    model: OtherModel = None,
    rest: Annotated[
        bool, typer.Option("--rest", help="Where parts of the recipe no longer apply, apply the rest.")
    ] = False,
) -> None:
    """Do the work of a recipe again, and say whether the result is the same.

    The exit code is 1 where a part of it no longer applies, or the same model comes to another result.

    \b
    Examples:
      fxopt replay merged.json
      fxopt replay merged.json model.py:make_model --rest
    """
    form = output.form
    with progress("importing torch", form):
        from fxopt import Recipe
    loaded = Recipe.load(recipe)
    bench = captured(*_model_of(loaded, recipe, model, sizes), form, loaded.passes())
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
    if found.problems or (found.is_same_model and not found.is_same):
        raise typer.Exit(Exit.no)


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Write here; made if it is missing.")],
    sizes: Sizes,
    choice: Choice,
    output: Plain,
    name: Annotated[str, typer.Option("--name", help="Of the files: NAME.py and NAME.safetensors.")] = "model",
    kind: Annotated[
        ExportKind, typer.Option("--as", help="Python and safetensors, a program of torch.export, or ONNX.")
    ] = ExportKind.python,
) -> None:
    """Write the graph, with passes on if you name some, as files that need neither fxopt nor the model's code.

    It is a Python file and safetensors that need torch alone, unless --as says pt2 or onnx: NAME.pt2, NAME.onnx.

    \b
    Examples:
      fxopt export digits_conv_net -p FuseBatchNorm2dInConv2d -o exported
      fxopt export model.py:make_model --recipe merged.json -o exported --name merged
      fxopt export digits_conv_net --as pt2 -o exported
    """
    form = output.form
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"--name {name}: it cannot be imported; give a name such as model")
    if out.exists() and not out.is_dir():
        raise UsageError(f"--out {out}: this is a file; give a folder")
    if out.suffix in (".py", ".pt2", ".onnx", ".safetensors") and not out.is_dir():
        there = f"--out {out.parent} --name {out.stem}"
        raise UsageError(f"--out {out}: give a folder, and the name of the files by itself: {there}")
    if out.suffix in _OTHERS and not out.is_dir():
        raise UsageError(f"--out {out}: export writes code and weights into a folder; {_OTHERS[out.suffix]}")
    bench = worked(model, sizes, choice, form, needed=False)
    if kind is not ExportKind.python:
        _export_program(bench, out, name, kind, form)
        return
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


def _export_program(bench: Any, out: Path, name: str, kind: ExportKind, form: Form) -> None:
    from fxopt.errors import remarks
    from fxopt.export import ExportError, export_onnx, program_bytes

    given, file = bench.given, out / f"{name}.{kind}"
    with progress("writing", form), remarks() as made:
        try:
            out.mkdir(parents=True, exist_ok=True)
            if kind is ExportKind.onnx:
                export_onnx(bench.wb.current, file, given.args, given.kwargs)
            else:
                file.write_bytes(program_bytes(bench.wb.current, given.args, given.kwargs))
        except OSError as error:
            raise ExportError([f"{file} cannot be written ({error.strerror})"], kind) from None
    data = {
        "model": model_data(given),
        "passes": passes_data(bench.wb),
        "file": str(file),
        "bytes": file.stat().st_size,
        "remarks": made,
    }
    lines = [f"{file} ({data['bytes']:,} bytes)", *(f"note: {remark}" for remark in made)]
    show(Answer(data, lines), form, "export")


def _model_of(loaded: Any, file: Path, model: str | None, sizes: Sizes) -> tuple[str, Sizes]:
    """Return the model to replay on, and its sizes: those of the recipe, unless others are given."""
    kind, name = loaded.model.kind, loaded.model.name
    if model is None and kind not in ("zoo", "folder"):
        where = f"{name} in Python" if kind == "python" else f"a {name} that a script had"
        raise UsageError(
            f"{file} was made on {where}, and a recipe never runs code: give the model, fxopt replay {file} MODEL"
        )
    if model is not None:
        return model, sizes
    if not _is_data(kind, name):
        raise UsageError(f"{file} was made on {name}, which is not here; give the model, fxopt replay {file} MODEL")
    return name, replace(sizes, batch=sizes.batch or loaded.batch, sequence=sizes.sequence or loaded.sequence)


def _is_data(kind: str, name: str) -> bool:
    """Return whether the name in a recipe is that of weights alone. It may come from a stranger, and name code."""
    from fxopt.models.hugging_face import is_hub_id

    if kind == "zoo":
        return name in model_names()
    return Path(name).is_dir() or (is_hub_id(name) and not name.endswith((".pt2", ".py")))


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
