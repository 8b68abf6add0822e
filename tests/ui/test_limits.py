"""Sizes and edits that would take more than a visitor may use: refused before they are run, with the numbers."""

from __future__ import annotations

import threading

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.edits import Insert
from fxopt.errors import ModelError
from fxopt.evidence import Demand
from fxopt.models import model_source
from fxopt.ui import limits
from fxopt.ui.example import check_runs
from fxopt.ui.job import Job
from fxopt.ui.limits import check_demand
from fxopt.ui.open_model import captured
from tests.ui.visitor import FOLD, assert_usable, session, switch


def test_the_message_has_the_numbers_and_the_remedy() -> None:
    check_demand("A", Demand(4 * 10**9, 2 * 10**12, {}))
    for demand, factor in (
        (Demand(5 * 10**9, 0, {}), 1),
        (Demand(10, 3 * 10**12, {}), 1),
        (Demand(3 * 10**9, 0, {}), 2),
    ):
        with pytest.raises(ModelError, match=r"4\.0 GB and 2\.0 TFLOP are allowed here\. Choose a smaller batch"):
            check_demand("A", demand, factor)
    with pytest.raises(ModelError, match=r"GPT-2 is too large: one run takes 9\.2 GB"):
        check_demand("GPT-2", Demand(9_211_000_000, 10**12, {}))


def test_sizes_that_are_too_large_are_refused_and_the_open_model_stays(
    app: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[int] = []
    monkeypatch.setattr("fxopt.ui.open_model.capture", lambda *_, **__: ran.append(1))
    monkeypatch.setattr(limits, "MOST_BYTES", 10**5)
    before = session(app)
    app.number_input(key="batch of digits_conv_net").set_value(251).run()
    assert "batch 251 is too large: one run takes" in app.error[0].value.replace("\\", "")
    assert session(app) is before
    assert_usable(app)
    assert not ran


def test_evidence_that_would_take_too_much_is_refused(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    switch(app, FOLD, True)
    monkeypatch.setattr(limits, "MOST_FLOPS", 1000)
    app.session_state["evidence"] = "Numerics"
    app.run()
    assert "is too large" in app.error[0].value
    app.session_state["evidence"] = "Latency"
    app.run()
    app.button(key="measure").click().run()
    assert "is too large" in app.toast[0].value
    assert session(app).measurement is None
    assert_usable(app)


def test_a_graph_that_an_edit_made_large_is_not_run(app: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    of = session(app)
    check_runs(of)
    monkeypatch.setattr(limits, "MOST_FLOPS", of.opened.demand.flops + 10)
    check_runs(of)
    of.workbench.edit(Insert("stem_conv", "GELU"))
    with pytest.raises(ModelError, match="is too large"):
        check_runs(of)


def test_work_ends_when_its_visitor_has_left() -> None:
    left, began = threading.Event(), threading.Event()

    def work(progress: object) -> int:
        began.set()
        steps = 0
        while progress(0):  # type: ignore[operator]
            steps += 1
        return steps

    job: Job[int] = Job(work, lambda: not left.is_set())
    assert began.wait(30)
    left.set()
    assert job.wait(30)


@pytest.mark.slow
def test_gpt2_at_the_largest_sizes_of_the_page_is_refused_in_seconds() -> None:
    pytest.importorskip("transformers")
    source = model_source("gpt2")
    with pytest.raises(ModelError, match=r"GPT-2 at batch 32, sequence 1024 is too large: one run takes \d\.\d GB "):
        captured(source.key, "", 32, 1024, source)
