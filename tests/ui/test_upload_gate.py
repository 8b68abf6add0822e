"""The gate before Streamlit's own door for files."""

from __future__ import annotations

import asyncio
import tomllib
from typing import Any

import pytest

from fxopt.process import memory
from fxopt.ui import upload_disk, upload_gate, workshop
from fxopt.ui.command import PAGE
from fxopt.ui.upload_gate import UploadGate

PATH = "/_stcore/upload_file/one/a"


def answer(gate: UploadGate, path: str = PATH, length: str | None = "1000", method: str = "PUT") -> int:
    """The status of an answer to a request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [] if length is None else [(b"Content-Length", length.encode())]
    asyncio.run(gate({"type": "http", "method": method, "path": path, "headers": headers}, receive, send))
    return int(sent[0]["status"])


async def taken(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})


def test_an_upload_without_its_length_or_with_too_much_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = tomllib.loads((PAGE.parent / ".streamlit" / "config.toml").read_text())
    assert config["server"]["maxUploadSize"] == workshop.most_upload_megabytes(), "Streamlit has the same bound"
    gate = UploadGate(taken)
    assert answer(gate) == 204
    assert answer(gate, length=None) == 411
    assert answer(gate, length="-1") == 411
    assert answer(gate, length=str(452 * 2**20)) == 413
    monkeypatch.setenv(workshop.VARIABLE, "1")
    assert answer(gate, length=str(18 * 2**20)) == 413
    assert answer(gate, path="/", length=None, method="GET") == 204


def test_what_a_visitor_has_here_counts_and_that_of_others_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_gate, "_held", lambda visitor: 440 * 2**20 if visitor == "one" else 0)
    gate = UploadGate(taken)
    assert answer(gate, length=str(20 * 2**20)) == 413
    assert answer(gate, PATH.replace("one", "other"), str(20 * 2**20)) == 204


def test_the_uploads_of_all_visitors_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = UploadGate(taken)
    monkeypatch.setattr(upload_disk, "_taken", 4400 * 2**20)
    assert answer(gate, length=str(90 * 2**20)) == 204
    assert answer(gate, length=str(110 * 2**20)) == 413
    monkeypatch.setenv(workshop.MOST_UPLOADS, "9000")
    assert answer(gate, length=str(110 * 2**20)) == 204


def test_an_upload_waits_for_no_memory_that_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    assert answer(UploadGate(taken), length=str(10**6)) == 413


def test_uploads_on_their_way_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        found.append(await asyncio.to_thread(answer, gate, PATH, str(400 * 2**20)))
        await taken(scope, receive, send)

    gate = UploadGate(slow)
    assert answer(gate, length=str(200 * 2**20)) == 204
    assert found == [413]
    gate.app = taken
    assert answer(gate, length=str(400 * 2**20)) == 204, "the first has ended"
