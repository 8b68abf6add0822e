"""Large work for a visitor is done beside the server, and ends with its visitor in the middle of a call of torch."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest
import torch
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState

from fxopt.ui.presence import GRACE_SECONDS
from tests.browser.serving import ROOT, served
from tests.load.crowd import SECONDS_BETWEEN_LOOKS, Server, Visitor

SOON_SECONDS = 5.0

pytestmark = [
    pytest.mark.slow,  # for the server, the build, and the seconds in which a visitor may come back
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere work stays in the process of the server"),
]


@pytest.fixture
def wide_bert(tmp_path: Path) -> Path:
    """A folder whose model makes calls of some seconds each, at the sizes of the test."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 1024, "intermediate_size": 16_384, "num_hidden_layers": 1, "num_attention_heads": 4}
    with torch.random.fork_rng():
        transformers.BertModel(transformers.BertConfig(vocab_size=200, **sizes)).save_pretrained(tmp_path / "bert")
    return tmp_path / "bert"


def test_a_large_capture_ends_soon_after_its_visitor_has_left(wide_bert: Path, tmp_path: Path) -> None:
    with served(ROOT / "app.py", log=tmp_path / "log.txt") as address:
        asyncio.run(_leave_meanwhile(address, wide_bert))


async def _leave_meanwhile(address: str, folder: Path) -> None:
    server = Server(address)
    async with Visitor(address) as visitor:
        asked = urlencode({"model": "folder", "folder": folder, "batch": 8, "sequence": 512})
        await visitor.ask(BackMsg(rerun_script=ClientState(query_string=asked)))
        async with asyncio.timeout(120):
            while not server.forks:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        await asyncio.sleep(2)
        assert server.forks, "it takes longer than that"
        left = time.monotonic()  # the end of the connection is sent now, and its answer may take a while
    while server.forks:
        assert time.monotonic() - left < GRACE_SECONDS + SOON_SECONDS
        await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
    assert time.monotonic() - left > GRACE_SECONDS / 2, "it was left alone while the visitor might have come back"
    cpu = server.cpu_seconds
    await asyncio.sleep(1)
    assert server.cpu_seconds - cpu < 0.5, "nothing goes on in the server itself"
