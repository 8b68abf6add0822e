"""Wrong arguments of the public calls: each error names the argument, the fact and the remedy."""

import operator
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt.evidence import parameter_table
from fxopt.export import export_program, export_python, to_csv, to_markdown, to_original, to_transformed
from fxopt.testing import check_pass
from fxopt.view import GraphView

LINEAR, X = nn.Linear(4, 3).eval(), torch.rand(2, 4)


class WithConfig(nn.Module):
    config = object()

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return input_ids


def graph() -> GraphModule:
    return fxopt.capture(LINEAR, [X])


def recipe() -> fxopt.Recipe:
    return fxopt.Recipe.of(fxopt.Workbench(graph()))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "names in a text": (lambda: fxopt.trace(WithConfig(), input_names="input_ids"), r"write \['input_ids'\]"),
    "names of a number": (lambda: fxopt.trace(WithConfig(), input_names=3), "a list of names; this is the int 3"),
    "a name that is none": (lambda: fxopt.trace(WithConfig(), input_names=[3]), "one of these is the int 3"),
    "capture a function": (lambda: fxopt.capture(lambda x: x, (1,)), "this is a function .let it be the forward of"),
    "trace a text": (lambda: fxopt.trace("bert"), "fxopt.trace takes a model.*the text 'bert' .build the model first"),
    "trace a class": (lambda: fxopt.trace(WithConfig), "the class WithConfig .make an instance of it"),
    "examples of a text": (lambda: fxopt.example_inputs("bert"), "fxopt.example_inputs takes a model"),
    "capture with a tensor": (lambda: fxopt.capture(LINEAR, X), r"a Tensor .write \[x\] for one tensor x"),
    "capture with a dict": (lambda: fxopt.capture(LINEAR, {"input": X}), "a dict .give keyword arguments as kwargs="),
    "capture with a list of names": (lambda: fxopt.capture(LINEAR, [X], ["a"]), "keyword arguments as a dict"),
    "capture a text": (lambda: fxopt.capture("bert", [X]), "fxopt.capture takes a model"),
    "capture a class": (lambda: fxopt.capture(nn.Linear, [X]), "the class Linear .make an instance"),
    "optimize a text": (lambda: fxopt.optimize("bert"), "fxopt.optimize takes a model"),
    "annotate a text": (lambda: fxopt.annotate("bert"), "fxopt.annotate takes a graph module.*fxopt.capture"),
    "a pass of a number": (lambda: fxopt.as_pass(3), "from graph module to graph module; this is the int 3"),
    "a pass of a pass": (lambda: fxopt.as_pass(fxopt.MergeLinears), "MergeLinears is a pass already"),
    "a pass of a model": (lambda: fxopt.as_pass(LINEAR), "this is a Linear"),
    "a pass as exact as a text": (lambda: fxopt.as_pass(str, exactness="bitwise"), "this is the class str"),
    "an exactness in a text": (lambda: fxopt.as_pass(lambda gm: gm, exactness="x"), "one of Exactness.BITWISE"),
    "a name of a number": (lambda: fxopt.as_pass(lambda gm: gm, name=3), "takes a text; this is the int 3"),
    "replay on a graph": (lambda: recipe().replay(graph()), r"takes a workbench.*fxopt.Workbench\(gm\)"),
    "a recipe of a graph": (lambda: fxopt.Recipe.of(graph()), "Recipe.of takes a workbench"),
    "load a number": (lambda: fxopt.Recipe.load(3), "Recipe.load takes a path; this is the int 3"),
    "JSON of bytes": (lambda: fxopt.Recipe.from_json(b"{}"), "Recipe.from_json takes JSON text; this is a bytes"),
    "a workbench of a text": (lambda: fxopt.Workbench("bert"), "fxopt.Workbench takes a model"),
    "passes of a number": (lambda: fxopt.Workbench(graph(), passes=3), "takes passes in a list"),
    "classes of passes": (lambda: fxopt.Workbench(graph(), passes=[fxopt.MergeLinears]), r"write MergeLinears\(\)"),
    "functions as passes": (lambda: fxopt.Workbench(graph(), passes=[operator.add]), "fxopt.as_pass makes one"),
    "a class turned on": (lambda: fxopt.Workbench(graph()).turn_on(fxopt.MergeLinears), "write its name, or call it"),
    "an edit of a text": (lambda: fxopt.Workbench(graph()).edit("relu"), "an edit by hand, of fxopt.edits"),
    "the fingerprint of a model": (lambda: fxopt.fingerprint(LINEAR), "fxopt.fingerprint takes a graph module"),
    "bytes of a model": (lambda: fxopt.bytes_retained(LINEAR), "fxopt.bytes_retained takes a graph module"),
    "a pass over a model": (
        lambda: fxopt.MergeLinears()(LINEAR),
        "MergeLinears takes a graph module",
    ),
    "a picture of a text": (lambda: GraphView.of("x"), "GraphView.of takes a graph module; this is the text 'x'"),
    "check on a number": (lambda: check_pass(fxopt.MergeLinears(), 3), r"models in a list.*this is the int 3"),
    "check on a model": (lambda: check_pass(fxopt.MergeLinears(), LINEAR), r"models in a list.*this is a Linear"),
    "check on models alone": (lambda: check_pass(fxopt.MergeLinears(), [LINEAR]), "one of these is a Linear"),
    "check with a tensor": (lambda: check_pass(fxopt.MergeLinears(), [(LINEAR, X)]), r"a Tensor .write \(x,\)"),
    "tensors of a number": (lambda: fxopt.with_tensors(3, weight=X), "takes a torch.nn.Module; this is the int 3"),
    "tensors misspelled": (
        lambda: fxopt.with_tensors(LINEAR, weigth=X),
        "no parameter weigth; it has weight, bias",
    ),
    "a tensor of a number": (lambda: fxopt.with_tensors(LINEAR, weight=3), "a tensor or None; this is the int 3"),
    "export a model": (lambda: export_python(LINEAR, "x"), "export_python takes a graph module"),
    "export to a number": (lambda: export_python(graph(), 3), "takes a path; this is the int 3"),
    "export with a tensor": (lambda: export_program(graph(), X), "a tuple or list; this is a Tensor"),
    "a table of a number": (lambda: to_csv(3), "to_csv takes a pandas.DataFrame.*this is the int 3"),
    "Markdown of a graph": (lambda: to_markdown(graph()), "to_markdown takes a pandas.DataFrame, or a report"),
    "weights of a model": (lambda: to_original(LINEAR), "to_original takes a graph module"),
    "weights in a number": (lambda: to_transformed(graph(), 3), "weights by name"),
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_argument_is_told_with_the_fact_and_the_remedy(call: str) -> None:
    act, told = WRONG[call]
    with pytest.raises(fxopt.FxoptError, match=told):
        act()


def test_a_file_that_fxopt_writes_has_the_mode_that_the_umask_says(tmp_path: Path) -> None:
    made = export_python(graph(), tmp_path / "out")
    recipe().save(tmp_path / "work.json")
    (tmp_path / "like").touch()
    modes = {stat.S_IMODE(file.stat().st_mode) for file in (made.code, made.weights, tmp_path / "work.json")}
    assert modes == {stat.S_IMODE((tmp_path / "like").stat().st_mode)}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["like", "out", "work.json"]


def test_an_example_that_misfits_a_graph_is_told_once_and_torch_logs_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(fxopt.FxoptWarning, match="shapes stop at"):
        fxopt.annotate(torch.fx.symbolic_trace(LINEAR), torch.rand(2, 5))
    with pytest.warns(fxopt.FxoptWarning, match=r"give the parts: fxopt.annotate\(gm, \*example\)"):
        fxopt.annotate(torch.fx.symbolic_trace(LINEAR), [torch.rand(2, 5)])
    assert capfd.readouterr() == ("", "")


def test_a_report_is_a_table_as_its_frame_is() -> None:
    report = parameter_table(graph(), graph())
    assert to_csv(report) == to_csv(report.frame)
    assert to_markdown(report, "Parameters") == to_markdown(report.frame, "Parameters")
