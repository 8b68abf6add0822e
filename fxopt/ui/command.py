"""Serving the page: the work behind ``fxopt app``, whose options are those of `fxopt_cli.page`."""

from __future__ import annotations

import errno
import os
import socket
import sys
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path

from fxopt.errors import FxoptError
from fxopt.ui.workshop import (
    begin_workshop,
    code_allowed,
    minutes_until_rest,
    most_upload_megabytes,
    most_uploads_megabytes,
)

APP = Path(__file__).parent / "served" / "fxopt_app.py"
"""The server."""
PAGE = APP.with_name("fxopt_page.py")
"""The script that it runs for each visitor."""
HERE = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
"""The addresses that stand for every network of this machine."""
_WITHOUT_STREAMLIT = "fxopt app needs Streamlit, which is not installed. Install it with: pip install 'fxopt[app]'"


@dataclass(frozen=True)
class Serving:
    """The options of ``fxopt app``."""

    address: str = HERE
    """The address to listen at; ``0.0.0.0`` is every network of this machine."""
    folders: tuple[str, ...] = ()
    """Folders with weights are opened only below these absolute paths, where there are some."""
    port: int = 8501
    """The port to listen at; 0 is any that is free."""
    headless: bool = False
    """Whether no browser is opened."""
    allow_code: bool = False
    """Whether users of this machine may write rules in the page, which are run."""
    workshop: bool = False
    """Whether it serves a class: small models, limits for each visitor, nothing of this machine."""

    @property
    def url(self) -> str:
        """The URL of the page for a browser on this machine."""
        if self.address in EVERYWHERE:
            return f"http://localhost:{self.port}"
        return f"http://{self.host}:{self.port}"

    @property
    def host(self) -> str:
        """The address as it stands in a URL, where one of IPv6 has brackets."""
        return f"[{self.address}]" if ":" in self.address else self.address

    @property
    def is_for_others(self) -> bool:
        """Whether others than users of this machine come to the page, directly or through a balancer."""
        return self.workshop or self.address != HERE


def streamlit_options(serving: Serving) -> list[str]:
    """Return the options of Streamlit that those of the command stand for."""
    options = [f"--server.address={serving.address}", f"--server.port={serving.port}"]
    options.append(f"--server.maxUploadSize={most_upload_megabytes()}")
    if serving.host != serving.address and serving.address not in EVERYWHERE:
        options.append(f"--browser.serverAddress={serving.host}")  # else it would print and open http://::1:8501
    if serving.is_for_others:
        # The names by which others call this machine are unknown here, so all are allowed; tracebacks are not for
        # others.
        options += ["--server.allowedHosts=*", "--client.showErrorDetails=none"]
    if serving.headless:
        options += ["--server.headless=true"]
    return options


class AddressError(FxoptError):
    """Nothing can listen at the address."""


def at_free_port(serving: Serving) -> Serving:
    """Check that the address is free, and return the options with the port that it has: for 0, one that is free.

    Raises:
        AddressError: it is taken, or is none of this machine.
    """
    family = socket.AF_INET6 if ":" in serving.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as a server does, after one that has just ended
        try:
            tried.bind((serving.address, serving.port))
        except OSError as error:
            where = f"{serving.address}, port {serving.port}"
            option = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--serve"
            raise AddressError(
                f"the page cannot be served at {where} ({error.strerror}); give another {option}"
            ) from None
        return replace(serving, port=tried.getsockname()[1])


def serve(serving: Serving) -> None:
    """Serve the page until the process is ended.

    Raises:
        AddressError: nothing can listen at its address.
    """
    serving = at_free_port(serving)
    try:
        from streamlit.web import cli
    except ImportError:
        sys.exit(_WITHOUT_STREAMLIT)
    if serving.workshop:
        begin_workshop()
    for look in (minutes_until_rest, most_upload_megabytes, most_uploads_megabytes):
        look()  # a wrong number is told here, before anyone comes
    from fxopt.ui.ahead import work_ahead
    from fxopt.ui.folders import VARIABLE
    from fxopt.ui.outside import ask_nobody

    if entry_points(group="fxopt.passes"):
        _tell_of_installed_passes()
    if serving.allow_code:
        code_allowed.set()
    ask_nobody()  # the page does so too, for starts by another command, but only once it has a visitor
    if serving.folders:
        os.environ[VARIABLE] = os.pathsep.join(serving.folders)
    if serving.workshop:
        _capture_all()
    else:
        if serving.is_for_others:
            from fxopt.models.architectures import import_architectures

            import_architectures()  # those who open one at once would wait for it together
        work_ahead()
    sys.argv = ["streamlit", "run", str(APP), *streamlit_options(serving)]
    cli.main(prog_name="streamlit")


def _tell_of_installed_passes() -> None:
    """Say which packages bring passes; their import brings PyTorch, which a server without any imports later."""
    from fxopt.errors import remarks
    from fxopt.passes import others_installed

    with remarks() as left_out:
        others = others_installed()
    for told in (*([f"with installed passes: {others}"] if others.passes else []), *left_out):
        sys.stderr.write(f"fxopt app: {told}\n")


def _capture_all() -> None:
    """Capture every model of the picker, so that no visitor waits for it; tell which ones cannot be captured."""
    from fxopt.errors import FxoptError
    from fxopt.ui.open_model import captured
    from fxopt.ui.opening import Request
    from fxopt.ui.own_models import offered

    for source in offered():
        batch, sequence = source.sizes.checked(source.title, None, None)
        try:
            captured(source.key, Request(source.key).stamp, batch, sequence, source)
        except FxoptError as error:
            sys.stderr.write(f"fxopt app: {source.title}: {error}\n")
