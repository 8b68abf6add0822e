"""Bytes that no widget can read, from a client of another make: a message, and the page works on as it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState

from fxopt.ui.fault import UNREADABLE
from tests.browser.serving import ROOT, served
from tests.load.crowd import Visitor

DEEP = "[" * 5_000 + "]" * 5_000
UNREADABLE_JSON = (f'{{"events": {DEEP}}}', f'{{"pressed": {DEEP}}}', "{", "", f'{{"events": {"9" * 5_000}}}')
OF_ANOTHER_KIND = (
    WidgetState(int_value=2**62), WidgetState(double_value=float("nan")), WidgetState(bytes_value=b"\xff\0"),
    WidgetState(json_value="{}"), WidgetState(json_trigger_value=DEEP), WidgetState(string_value="x"),
)  # fmt: skip

FOLD = "Fold BatchNorm2d"
"""The switch by its label: the plain name of the pass."""


def to(identity: str, value: WidgetState) -> WidgetState:
    sent = WidgetState()
    sent.CopyFrom(value)
    sent.id = identity
    return sent


async def send_all(address: str) -> None:
    async with Visitor(address) as visitor:
        await visitor.open()
        widgets = dict(visitor.widgets)
        await visitor.switch(FOLD, True)
        for name in ("bidi_component fxopt_graph", "bidi_component fxopt_keys", "selectbox Model"):
            for text in UNREADABLE_JSON:
                await visitor.send(to(widgets[name], WidgetState(json_value=text)), is_told=True)
                assert visitor.toasts == [UNREADABLE], (name, text[:20])
                assert not visitor.errors
        for name, identity in widgets.items():
            if name.startswith(("bidi_component", "selectbox", "number_input", "button_group")):
                for value in OF_ANOTHER_KIND:
                    await visitor.send(to(identity, value))
                    assert not visitor.errors, (name, value)
        assert any("4 sites on" in text for text in visitor.texts), "the session is as it was"
        await visitor.ask(BackMsg(clear_cache=True))
        await visitor.ask(BackMsg(load_git_info=True))
        await visitor.switch(FOLD, False)
        assert any("restored" in text for text in visitor.texts), "nothing of it, and of others, was cleared"
    for name in ("number_input Batch", "button_group Which graph", "bidi_component fxopt_graph"):
        async with Visitor(address) as visitor:  # the value comes before its widget is drawn
            await visitor.send(to(widgets[name], WidgetState(json_trigger_value=DEEP)))
            await visitor.switch(FOLD, True)
            assert not visitor.errors, name


@pytest.mark.slow
@pytest.mark.parametrize("door", ["app.py", "fxopt/ui/served/fxopt_app.py"])
def test_what_no_widget_can_read_is_a_message_and_the_page_works_on(tmp_path: Path, door: str) -> None:
    with served(ROOT / door, log=tmp_path / "log.txt") as address:
        asyncio.run(send_all(address))
