"""The open models: a built-in one is captured once on a machine, and read back by the servers that come later."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxopt import capture as really_capture
from fxopt import fingerprint
from fxopt.models import ZOO
from fxopt.tracing import CaptureStore, stored
from fxopt.ui.open_model import captured


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FXOPT_CACHE", str(tmp_path))
    captured.clear()
    return tmp_path


def test_a_built_in_model_is_captured_once_on_a_machine(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ZOO[0]
    first = captured(source.key, "", 2, None, source)
    (kept,) = CaptureStore.of_this_user().folder.iterdir()
    assert kept.is_relative_to(cache)
    captured.clear()  # as another server would find it
    monkeypatch.setattr(stored, "capture", lambda *args, **kwargs: pytest.fail("it was captured again"))
    second = captured(source.key, "", 2, None, source)
    assert second.pristine is not first.pristine
    assert fingerprint(second.pristine) == fingerprint(first.pristine)
    assert (second.report, second.view.digest) == (first.report, first.view.digest)
    monkeypatch.setattr(stored, "capture", really_capture)
    assert captured(source.key, "", 3, None, source).batch == 3
