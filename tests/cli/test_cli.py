"""The command `fxopt`, as a shell calls it: each act, its JSON, and each kind of wrong input."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from fxopt import ALL_PASSES, Recipe, Workbench
from fxopt.engines.whole import Engine
from fxopt.evidence import engines, latency
from fxopt.export.tables import csv_of, markdown_of
from fxopt.models import ZOO
from fxopt.passes import APPROXIMATE_PASSES
from fxopt.recipes import Model
from fxopt_cli.main import cli
from fxopt_cli.names import complete_model, complete_pass, model_names, pass_names
from tests.cli.models import make

ROOT = Path(__file__).parent.parent.parent
FILE = Path(__file__).parent / "models.py"
NET = f"{FILE}:make"


def call(*arguments: str, code: int = 0) -> str:
    """The text that the command writes to standard output."""
    done = CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def answer(*arguments: str, code: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(*arguments, "--json", code=code))
    return found


def refused(*arguments: str, code: int = 2) -> str:
    """The text that the command writes to standard error, in one line."""
    done = CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "1000"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return " ".join(done.stderr.split())


# ---- each act


def test_the_lists_name_what_there_is_and_so_does_completion() -> None:
    assert [one["name"] for one in answer("models")["models"]] == [source.key for source in ZOO] == model_names()
    found = answer("passes")["passes"]
    known = [kind.__name__ for kind in (*ALL_PASSES, *APPROXIMATE_PASSES)]
    assert [one["name"] for one in found] == known == pass_names()
    assert [one["name"] for one in found if one["on_request"]] == [kind.__name__ for kind in APPROXIMATE_PASSES]
    assert next(one for one in found if one["name"] == "MergeLinears")["arguments"] == {"keep": "copy"}
    assert complete_pass("fusebias") == ["FuseBiasInLinear"]
    assert complete_model("digits_c") == ["digits_conv_net"]


@pytest.mark.slow
def test_capture_tells_sizes_nodes_and_code() -> None:
    found = answer("capture", NET)
    assert found["verified"] is True
    assert found["inputs"] == [{"name": "x", "value": "float32 batch x 1 x 6 x 6"}]
    assert [node["name"] for node in found["nodes"]][:3] == ["x", "conv", "norm"]
    assert found["nodes"][1]["source"].startswith(f"{FILE}:")
    text = call("capture", NET, "--code")
    assert "def forward(self, x" in text
    assert "replayed against the model" in text


@pytest.mark.slow
def test_scan_tells_sites_and_reasons() -> None:
    found = {one["name"]: one for one in answer("scan", NET)["passes"]}
    assert [site["site"] for site in found["FuseBatchNorm2dInConv2d"]["sites"]] == ["norm"]
    assert [site["site"] for site in found["MergeLinears"]["sites"]] == ["q"]
    text = call("scan", f"{FILE}:read_twice", "-p", "FuseBatchNorm2dInConv2d", "-p", "MergeLinears")
    assert "no site and no near miss: MergeLinears" in text
    assert "FuseBatchNorm2dInConv2d: 0 sites, 1 near miss" in text
    assert re.search("leaves alone +norm +conv has other users", text)
    assert call("scan", NET, "--csv").startswith("pass,answer,node,why\n")
    assert call("scan", NET, "--markdown").startswith("| pass | answer | node | why |\n| --- |")


def test_apply_saves_a_recipe_that_replay_does_again(tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    made = answer("apply", NET, "-p", "MergeLinears(keep='view')", "-p", "FuseBatchNorm2dInConv2d", "--save", str(file))
    assert [one["name"] for one in made["passes"]] == ["MergeLinears", "FuseBatchNorm2dInConv2d"]
    assert made["sites_on"] == 2
    assert Recipe.load(file).model.name == NET
    assert "a recipe never runs code" in refused("replay", str(file))
    again = call("apply", NET, "-p", "MergeLinears", "--save", str(tmp_path / "other.json"))
    assert f"to do it again: fxopt replay {tmp_path / 'other.json'} {NET}" in again.replace("\n", "")
    program = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(make()[0].eval(), (make()[1],)), program)
    again = call("apply", str(program), "--all", "--save", str(tmp_path / "other.json"))
    assert f"to do it again: fxopt replay {tmp_path / 'other.json'} {program}" in again.replace("\n", "")
    replayed = answer("replay", str(file), NET)
    assert (replayed["is_same_model"], replayed["is_same"], replayed["problems"]) == (True, True, [])
    other = f"{FILE}:changed"
    assert "norm: there is no such node" in refused("replay", str(file), other, "--input", "2x4", code=1)
    rest = answer("replay", str(file), other, "--input", "2x4", "--rest", code=1)
    assert [one["site"] for one in rest["problems"]] == ["q", "norm"]
    assert answer("apply", NET, "--recipe", str(file), "--without", "MergeLinears:q")["sites_on"] == 1
    assert answer("apply", NET, "--only", "FuseBatchNorm2dInConv2d:norm")["sites_on"] == 1


@pytest.mark.slow
def test_a_result_that_the_recipe_does_not_name_ends_with_1(tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    call("apply", NET, "-p", "MergeLinears", "--save", str(file))
    content = json.loads(file.read_text())
    content["fingerprints"]["after"] = "0"
    file.write_text(json.dumps(content))
    told = refused("replay", str(file), NET, code=1)
    assert "another one than it names" in told
    assert told.endswith("Nothing was changed; --rest takes it as it is."), "not the words for Python"
    assert answer("replay", str(file), NET, "--rest", code=1)["is_same"] is False


@pytest.mark.slow
def test_reverse_is_exact() -> None:
    found = answer("reverse", NET, "--all")
    assert found["exact"] is True
    assert found["fingerprint_restored"] == found["fingerprint_before"] != found["fingerprint_changed"]
    assert "restored, bit for bit" in call("reverse", NET, "-p", "MergeLinears")


@pytest.mark.slow
def test_compare_judges_outputs_and_parameters_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "compared.html"
    found = answer("compare", NET, "-p", "FuseBatchNorm2dInConv2d", "--html", str(page))
    assert found["html"] == str(page)
    assert "FuseBatchNorm2dInConv2d: 1 of 1 sites on" in page.read_text()
    assert found["numerics"]["fits"] is True
    assert found["parameters"]["before"]["parameters"] - found["parameters"]["after"]["parameters"] == 8
    assert "### Parameters" in call("compare", NET, "-p", "MergeLinears", "--markdown")


@pytest.mark.slow
def test_a_rewrite_that_computes_something_else_ends_with_1(tmp_path: Path) -> None:
    from fxopt import Workbench
    from fxopt.edits import SetArgument

    model, x = make()
    wb = Workbench(model.eval(), (x,))
    wb.edit(SetArgument("truediv", "args[1]", 5.0))
    Recipe.of(wb).save(tmp_path / "edited.json")
    found = answer("compare", NET, "--recipe", str(tmp_path / "edited.json"), code=1)
    assert found["numerics"]["fits"] is False


@pytest.mark.slow
def test_bench_measures_with_a_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    found = answer("bench", NET, "-p", "MergeLinears", "--rounds", "6")
    assert len(found["rounds"]) == 6
    assert found["interval"][0] <= found["ratio"] <= found["interval"][1]
    assert found["engines"] == []


@pytest.mark.slow
def test_bench_measures_the_original_in_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    itself = Engine("torch.compile", (), "", lambda flat, tensors: flat)
    absent = Engine("ONNX Runtime", ("no_such_package",), "onnx", lambda flat, tensors: flat)
    monkeypatch.setattr(engines, "ENGINES", (itself, absent))
    measured, missing = answer("bench", NET, "-p", "MergeLinears", "--rounds", "6", "--engines")["engines"]
    assert measured["problem"] is None
    assert (measured["max_abs"], measured["error"]) == (0, "identical bits over 1 input")
    assert measured["interval"][0] <= measured["ratio"] <= measured["interval"][1]
    assert missing["problem"] == missing["verdict"] == "it needs no_such_package: pip install 'fxopt[onnx]'"
    assert missing["ratio"] is None
    assert "The original in other engines" in call("bench", NET, "-p", "MergeLinears", "--rounds", "6", "--engines")


@pytest.mark.slow
def test_draw_writes_svg_and_dot(tmp_path: Path) -> None:
    assert call("draw", NET).startswith("digraph")
    call("draw", NET, "-p", "MergeLinears", "-o", str(tmp_path / "graph.svg"))
    assert b"</svg>" in (tmp_path / "graph.svg").read_bytes()
    assert answer("draw", NET, "-o", str(tmp_path / "graph.dot"))["file"].endswith("graph.dot")
    assert "ends in .svg, .png, .pdf or .dot" in refused("draw", NET, "-o", "graph.gif")


@pytest.mark.slow
def test_export_writes_a_model_that_torch_alone_loads(tmp_path: Path) -> None:
    found = answer("export", NET, "-p", "MergeLinears", "-o", str(tmp_path / "out"), "--name", "merged")
    assert found["bytes"] == Path(found["weights"]).stat().st_size
    program = "import sys; sys.modules['fxopt'] = None; from merged import load; print(len(load().state_dict()))"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path / "out", capture_output=True, text=True)
    assert done.stdout == "9\n", done.stderr
    assert "it cannot be imported" in refused("export", NET, "-o", str(tmp_path), "--name", "a-b")
    assert "this is a file" in refused("export", NET, "-o", str(FILE))
    assert "fxopt compare --html" in refused("export", NET, "-o", str(tmp_path / "page.html"))
    assert "Missing option" in refused("export", NET)


@pytest.mark.slow
def test_export_writes_a_program_of_torch_export_with_a_free_batch(tmp_path: Path) -> None:
    found = answer("export", NET, "-p", "MergeLinears", "-o", str(tmp_path), "--as", "pt2")
    program = torch.export.load(found["file"]).module()
    assert program(torch.rand(5, 1, 6, 6)).shape == (5, 6), "the batch is free"
    assert found["remarks"] == []
    assert "ONNX needs onnx and onnxscript" in refused("export", NET, "-o", str(tmp_path), "--as", "onnx", code=3)


def test_a_program_of_torch_export_is_a_model_and_is_read_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "net.pt2"
    model, x = make()
    torch.export.save(torch.export.export(model.eval(), (x,)), file)
    done = CliRunner().invoke(cli, ["capture", str(file), "--json"])
    assert done.exit_code == 0, done.output
    assert [one["name"] for one in json.loads(done.stdout)["inputs"]] == ["x"]
    assert "reading a .pt2 file can run code of whoever wrote it" in done.stderr
    assert "has the inputs that it was exported with" in refused("capture", str(file), "--batch", "3")
    file.write_bytes(b"no program")
    caplog.clear()
    assert "torch.export cannot read it" in refused("capture", str(file))
    assert not caplog.records, "torch's traceback is no part of the answer"


def test_a_hugging_face_id_is_a_model_where_it_lies_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    place = tmp_path / "models--someone--tiny-bert"
    transformers.BertModel(config).save_pretrained(place / "snapshots" / "abc")
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("abc")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    found = answer("scan", "someone/tiny-bert", "--sequence", "8")
    assert found["model"] == {"kind": "folder", "name": "someone/tiny-bert", "batch": 1, "sequence": 8}
    assert any(one["sites"] for one in found["passes"])
    assert "run hf download someone/other, or give a folder" in refused("scan", "someone/other")


@pytest.mark.parametrize("name", [f"{FILE}:make", "net.pt2", "owner/net.pt2", str(FILE)])
def test_a_recipe_that_names_code_as_its_folder_runs_none(name: str, tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    recipe = Recipe((), Model("folder", name))
    recipe.save(file)
    assert "which is not here; give the model" in refused("replay", str(file))


def test_a_file_alone_is_the_model_that_its_function_makes() -> None:
    alone, named = answer("apply", str(FILE), "-p", "MergeLinears"), answer("apply", NET, "-p", "MergeLinears")
    assert alone["fingerprint_after"] == named["fingerprint_after"]
    assert alone["model"]["name"] == str(FILE)


# ---- wrong input


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("bert-bas", "no model is called 'bert-bas'. Did you mean bert-base"),
        ("org/model", "neither a folder nor a model in the cache of Hugging Face on this machine"),
        ("model.safetensors", "give the folder in which config.json and the safetensors lie together"),
        ("model.pt2", "there is no file model.pt2"),
        ("model.bin", "such a file can run code when it is read"),
        ("nowhere.py", "there is no file nowhere.py"),
        (str(ROOT / "fxopt_cli" / "__init__.py"), "needs a function without arguments that makes a model"),
        (
            str(FILE.parent / "test_options.py"),
            "has several functions (test_the_fields_of_a_group_become_options_in_its_place, "
            f"test_two_forms_at_once_are_refused); give one, as {FILE.parent / 'test_options.py'}:test_the_fields",
        ),
        (f"{FILE}:chnaged", "Did you mean changed?"),
        (f"{FILE}:with_arguments", "needs arguments (missing a required argument: 'width')"),
        (f"{FILE}:a_number", "made int; it has to make a model"),
        (f"{FILE}:NUMBER", "is a int; it has to be a model or a function"),
        (f"{FILE}:changed", "Give each as dtype and sizes, as in --input 2x3x224x224"),
        ("nowhere.py:make", "there is no file nowhere.py"),
        ("no_such_module:make", "there is no module no_such_module"),
        ("no such:make", "is neither a module nor a .py file"),
        (str(Path(__file__).parent), "it has no config.json"),
    ],
)
def test_a_wrong_model_is_refused_with_the_remedy(model: str, told: str) -> None:
    assert told in refused("scan", model)


@pytest.mark.slow
def test_failures_of_a_model_have_their_line_and_their_own_code() -> None:
    told = refused("scan", f"{FILE}:fails", code=3)
    assert re.search(r"models\.py:\d+: KeyError: 'on purpose'", told)
    found = answer("capture", f"{FILE}:branches", code=3)
    assert found["error"]["kind"] == "CaptureError"
    assert "models.py" in found["error"]["line"]
    assert "the command take such a graph from a function" in found["error"]["message"]
    decided = answer("capture", f"{FILE}:decided")
    assert [node["name"] for node in decided["nodes"]] == ["x", "mul", "output"], "the way that its example took"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("apply", NET), "turn something on: --pass NAME, --all"),
        (("apply", NET, "-p", "MergeLinear"), f"fxopt has no pass 'MergeLinear'; it has {ALL_PASSES[0].__name__}"),
        (("apply", NET, "-p", "mergelinear"), "Did you mean MergeLinears or PackLinears?"),
        (("apply", NET, "-p", "MergeLinears(why=1)"), "MergeLinears takes no 'why'; it takes keep"),
        (("apply", NET, "-p", "MergeLinears(keep='no')"), "MergeLinears cannot be made"),
        (("apply", NET, "-p", "MergeLinears(keep=open('x'))"), "write it as MergeLinears or MergeLinears(keep='view')"),
        (("apply", NET, "-p", "MergeLinears", "-p", "MergeLinears"), "names MergeLinears twice"),
        (("apply", NET, "--recipe", str(FILE)), "models.py, line 1: this is no JSON"),
        (("replay", "nowhere.json"), "nowhere.json: it cannot be read (No such file"),
        (("scan", NET, "--input", "2xx3"), "--input 2xx3: write it as a dtype and sizes"),
        (("scan", NET, "--input", "os:2"), "write it as a dtype and sizes"),
        (("scan", "digits_conv_net", "--batch", "1000"), "batch is 1000; give a whole number from 1 to 256"),
        (("scan", "digits_conv_net", "--input", "2"), "draws its own inputs"),
        (("scan", NET, "--json", "--csv"), "give one of --json, --csv and --markdown"),
        (("scan",), "Missing argument 'MODEL'"),
        (("scna",), "No such command 'scna'"),
        (("bench", NET, "--all", "--rounds", "2"), "greater than or equal to 6"),
        (("scan", NET, "--batch", "3"), f"{NET} brings the inputs with their sizes; leave --batch and --sequence out"),
        (("scan", NET, "--input", "2x1x6x6", "--sequence", "3"), "--input gives the inputs with their sizes"),
        (("export", NET, "-o", "out/it.py"), "by itself: --out out --name it"),
        (("export", NET, "-o", "exported", "--name", "class"), "--name class: it cannot be imported"),
        (("lessons", "check", "nowhere.md"), "fxopt lessons check: nowhere.md is not a file"),
        (("app", "--port", "1", "--serve", "192.0.2.1"), "(Cannot assign requested address); give another --serve"),
    ],
)
def test_a_wrong_option_is_refused_with_the_remedy(arguments: tuple[str, ...], told: str) -> None:
    assert told in refused(*arguments)


@pytest.mark.parametrize(
    ("command", "option"),
    [("apply", "--save"), ("bisect", "--save"), ("autotune", "--save"), ("compare", "--html"), ("draw", "--out")],
)
def test_a_file_that_cannot_be_written_is_told_before_the_work(command: str, option: str, tmp_path: Path) -> None:
    folder = tmp_path / "made.svg"
    folder.mkdir()
    for file, told in (
        (folder, f"{option} {folder}: this is a folder; give a file"),
        (tmp_path / "no" / "made.svg", f"{option} {tmp_path}/no/made.svg: there is no folder {tmp_path}/no; make it"),
        (tmp_path / f"{'a' * 300}.svg", "it cannot be written (File name too long)"),
    ):
        assert told in refused(command, "nowhere.py", "--all", option, str(file))


def test_a_disk_that_is_full_by_the_end_of_the_work_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **kwargs: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    told = refused("draw", "digits_conv_net", "--out", str(tmp_path / "net.dot"))
    assert told.endswith("net.dot cannot be written (No space left on device)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--only", "MergeLinears"), "write it as PASS:SITE"),
        (("--only", "MergeLinears:conv"), "MergeLinears has no site conv; it has q"),
        (("--all", "--without", "MergeLinear:q"), f"write it as PASS:SITE; the passes are {ALL_PASSES[0].__name__}"),
    ],
)
def test_a_wrong_site_or_file_is_refused_with_the_remedy(arguments: tuple[str, ...], told: str) -> None:
    assert told in refused("apply", NET, *arguments)


def test_a_recipe_with_an_unknown_pass_is_refused_at_its_line(tmp_path: Path) -> None:
    wb = Workbench(torch.nn.Sequential(torch.nn.ReLU()), (torch.rand(2, 3),))
    Recipe.of(wb).save(tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text().replace('"MergeLinears"', '"MergeAll"')
    (tmp_path / "r.json").write_text(text)
    line = next(i for i, one in enumerate(text.splitlines(), 1) if "MergeAll" in one)
    told = refused("apply", NET, "--recipe", str(tmp_path / "r.json"))
    step = [kind.__name__ for kind in ALL_PASSES].index("MergeLinears")
    assert f"r.json, line {line}, steps[{step}].pass: fxopt has no pass 'MergeAll'" in told


def test_an_error_is_json_where_json_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"fxopt_recipe": 9}')
    found = answer("replay", str(tmp_path / "r.json"), code=2)
    assert found["error"]["kind"] == "RecipeError"
    assert (found["error"]["path"], found["error"]["line"]) == ("fxopt_recipe", 1)


# ---- the door


def test_the_help_breaks_lines_where_the_terminal_ends() -> None:
    told = CliRunner().invoke(cli, ["app", "--help"], env={"COLUMNS": "400", "TERMINAL_WIDTH": "400"}).stdout
    paragraph = next(line for line in told.splitlines() if "It listens on this machine alone" in line)
    assert "docs/workshop.md has the whole of it." in paragraph
    assert re.search(r"\n +fxopt app bert-base *\n +fxopt app path/to/weights *\n", told), "the examples keep theirs"


@pytest.mark.slow
def test_help_and_wrong_options_are_answered_without_torch() -> None:
    check = "import sys, fxopt_cli.main as m\ntry: m.main()\nfinally: sys.stderr.write(str('torch' in sys.modules))"
    commands = [command.name for command in cli.registered_commands]
    of_lessons = [["lessons", "--help"], *(["lessons", name, "--help"] for name in ("list", "check", "code"))]
    helps = [["--help"], *([str(name), "--help"] for name in commands), *of_lessons]
    for arguments in ([], ["--version"], ["scan"], *helps):
        call = [sys.executable, "-c", check, *arguments]
        done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT)
        assert done.stderr.endswith("False"), (arguments, done.stderr)
        if arguments[-1:] == ["--help"]:
            assert done.returncode == 0
            assert "Examples:" in done.stdout or arguments == ["--help"]
            assert "fxopt " in done.stdout


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_port_that_is_taken_is_told_with_the_remedy(form: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = refused("app", "--port", str(port), "--headless", *form)
    assert f"cannot be served at 127.0.0.1, port {port} (Address already in use); give another --port" in told


@pytest.mark.slow
def test_python_m_fxopt_is_the_command(tmp_path: Path) -> None:
    call = [sys.executable, "-m", "fxopt", "scan", "tests.cli.models:make", "--json"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["command"] == "scan"


@pytest.mark.parametrize("width", [24, 40, 60])
def test_a_narrow_terminal_breaks_texts_and_drops_none(width: int) -> None:
    done = CliRunner().invoke(cli, ["passes"], env={"COLUMNS": str(width)})
    head, *_ = (line.split() for line in done.stdout.splitlines() if line.strip())
    assert head == ["pass", "rewrite", "arguments", "package"]
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= max(width, 60), "a narrower terminal breaks the lines itself"
    names = "".join(line[2:17].strip() for line in lines[3:])
    kinds = (*ALL_PASSES, *APPROXIMATE_PASSES)
    assert names == "".join(kind.__name__ for kind in kinds), "a long name goes on in the next line"


def test_tables_are_safe_csv_and_markdown() -> None:
    table = ("name", "value"), [("=1+1", 2), ("a|b\n<c>", None)]
    assert csv_of(*table) == 'name,value\n\'=1+1,2\n"a|b\n<c>",\n'
    assert markdown_of(*table).splitlines()[-1] == r"| a\|b \<c\> |  |"


def test_bisect_and_autotune_save_recipes_that_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "SAMPLE_SECONDS", 0.0001)
    file = str(tmp_path / "kept.json")
    found = answer("bisect", NET, "--all", "--save", file)
    assert (found["groups"], len(found["tried"]), found["stopped"]) == ([], 1, None)
    assert answer("replay", file, NET)["is_same"]
    text = call("autotune", NET, "--all", "--budget", "3", "--save", file)
    assert f"saved as {file}" in text
    assert "FuseBatchNorm2dInConv2d" in text
    assert answer("replay", file, NET)["is_same"]
