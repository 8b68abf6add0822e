"""A server of the page in a thread of this process, for `fxopt.explore`: on loopback, behind a token."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
import time
from urllib.parse import urlencode

from fxopt.errors import FxoptError
from fxopt.ui.command import HERE, PAGE
from fxopt.ui.guest import be_guest
from fxopt.ui.token_gate import PARAMETER, TokenGate

START_SECONDS = 60.0
LOOK_SECONDS = 0.2
WITHOUT_STREAMLIT = "fxopt.explore needs Streamlit, which is not installed. Install it with: pip install 'fxopt[app]'"


class OwnServer:
    """The server, which answers once it is made. Streamlit allows one for each process, so it ends with the process."""

    def __init__(self) -> None:
        """
        Raises:
            FxoptError: Streamlit is missing or serves another page in this process, or the server does not start.
        """
        try:
            import streamlit as st
            import uvicorn
            from streamlit import runtime
            from streamlit.web.bootstrap import load_config_options
        except ImportError:
            raise FxoptError(WITHOUT_STREAMLIT) from None
        if runtime.exists():
            raise FxoptError(
                "Streamlit serves a page in this process already, and can serve one; call fxopt.explore elsewhere"
            )
        from fxopt.ui.browser_mark import MarkBrowser
        from fxopt.ui.fault import redraw_if_unreadable
        from fxopt.ui.outside import ask_nobody
        from fxopt.ui.upload_gate import UploadGate

        ask_nobody()
        be_guest()
        self._socket = socket.create_server((HERE, 0))
        self.port = int(self._socket.getsockname()[1])
        self.token = secrets.token_urlsafe(24)
        app = st.App(PAGE, on_script_error=redraw_if_unreadable)  # from here on Streamlit reads the settings beside it
        load_config_options({"server_address": HERE, "server_port": self.port, "server_headless": True})
        gate = TokenGate(MarkBrowser(UploadGate(app)), self.token, f"fxopt-{self.port}")
        config = uvicorn.Config(
            gate, ws="websockets-sansio", log_level="warning", access_log=False, timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._failure: BaseException | None = None
        threading.Thread(target=self._run, name="fxopt page", daemon=True).start()
        self._wait()

    def address(self, **parameters: str) -> str:
        """Return the address of the page, with the token and these parameters."""
        return f"http://{HERE}:{self.port}/?{urlencode({PARAMETER: self.token} | parameters)}"

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:  # noqa: BLE001 - the thread that waits for the server raises it
            self._failure = error

    def _wait(self) -> None:
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if self._failure is not None or time.monotonic() > end:
                raise FxoptError(f"the page could not be served: {self._failure or 'no answer'}") from self._failure
            time.sleep(0.02)


class Keeper:
    """Keeps the process of a script alive while pages are open, until Ctrl+C. A REPL or a notebook needs none."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        if not is_interactive():
            # Python's executors use this hook too. The main thread waits in it before they stop, so that the page can
            # use them. A thread that is joined at the end would not do: a Ctrl+C just before the join is lost.
            threading._register_atexit(self._keep)  # type: ignore[attr-defined]

    def end(self) -> None:
        self._ended.set()

    def _keep(self) -> None:
        if self._ended.is_set():
            return
        try:
            sys.stdout.write("The page stays open until Ctrl+C.\n")
            sys.stdout.flush()
            while not self._ended.wait(LOOK_SECONDS):  # one long wait would miss a Ctrl+C at its very start
                pass
        except KeyboardInterrupt:
            self._ended.set()


def is_interactive() -> bool:
    """Return whether a person goes on typing in this process: a REPL, a notebook or ``python -i``."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def has_display() -> bool:
    """Return whether a browser with windows can be opened from here."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
