"""Messages of faults are shown once, and none is lost."""

from __future__ import annotations

from typing import Any

import pytest
import streamlit as st

from fxopt.ui import fault


def test_a_message_is_kept_until_it_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    state: dict[str, Any] = {}

    def interrupted(message: str, **options: Any) -> None:
        if not shown:
            shown.append("an act")
            raise InterruptedError("the visitor acts, and Streamlit begins a new run")
        shown.append(message)

    monkeypatch.setattr(st, "session_state", state)
    monkeypatch.setattr(st, "toast", interrupted)
    fault.complain("first")
    fault.complain("second")
    fault.complain("first")
    with pytest.raises(InterruptedError):
        fault.show_complaints()
    fault.show_complaints()
    fault.show_complaints()
    assert shown == ["an act", "first", "second"]
