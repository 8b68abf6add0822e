"""Serving the page: the work behind ``fxopt app``, whose options are those of `fxopt_cli.page`."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

APP = Path(__file__).parent / "served" / "app.py"
HERE = "127.0.0.1"
_WITHOUT_STREAMLIT = "fxopt app needs Streamlit, which is not installed. Install it with: pip install 'fxopt[app]'"


@dataclass(frozen=True)
class Serving:
    """The options of ``fxopt app``."""

    address: str = HERE
    """The address to listen at; ``0.0.0.0`` is every network of this machine."""
    folders: tuple[str, ...] = ()
    """Folders with weights are opened only below these absolute paths, where there are some."""
    port: int = 8501
    headless: bool = False
    """Whether no browser is opened."""

    @property
    def is_for_others(self) -> bool:
        """Whether the page listens at another address than that of this machine alone."""
        return self.address != HERE


def streamlit_options(serving: Serving) -> list[str]:
    """Return the options of Streamlit that those of the command stand for."""
    options = [f"--server.address={serving.address}", f"--server.port={serving.port}"]
    if serving.is_for_others:
        # The names by which others call this machine are unknown here, so all are allowed; tracebacks are not for
        # others.
        options += ["--server.allowedHosts=*", "--client.showErrorDetails=none"]
    if serving.headless:
        options += ["--server.headless=true"]
    return options


def serve(serving: Serving) -> None:
    """Serve the page until the process is ended."""
    try:
        from streamlit.web import cli
    except ImportError:
        sys.exit(_WITHOUT_STREAMLIT)
    from fxopt.models.architectures import import_architectures
    from fxopt.ui.folders import VARIABLE
    from fxopt.ui.outside import ask_nobody

    ask_nobody()  # the page does so too, for starts by another command, but only once it has a visitor
    if serving.folders:
        os.environ[VARIABLE] = os.pathsep.join(serving.folders)
    if serving.is_for_others:
        import_architectures()  # a class that opens one at once would wait for it together
    sys.argv = ["streamlit", "run", str(APP), *streamlit_options(serving)]
    cli.main(prog_name="streamlit")
