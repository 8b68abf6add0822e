"""Models that the command `fxopt app` is given: they come first on the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest
from torch import nn
from typer.testing import CliRunner

from fxopt.errors import ModelError
from fxopt.ui import command
from fxopt.ui.command import PAGE
from fxopt.ui.own_models import OwnModel, offer, offered
from fxopt.ui.recipe_form import recipe_of
from fxopt_cli.main import cli
from tests.cli.test_shapes import SHAPES
from tests.ui.visitor import FOLD, assert_usable, badge, session, switch

FILE = Path(__file__).parent.parent / "cli" / "models.py"


@pytest.fixture(autouse=True)
def nothing_offered() -> Iterator[None]:
    yield
    offer([])


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[command.Serving]:
    found: list[command.Serving] = []
    monkeypatch.setattr(command, "serve", found.append)
    return found


def test_a_model_of_a_file_is_open_when_the_page_opens(served: list[command.Serving]) -> None:
    done = CliRunner().invoke(cli, ["app", f"{FILE}:make", "--headless"])
    assert done.exit_code == 0, done.output
    assert served[0].headless
    app = AppTest.from_file(str(PAGE), default_timeout=120).run()
    assert_usable(app)
    assert app.selectbox(key="model").options[0] == f"{FILE}:make"
    assert session(app).opened.source.title == f"{FILE}:make"
    assert session(app).opened.sizes == "batch 2"
    switch(app, FOLD, True)
    assert "1 site on" in badge(app)
    assert recipe_of(session(app)).model.name == f"{FILE}:make"


def test_a_built_in_model_and_a_folder_are_open_when_the_page_opens(
    served: list[command.Serving], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    for text, key, title in (
        ("digits_transformer", "digits_transformer", "Digits"),
        (str(tmp_path), "folder", tmp_path.name),
    ):
        done = CliRunner().invoke(cli, ["app", text, f"{FILE}:make", "--headless", "--json", "--port", "0"])
        assert done.exit_code == 0, done.output
        assert served[-1].port > 0, "port 0 stands for one that is free"
        told = SHAPES["app"] | {"address": served[-1].url, "models": [text, f"{FILE}:make"]}
        assert json.loads(done.stdout) == told
        app = AppTest.from_file(str(PAGE), default_timeout=120).run()
        assert_usable(app)
        assert app.selectbox(key="model").value == key
        assert title in session(app).opened.source.title
        assert f"{FILE}:make" in app.selectbox(key="model").options
    assert len(served) == 2


@pytest.mark.slow
def test_a_capture_that_fails_is_told_in_the_terminal_and_the_page_is_served(served: list[command.Serving]) -> None:
    done = CliRunner().invoke(cli, ["app", f"{FILE}:branches"])
    assert done.exit_code == 0
    assert "models.py:branches: no way of capturing Branches worked" in done.stderr
    assert len(served) == 1


@pytest.mark.slow
def test_models_of_one_name_and_broken_ones_are_refused_in_the_terminal(served: list[command.Serving]) -> None:
    for arguments, told, code in (
        ([f"{FILE}:make", f"{FILE}:make"], "two models have one name", 2),
        ([f"{FILE}:fails"], "KeyError: 'on purpose'", 3),
        (["nowhere.py:make"], "there is no file nowhere.py", 2),
        (["bert-base", "resnet-50"], "resnet-50: the page begins with one built-in model or folder", 2),
        (["bert-base", "--input", "2x3"], "bert-base draws its own inputs", 2),
        ([str(FILE.parent)], "it has no config.json", 2),
        ([str(FILE.parent), "--serve", "0.0.0.0"], "folders are opened on the page", 2),
        ([str(FILE.parent), "--folders", "/"], "folders are opened on the page", 2),
        ([f"{FILE}:make", "bert-base"], "bert-base: the page begins with it, so name it first", 2),
        (["bert-base", "--workshop"], "bert-base: a workshop begins with its small models", 2),
        (["someone/nothing"], "neither a folder nor a model in the cache of Hugging Face", 2),
    ):
        done = CliRunner().invoke(cli, ["app", *arguments])
        assert done.exit_code == code
        assert told in done.stderr
    assert not served
    assert not [one for one in offered() if isinstance(one, OwnModel)]


def test_a_refused_offer_leaves_the_one_before() -> None:
    first = OwnModel.of("first", nn.ReLU(), (torch.rand(3),))
    offer([first])
    with pytest.raises(ModelError, match="one name"):
        offer([first, first])
    assert offered()[0] is first
