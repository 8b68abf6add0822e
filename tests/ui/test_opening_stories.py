"""Models that a visitor opens: others, at other sizes, from folders, that fail, that take long."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from streamlit.testing.v1 import AppTest
from torch import nn

from fxopt.models import Inputs, SizeRange, Sizes
from fxopt.tracing import CaptureCancelledError
from fxopt.ui import opening
from fxopt.ui.command import PAGE
from fxopt.ui.markdown import escaped
from fxopt.ui.opening import Opening, Request
from tests.ui.visitor import (
    FOLD,
    act,
    assert_usable,
    badge,
    checkbox,
    metrics,
    session,
    shown_marks,
    switch,
    switches,
    texts,
)


def test_a_wrong_folder_is_said_and_the_open_model_stays_as_it_was(app: AppTest, tmp_path: Path) -> None:
    switch(app, FOLD, True)
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path / "nowhere")).run()
    assert "there is no such folder" in app.error[0].value
    assert_usable(app)
    assert "4 sites on" in badge(app)
    app.button(key="icon dismiss").click().run()
    assert not app.error


def test_a_broken_safetensors_file_is_said(app: AppTest, tmp_path: Path) -> None:
    config = {"model_type": "bert", "architectures": ["BertModel"], "num_hidden_layers": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0 not a header at all")
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path)).run()
    assert "broken" in app.error[0].value
    assert_usable(app)


def test_sizes_out_of_range_are_said_with_the_range(app: AppTest) -> None:
    app.number_input(key="batch of digits_conv_net").set_value(4000).run()
    assert "from 1 to 256" in app.error[0].value
    assert session(app).opened.batch == 8
    app.number_input(key="batch of digits_conv_net").set_value(3).run()
    assert not app.error
    assert session(app).opened.batch == 3
    assert_usable(app)


def test_another_model_opens_with_its_own_sizes_and_passes(app: AppTest) -> None:
    switch(app, FOLD, True)
    app.selectbox(key="model").set_value("digits_transformer").run()
    assert_usable(app)
    assert session(app).view.looked_at == "ChangeTrueDivToMulByInverse"
    assert "original" in badge(app)
    switch(app, "MergeLinears", True)
    assert {"created", "changed"} <= shown_marks(app)


def test_two_visitors_do_not_see_each_other(app: AppTest) -> None:
    other = AppTest.from_file(str(PAGE), default_timeout=120).run()
    switch(app, FOLD, True)
    other.run()
    assert session(app).opened is session(other).opened
    assert "original" in badge(other)
    assert not any(switch.value for switch in switches(other))
    assert session(other).workbench.is_restored


def test_a_folder_with_weights_opens_and_what_is_odd_about_them_is_said(app: AppTest, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng():
        model = transformers.BertModel(config)
    model.embeddings.position_embeddings.weight.data[-1] = float("nan")
    save_file({**model.state_dict(), "*extra*": torch.ones(2)}, tmp_path / "model.safetensors", {"format": "pt"})
    config.save_pretrained(tmp_path)
    app.selectbox(key="model").set_value("folder").run()
    app.text_input(key="folder").set_value(str(tmp_path)).run()
    assert not app.error
    assert_usable(app)
    assert session(app).opened.remarks == (
        f"{tmp_path}: BertModel has no place for 1 stored weights: *extra*",
        f"{tmp_path}: 1 stored weights hold NaN or infinite numbers, and so will its answers: "
        "embeddings.position_embeddings.weight",
    )
    assert [one.value for one in app.warning] == ["\n\n".join(map(escaped, session(app).opened.remarks))]
    app.number_input(key=f"batch of folder{tmp_path}").set_value(3).run()
    assert session(app).opened.batch == 3
    assert len(app.warning) == 1, "it was built no second time"
    switch(app, "MergeLinears", True)
    assert "1 site on" in badge(app)
    assert metrics(app)["Parameters"] == f"{sum(p.numel() for p in session(app).opened.model.parameters()):,}"


def test_another_batch_keeps_the_passes_that_are_on(app: AppTest) -> None:
    checkbox(app, f"{FOLD} at stem_norm").set_value(True).run()
    act(app, "later", FOLD).run()
    act(app, "go", "stem_norm").run()
    kept = session(app).workbench.choices
    app.number_input(key="batch of digits_conv_net").set_value(3).run()
    assert session(app).opened.batch == 3
    assert (session(app).workbench.choices, session(app).view.selected) == (kept, "stem_norm")
    assert "1 site on" in badge(app)


class Wavers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        if x.sum() > 0:
            x = self.second(x)
        return x


@dataclass(frozen=True)
class WaversSource:
    key: str = "wavers"
    title: str = "A model that decides by its data"
    description: str = "It cannot be captured."
    sizes: Sizes = field(default_factory=lambda: Sizes(SizeRange(2, most=8)))

    def build(self) -> nn.Module:
        return Wavers().eval()

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        return (torch.zeros(batch or 2, 4),), {}


def test_a_failed_capture_shows_the_line_what_to_try_and_the_graph_up_to_there(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "offered_source", lambda key: WaversSource())
    switch(app, FOLD, True)
    app.session_state["request"] = Request("wavers")
    app.run()
    assert not app.exception
    assert "depends on the data" in app.error[0].value
    assert any("if x.sum() > 0:" in block.value for block in app.code)
    assert "What to try" in texts(app)
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    assert [one["key"] for one in sent] == ["partial graph", "graph"]
    assert "4 sites on" in badge(app), "what was open stays as it was"
    app.button(key="icon dismiss").click().run()
    assert not app.error


def test_a_cancelled_opening_leaves_the_page_as_it_was(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Slow(WaversSource):
        def build(self) -> nn.Module:
            release.wait(30)
            return super().build()

    monkeypatch.setattr(opening, "offered_source", lambda key: Slow())
    started = Opening(Request("slow"), session(app))
    state = {"request": started.request, "opening": started}
    opening.cancel(state)
    release.set()
    started.job.wait()
    assert state == {}
    assert isinstance(started.job.failure, CaptureCancelledError)
    assert_usable(app.run())


def test_the_line_while_a_model_opens_tells_its_stage_and_how_long_it_took_at_the_sizes_before(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    @dataclass(frozen=True)
    class Slow(WaversSource):
        key: str = "digits_conv_net"

    before = session(app)
    monkeypatch.setattr(opening, "offered_source", lambda key: Slow())
    for seconds, told in ((11.2, "; at the sizes before, its capture took 11 s"), (0.4, "")):
        report = replace(before.opened.report, seconds=seconds)
        monkeypatch.setitem(before.opened.pristine.meta, "fxopt", report)
        started = Opening(Request(Slow.key), before)
        started.job.wait()
        assert started.told.startswith(f"{Slow.title}: ")
        assert started.estimate == told
        other = Opening(Request("wavers"), None)
        other.job.wait()
        assert other.estimate == ""


def test_nothing_open_says_what_to_do(app: AppTest) -> None:
    del app.session_state["session"]
    app.run()
    assert "No model is open" in app.info[0].value
