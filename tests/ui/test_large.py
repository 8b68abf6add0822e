"""Large runs: the same answers from a process of its own, which ends at once where the visitor cancels it or leaves."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fxopt import fingerprint
from fxopt.core import shared_copy
from fxopt.edits import Insert
from fxopt.edits.probe import Probe
from fxopt.errors import CancelledError, FxoptWarning, ModelError, warn
from fxopt.evidence import Demand, first_difference, report_of
from fxopt.evidence.depth import error_by_depth
from fxopt.models import ZOO, LocalFolder
from fxopt.models.dry_run import Fit
from fxopt.process import forked
from fxopt.process.forked import in_fork
from fxopt.process.news import news_to
from fxopt.tracing import CaptureError
from fxopt.ui import costs, large, latency_tab, numerics_tab, open_model, site_evidence, site_search, size_search, sweep
from fxopt.ui.acts import turn
from fxopt.ui.example import run_example
from fxopt.ui.job import Job
from fxopt.ui.large import killable
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from tests.process.test_forked import children, long_call
from tests.ui.visitor import FOLD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere work stays in the process")

SITE = "stem_norm"
MOST_SECONDS = 5.0


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every run counts as large; the list has one number for each fork."""
    made: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(len(made))
        return in_fork(*args, **kwargs)

    monkeypatch.setattr(large, "LARGE_FLOPS", -1)
    monkeypatch.setattr(large, "in_fork", counted)
    before = children()
    yield made
    assert children() == before


@pytest.fixture
def session() -> Session:
    found = Session(captured(ZOO[0].key, "", 2, None, ZOO[0]))
    turn(found, FOLD, None, on=True)
    return found


def compared(session: Session) -> Job[Any]:
    return numerics_tab._comparison(session).job


def swept(session: Session) -> Job[Any]:
    sweep.start(session)
    return session.searches[sweep.KEY].job


def measured_at_sizes(session: Session) -> Job[Any]:
    size_search.start(session)
    return session.searches[size_search.KEY].job


def measured(session: Session) -> Job[Any]:
    latency_tab.start(session)
    assert session.measurement is not None
    return session.measurement.job


def searched(what: str) -> Callable[[Session], Job[Any]]:
    def search(session: Session) -> Job[Any]:
        site_search.start(session, what)
        return session.searches[what].job

    return search


def of_site(what: str) -> Callable[[Session], Job[Any]]:
    def asked(session: Session) -> Job[Any]:
        key = (session.workbench.choices, FOLD, SITE)
        site_evidence.start(session, key, what)
        job: Job[Any] = getattr(site_evidence._all(session)[key], what)
        return job

    return asked


def of_nodes(look: Callable[..., Any]) -> Callable[[Session], Job[Any]]:
    def asked(session: Session) -> Job[Any]:
        bench, (args, kwargs) = session.workbench, session.opened.inputs
        before, after = bench.pristine, shared_copy(bench.current)
        return Job(killable(lambda progress: look(before, after, args, kwargs), [session.opened.demand]))

    return asked


EVIDENCE: dict[str, Callable[[Session], Job[Any]]] = {
    "numerics": compared,
    "first difference": of_nodes(first_difference),
    "error by depth": of_nodes(error_by_depth),
    "other inputs": swept,
    "latency": measured,
    "latency at other sizes": measured_at_sizes,
    "blame": searched("outputs"),
    "tuning": searched(site_search.TUNING),
    "error of a site": of_site("error"),
    "latency of a site": of_site("latency"),
    "time of nodes": lambda session: costs._timing(session, "Now"),
}


SLOW = {"latency", "latency at other sizes", "tuning", "latency of a site"}  # they time real rounds


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind in SLOW)) for kind in EVIDENCE])
def test_evidence_comes_from_a_process_of_its_own(kind: str, session: Session, forks: list[int]) -> None:
    job = EVIDENCE[kind](session)
    assert job.wait(120)
    assert job.error == ""
    assert job.result is not None
    assert forks


def test_numbers_from_a_process_of_its_own_are_those_of_this_one(session: Session, forks: list[int]) -> None:
    bench, inputs = session.workbench, numerics_tab._inputs(session.opened)
    here = numerics_tab.compare_outputs(bench.pristine, bench.current, inputs)
    job = compared(session)
    assert job.wait(60)
    assert repr(job.result.outputs) == repr(here.outputs)


def test_probes_tell_of_a_run_elsewhere(session: Session, forks: list[int]) -> None:
    session.workbench.edit(Insert("stem_conv", "Probe"))
    run_example(session)
    [probe] = [module for module in session.workbench.current.modules() if isinstance(module, Probe)]
    assert probe.seen is not None
    assert forks


def test_a_capture_from_a_process_of_its_own_is_the_same(session: Session, forks: list[int]) -> None:
    captured.clear()  # another test may have asked for it
    here = captured(ZOO[0].key, "", 3, None, ZOO[0])
    assert len(forks) == 1
    large.LARGE_FLOPS = 10**11
    there = captured.__wrapped__(ZOO[0].key, "", 3, None, ZOO[0])
    assert fingerprint(there.pristine) == fingerprint(here.pristine)
    # whether the second one is read from the store, with the seconds of the first, is for the store to say
    assert replace(there.report, seconds=0.0) == replace(here.report, seconds=0.0)


class Watched(LocalFolder):
    """A folder whose build may be slow, greedy or odd."""

    within: Callable[[torch.nn.Module], None] = staticmethod(lambda model: None)

    def build(self, fit: Fit | None = None) -> torch.nn.Module:
        model = super().build(fit)
        type(self).within(model)
        return model


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Watched]:
    """A small model whose head is the table of its words, with a weight that is no number."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=2, n_positions=32)
    with torch.random.fork_rng():
        model = transformers.GPT2LMHeadModel(config)
    model.transformer.h[0].mlp.c_fc.bias.data[0] = torch.nan
    model.save_pretrained(tmp_path)
    yield Watched(tmp_path)
    Watched.within = staticmethod(lambda model: None)


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> list[int]:
    monkeypatch.setattr(large, "LARGE_BYTES", 0)
    return forks


def test_a_large_folder_is_built_in_a_process_of_its_own_and_comes_back_as_it_is(
    folder: Watched, all_large: list[int]
) -> None:
    Watched.within = lambda model: setattr(model, "process", os.getpid())
    with pytest.warns(FxoptWarning, match="1 stored weights hold NaN"):
        model = large.built_apart(folder)
    assert len(all_large) == 1
    assert model.process != os.getpid()
    with pytest.warns(FxoptWarning, match="1 stored weights hold NaN"):
        here = folder.build()
    assert [*model.state_dict()] == [*here.state_dict()]
    for a, b in zip(model.state_dict().values(), here.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, check_stride=True)
    assert not model.training
    assert model.lm_head.weight is model.transformer.wte.weight
    tokens = torch.arange(6).view(2, 3)
    torch.testing.assert_close(model(tokens).logits, here(tokens).logits, rtol=0, atol=0, equal_nan=True)
    with torch.no_grad():
        model.lm_head.weight.add_(1)  # as any other memory


def test_a_later_fork_cannot_change_the_model(folder: Watched, all_large: list[int]) -> None:
    with pytest.warns(FxoptWarning, match="NaN"):
        model = large.built_apart(folder)
    before = model.lm_head.weight.clone()

    def write(progress: Callable[[float], bool]) -> float:
        with torch.no_grad():
            model.lm_head.weight.fill_(7)
        return float(model.lm_head.weight.detach().sum())

    assert in_fork(write, lambda progress: True, 0.0, memory=10**9, seconds=60) == 7 * before.numel()
    assert torch.equal(model.lm_head.weight, before)


def test_a_config_that_takes_long_is_read_in_a_process_of_its_own(folder: Watched, forks: list[int]) -> None:
    file = folder.path / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "id2label": {str(index): "label" for index in range(20_000)}}))
    with pytest.warns(FxoptWarning, match="NaN"):
        model = large.built_apart(folder)
    assert len(forks) == 1
    assert len(model.config.id2label) == 20_000


def test_a_call_of_torch_in_a_build_ends_once_it_is_cancelled(folder: Watched, all_large: list[int]) -> None:
    Watched.within = lambda model: setattr(model, "answer", long_call())
    begun = time.monotonic()
    with news_to(lambda stage: time.monotonic() - begun < 2), pytest.raises(CancelledError):
        large.built_apart(folder)
    assert time.monotonic() - begun < 2 + MOST_SECONDS
    Watched.within = lambda model: None
    with pytest.warns(FxoptWarning, match="NaN"):
        large.built_apart(folder)


def test_a_build_ends_at_its_limit_of_memory(folder: Watched, all_large: list[int]) -> None:
    Watched.within = lambda model: model.register_buffer("more", torch.ones(5 * 10**9, dtype=torch.int8))
    with pytest.raises(ModelError, match=r"of memory beside what is there, and was ended; choose a smaller model"):
        large.built_apart(folder)


def test_tensors_beyond_those_foreseen_are_told(folder: Watched, all_large: list[int]) -> None:
    Watched.within = lambda model: model.register_buffer("more", torch.ones(11 * 10**8, dtype=torch.int8))
    with pytest.raises(ModelError, match=r"its tensors take more than the 1\.0 GB of memory that were foreseen"):
        large.built_apart(folder)


def test_a_model_that_cannot_leave_its_process_is_built_here(folder: Watched, all_large: list[int]) -> None:
    for act in (lambda x: x, ctypes.pointer(ctypes.c_int(3))):
        Watched.within = lambda model, act=act: setattr(model, "act", act)  # type: ignore[misc]
        with pytest.warns(FxoptWarning, match="NaN"):
            assert large.built_apart(folder).act is act


def test_large_models_are_built_one_after_another(folder: Watched, all_large: list[int]) -> None:
    waiting, told = "waiting for another model", list[str]()

    def listener(stage: str) -> bool:
        told.append(stage)
        return told.count(waiting) < 3

    with large._ONE_LARGE, news_to(listener), pytest.raises(CancelledError, match=waiting):
        large.built_apart(folder)
    assert told[-3:] == [waiting] * 3
    assert not all_large


def test_inputs_of_a_folder_come_from_a_process_of_its_own(folder: Watched, forks: list[int]) -> None:
    with pytest.warns(FxoptWarning, match="NaN"):
        model = folder.build()
    (), there = large.inputs_apart(folder, model, 2, 5, lambda stage: True)
    (), here = folder.inputs(model, 2, 5)
    assert len(forks) == 1
    assert [*there] == [*here]
    assert all(torch.equal(there[name], here[name]) for name in here if isinstance(here[name], torch.Tensor))


def test_a_run_for_inputs_ends_once_it_is_cancelled(folder: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFolder, "inputs", lambda *of: long_call())
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        large.inputs_apart(folder, torch.nn.Module(), 2, 5, lambda stage: time.monotonic() - begun < 1)
    assert time.monotonic() - begun < 1 + MOST_SECONDS


def test_a_capture_that_fails_elsewhere_fails_with_its_reasons_and_its_partial_graph(forks: list[int]) -> None:
    class Decides(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            return y if y.sum() > 0 else x

    def capture(stage: Any) -> Any:
        warn("a remark")
        return open_model.capture(model, (torch.ones(2, 3),), {}, progress=stage)

    model = Decides()
    with pytest.raises(CaptureError) as here, pytest.warns(FxoptWarning):
        capture(lambda stage: True)
    with pytest.raises(CaptureError) as there:
        large.captured_apart(capture, model, lambda stage: True, None)
    assert [rung.reason for rung in there.value.rungs] == [rung.reason for rung in here.value.rungs]
    assert there.value.line == here.value.line
    assert there.value.partial is not None


def test_the_remarks_of_a_capture_elsewhere_are_told_here(session: Session, forks: list[int]) -> None:
    def capture(stage: Any) -> Any:
        warn("a remark")
        return session.opened.pristine

    with pytest.warns(FxoptWarning, match="a remark"):
        large.captured_apart(capture, session.opened.model, lambda stage: True, None)


@pytest.fixture
def long_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numerics_tab, "compare_outputs", lambda *of: long_call())


@pytest.mark.usefixtures("forks", "long_comparison")
def test_a_comparison_within_a_call_of_a_minute_ends_where_it_is_cancelled(session: Session) -> None:
    before = children()
    job = compared(session)
    wait_for_a_fork(before)
    began = time.monotonic()
    job.cancel()
    assert job.wait(MOST_SECONDS)
    assert time.monotonic() - began < MOST_SECONDS
    assert isinstance(job.failure, CancelledError)


@pytest.mark.usefixtures("forks", "long_comparison")
def test_a_comparison_within_a_call_of_a_minute_ends_where_its_visitor_has_left(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = threading.Event()
    monkeypatch.setattr(numerics_tab, "presence", lambda: lambda: not left.is_set())
    before = children()
    job = compared(session)
    wait_for_a_fork(before)
    left.set()
    assert job.wait(MOST_SECONDS)


@pytest.mark.usefixtures("forks")
def test_a_measurement_within_a_call_of_a_minute_ends_and_lets_the_next_one_in(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    with monkeypatch.context() as patch:
        patch.setattr(latency_tab, "measure", lambda *of, **settings: long_call())
        first = measured(session)
        wait_for_a_fork(before)
        first.cancel()
        assert first.wait(MOST_SECONDS)
        report = report_of([])
        patch.setattr(latency_tab, "measure", lambda *of, **settings: report)
        second = measured(session)
        assert second.wait(60)
        assert second.failure is None
        assert second.result is not None


def test_what_is_small_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(progress: Any) -> int:
        return 1

    small, unknown = Demand(10**6, 10**9, {}), None
    assert killable(work, [small]) is work
    assert killable(work, [small, unknown]) is not work
    monkeypatch.setattr(large, "can_fork", lambda: False)
    assert killable(work, [unknown]) is work


def wait_for_a_fork(before: set[int]) -> None:
    until = time.monotonic() + 60
    while not children() - before:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(4 * forked._SECONDS_BETWEEN_LOOKS)
