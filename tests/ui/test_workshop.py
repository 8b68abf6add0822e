"""A server for a class: small models that all share, nothing of its machine, and sessions that rest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.web import cli as streamlit_cli
from typer.testing import CliRunner

from fxopt import Match, MergeLinears
from fxopt.errors import FxoptError, ModelError
from fxopt.lessons import lessons
from fxopt.ui import command
from fxopt.ui.command import PAGE
from fxopt.ui.folders import folders_of, is_served_here
from fxopt.ui.leaving import housekeeping
from fxopt.ui.own_models import offered, offered_source
from fxopt.ui.workshop import VARIABLE, models_here
from fxopt_cli.main import cli
from tests.ui.visitor import FOLD, assert_usable, badge, row, session, switch


@pytest.fixture
def workshop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")


@pytest.mark.usefixtures("workshop")
def test_a_workshop_has_the_models_of_all_lessons_and_no_others() -> None:
    keys = {source.key for source in offered()}
    needed = {step.needs.model for lesson in lessons() for step in lesson.steps if step.needs is not None}
    needed |= {lesson.needs.model for lesson in lessons()}
    assert needed <= keys
    assert "bert-base" not in keys
    with pytest.raises(ModelError, match="this workshop has no model 'bert-base'"):
        offered_source("bert-base")
    assert offered_source("digits_conv_net").key == "digits_conv_net"


@pytest.mark.usefixtures("workshop")
def test_a_workshop_opens_no_folder_even_on_loopback_where_a_balancer_may_stand_before_it() -> None:
    for folders in ([], ["/models"]):
        assert folders_of("127.0.0.1", folders).is_empty
    assert not is_served_here()
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    app.query_params["model"] = "bert-base"
    app.run()
    assert_usable(app)
    (models,) = [one for one in app.selectbox if one.label == "Model"]
    assert len(models.options) == len(models_here())
    assert any("The address asks for a model that is not here" in one.value for one in app.toast)


def test_a_workshop_captures_its_models_before_it_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [])
    for name in (VARIABLE, "FXOPT_MOST_GB", "FXOPT_MOST_TFLOP"):
        monkeypatch.setenv(name, "")  # which is brought back afterwards
        monkeypatch.delenv(name)
    opened: list[str] = []
    monkeypatch.setattr("fxopt.ui.open_model.captured", lambda key, *rest: opened.append(key))
    monkeypatch.setattr(streamlit_cli, "main", lambda prog_name: opened.append("listens"))
    assert CliRunner().invoke(cli, ["app", "--workshop", "--headless"]).exit_code == 0
    assert opened == [*(source.key for source in models_here()), "listens"]
    assert command.Serving(workshop=True).is_for_others
    refused = CliRunner().invoke(cli, ["app", "--workshop", "--folders", "/"], env={"COLUMNS": "300"})
    assert refused.exit_code == 2
    assert "--workshop keeps the folders of this machine closed" in refused.output


@pytest.mark.usefixtures("workshop")
def test_a_model_that_cannot_be_captured_is_told_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept: list[str] = []

    def captured(key: str, *rest: object) -> None:
        if not kept:
            kept.append("the first one fails")
            raise FxoptError("it branches on its input")
        kept.append(key)

    monkeypatch.setattr("fxopt.ui.open_model.captured", captured)
    command._capture_all()
    assert kept[1:] == [source.key for source in offered()[1:]]
    assert capsys.readouterr().err == f"fxopt app: {offered()[0].title}: it branches on its input\n"


@pytest.mark.parametrize("is_here", [True, False])
def test_the_reason_why_a_package_brings_no_passes_is_told_on_this_machine_alone(
    is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "broken = /srv/secret.py: FileNotFoundError"
    monkeypatch.setattr("fxopt.ui.pass_panel.others_installed", lambda: SimpleNamespace(refused=(reason,)))
    monkeypatch.setattr("fxopt.ui.pass_panel.is_served_here", lambda: is_here)
    app = AppTest.from_file(str(PAGE), default_timeout=120).run()
    assert_usable(app)
    assert any("secret" in one.value for one in app.caption) == is_here


def test_who_does_nothing_for_a_while_is_told_and_finds_all_as_it_was(app: AppTest) -> None:
    switch(app, FOLD, True)
    told, mine = badge(app), session(app)
    mine.seen -= 3600
    assert housekeeping().put_away_idle(1200) >= 1
    assert mine.rested
    assert housekeeping().put_away_idle(1200) == 0, "once"
    app.run()
    assert_usable(app)
    assert [one.value.startswith("**You were away for 60 minutes**") for one in app.toast] == [True]
    assert badge(app) == told
    app.run()
    assert not app.toast
    assert housekeeping().put_away_idle(1200) == 0, "back"


@pytest.mark.usefixtures("workshop")
def test_a_failure_is_told_without_the_files_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(self: object, match: Match, rewriter: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(MergeLinears, "rewrite", explode)
    app = AppTest.from_file(str(PAGE), default_timeout=120)
    app.query_params["model"] = "digits_transformer"
    app.run()
    switch(app, "MergeLinears", True)
    assert "broken" in row(app, "MergeLinears")["error"]
    assert not [one for one in app.get("expander") if one.label == "Report to copy"]
