"""Many visitors of a real server at once, without browsers: each speaks Streamlit's protocol over a websocket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Delta_pb2 import Delta
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.asyncio.client import ClientConnection, connect

PATIENCE_SECONDS = 180.0
MOST_SECONDS_OF_A_LOOK = 5.0
"""A look at work that has just been drawn as done has no answer."""
SECONDS_BETWEEN_LOOKS = 0.25


class Visitor:
    """One browser tab, as far as the server can tell."""

    def __init__(self, address: str) -> None:
        self._address = address.replace("http://", "ws://") + "/_stcore/stream"
        self._socket: ClientConnection
        self._states: dict[str, WidgetState] = {}
        self._cached: dict[str, ForwardMsg] = {}
        self.switches: dict[str, tuple[str, bool]] = {}
        """Name and place of each switch that can be moved, by its label."""
        self.fragments: dict[str, str] = {}
        """By identity of a widget, the fragment in which it stands."""
        self.selects: dict[str, tuple[str, list[str]]] = {}
        """Identity and options of each select box, by its label."""
        self.texts: list[str] = []
        """Captions and markdown of the last run."""
        self.errors: list[str] = []
        self.layouts = 0
        """How many pictures of graphs came."""
        self.widgets: dict[str, str] = {}
        """Identity of each widget, by its kind and its label, or the name of its component."""
        self.toasts: list[str] = []
        self.looks: dict[str, float] = {}
        """By fragment that the browser asks for again by itself, such as the line of some work, the seconds between."""
        self._acts = 0
        self._session = ""

    async def __aenter__(self) -> Visitor:
        self._socket = await connect(self._address, subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._socket.close()

    async def open(self) -> float:
        """Come to the page; return the seconds until its switches are there."""
        return await self._run(ClientState(), lambda: bool(self.switches))

    async def choose(self, title: str) -> float:
        """Choose a model; return the seconds until its switches and its picture are there."""
        identity, options = self.selects["Model"]
        assert title in options, options
        self._states[identity] = WidgetState(id=identity, string_value=title)
        self.layouts, self.texts, self.switches = 0, [], {}
        opened = f"{title} at batch"

        def is_there() -> bool:
            return self.layouts > 0 and any(text.replace("\\", "").startswith(opened) for text in self.texts)

        return await self._run(ClientState(), is_there)

    async def switch(self, label: str, on: bool) -> float:
        """Move a switch; return the seconds until the page shows its effect."""
        identity = self.widgets["bidi_component fxopt_passes"]
        self._tell(identity, "acts", "on" if on else "off", self.switches[label][0])
        return await self._run(ClientState(fragment_id=self.fragments[identity]), lambda: bool(self.texts))

    async def select(self, node: str) -> float:
        """Click on a node in the graph; return the seconds until the inspector names it."""
        identity = self.widgets["bidi_component fxopt_graph"]
        self._tell(identity, "events", "select", node)
        return await self._run(ClientState(), lambda: any(node in text.replace("\\", "") for text in self.texts))

    async def open_tab(self, name: str, awaited: str) -> float:
        """Open a tab of evidence; return the seconds until a text begins so."""
        identity = self.widgets["tabs evidence"]
        self._states[identity] = WidgetState(id=identity, string_value=name)
        self.texts = []
        there = await self._run(ClientState(fragment_id=self.fragments[identity]), lambda: True)
        return there + await self.sees(awaited)

    async def sees(self, awaited: str) -> float:
        """Look, as often as a browser does, until a text begins so; return the seconds."""
        begun = time.perf_counter()
        while not any(text.startswith(awaited) for text in self.texts):
            assert time.perf_counter() - begun < PATIENCE_SECONDS, self.texts
            if self.looks:
                fragment, seconds = next(iter(self.looks.items()))
                await asyncio.sleep(seconds)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(MOST_SECONDS_OF_A_LOOK):
                        await self._run(ClientState(fragment_id=fragment, is_auto_rerun=True), lambda: True)
            else:
                await self._hear()
        return time.perf_counter() - begun

    async def ask(self, request: BackMsg) -> None:
        """Send a request other than for a run, as a browser of another make might; the server answers or does not."""
        await self._socket.send(request.SerializeToString())

    async def send(self, value: WidgetState, *, is_told: bool = False) -> None:
        """Send a value as a browser of another make might, and wait for the run that it starts, or for its message."""
        self.errors, self.toasts, self.texts = [], [], []
        state = ClientState()
        state.widget_states.widgets.append(value)
        await self._run(state, lambda: bool(self.toasts if is_told else self.texts))

    def _tell(self, component: str, entry: str, kind: str, name: str) -> None:
        """Let the state of a component hold an act, of the session whose list of passes came last."""
        self._acts += 1
        told = json.dumps({entry: {"session": self._session, "acts": [[self._acts, kind, name]]}})
        self._states[component] = WidgetState(id=component, json_value=told)
        self.texts = []

    async def _run(self, state: ClientState, there: Callable[[], bool]) -> float:
        """Ask for a run, and wait until one has ended and the awaited element is there."""
        state.widget_states.widgets.extend(self._states.values())
        begun = time.perf_counter()
        await self._socket.send(BackMsg(rerun_script=state).SerializeToString())
        async with asyncio.timeout(PATIENCE_SECONDS):
            ended = False
            while not (ended and there()):
                ended = await self._hear() or ended
        return time.perf_counter() - begun

    async def _hear(self) -> bool:
        return self._heard(ForwardMsg.FromString(await self._socket.recv()))  # type: ignore[arg-type]

    def _heard(self, message: ForwardMsg) -> bool:
        """Take a message in; return whether a run ended with it, other than to begin anew."""
        kind = message.WhichOneof("type")
        if kind == "ref_hash":
            cached = ForwardMsg()
            cached.CopyFrom(self._cached[message.ref_hash])
            return self._heard(cached)
        if message.metadata.cacheable:
            self._cached[message.hash] = message
        if kind == "delta":
            self._drawn(message.delta)
        elif kind == "auto_rerun":
            self.looks[message.auto_rerun.fragment_id] = message.auto_rerun.interval
        elif kind == "stop_auto_rerun":
            for fragment in message.stop_auto_rerun.fragment_ids:
                self.looks.pop(fragment, None)
        return kind == "script_finished" and message.script_finished in (
            ForwardMsg.FINISHED_SUCCESSFULLY,
            ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
        )

    def _drawn(self, delta: Delta) -> None:
        if identity := delta.add_block.tab_container.id:
            self.widgets["tabs evidence"], self.fragments[identity] = identity, delta.fragment_id
        element = delta.new_element
        kind = element.WhichOneof("type") if delta.WhichOneof("type") == "new_element" else None
        drawn = getattr(element, kind) if kind else None
        if identity := getattr(drawn, "id", ""):
            name = getattr(drawn, "component_name", "") or getattr(drawn, "label", "")
            self.widgets[f"{kind} {name}"] = identity
            self.fragments[identity] = delta.fragment_id
        if kind == "bidi_component" and element.bidi_component.component_name == "fxopt_passes":
            listed = json.loads(element.bidi_component.json)
            self.switches, self._session = dict(_switches_in(listed)), listed["session"]
        elif kind == "selectbox":
            self.selects[element.selectbox.label] = element.selectbox.id, list(element.selectbox.options)
        elif kind == "markdown":
            self.texts.append(element.markdown.body)
        elif kind == "bidi_component" and element.bidi_component.component_name == "fxopt_graph":
            self.layouts += 1
        elif kind == "toast":
            self.toasts.append(element.toast.body)
        elif kind == "exception":
            self.errors.append(f"{element.exception.type}: {element.exception.message}")


class Server:
    """The process that serves an address, as the system sees it."""

    def __init__(self, address: str) -> None:
        port = f"port={address.rpartition(':')[2]}".encode()
        found = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if port in _read(path)]
        assert len(found) == 1, found
        self._process = found[0]

    @property
    def megabytes(self) -> float:
        """Resident memory, without pages mapped from files."""
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) / 1000

    async def comes_down_to(self, most: float, within_seconds: float) -> float:
        """Wait until it holds at most so many megabytes, but no longer than so; return those that it holds then."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                while self.megabytes > most:  # the system tells nobody of it
                    await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        return self.megabytes

    @property
    def forks(self) -> set[int]:
        """The processes that it has forked."""
        found = {path.parent for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == self._process.name}
        command = _read(self._process / "cmdline")
        return {int(each.name) for each in found if _read(each / "cmdline") == command}

    @property
    def cpu_seconds(self) -> float:
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _switches_in(part: object) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Find the switches in the description of the list of passes."""
    if isinstance(part, dict):
        if "about" in part and not part.get("disabled", True):
            yield part["label"], (part["about"], part["on"])
        part = list(part.values())
    for one in part if isinstance(part, list) else ():
        yield from _switches_in(one)


def _parent(stat: Path) -> str:
    """Return the number of the process that began one."""
    fields = _read(stat).rpartition(b")")[2].split()
    return fields[1].decode() if fields else ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""
