"""The command ``fxopt``: ``fxopt app`` serves the page, to this machine alone unless told otherwise."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

APP = Path(__file__).parent / "served" / "app.py"
HERE = "127.0.0.1"
_WITHOUT_STREAMLIT = "fxopt app needs Streamlit, which is not installed. Install it with: pip install 'fxopt[app]'"
_ABOUT = (
    "Serve the page of fxopt. It listens on this machine alone, and asks no other one for anything. With --serve, "
    "others can use it too. They may open the models of the picker, and of this machine's folders those below "
    "--folders. One run may take 4 GB beside the weights and 2 TFLOP: FXOPT_MOST_GB and FXOPT_MOST_TFLOP say otherwise."
)


def given_by(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options that the `arguments` of the command say; end the process where they say none."""
    parser = argparse.ArgumentParser("fxopt", description="Reversible torch.fx graph transformations.")
    commands = parser.add_subparsers(dest="command", required=True)
    app = commands.add_parser("app", help="serve the page", description=_ABOUT)
    app.add_argument("--serve", metavar="HOST", default=HERE,
                     help="the address to listen at; 0.0.0.0 is every network of this machine")  # fmt: skip
    app.add_argument("--folders", metavar="FOLDER", nargs="+", default=[], type=_folder,
                     help="open folders with weights only where they lie below these")  # fmt: skip
    app.add_argument("--port", type=int, default=8501)
    app.add_argument("--headless", action="store_true", help="open no browser")
    return parser.parse_args(arguments)


def _folder(text: str) -> str:
    if not Path(text).is_dir() or os.pathsep in text:
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return os.path.abspath(text)


def is_for_others(given: argparse.Namespace) -> bool:
    """Return whether the page listens at another address than that of this machine alone."""
    return bool(given.serve != HERE)


def streamlit_options(given: argparse.Namespace) -> list[str]:
    """Return the options of Streamlit that those of the command stand for."""
    options = [f"--server.address={given.serve}", f"--server.port={given.port}"]
    if is_for_others(given):
        # The names by which others call this machine are unknown here, so all are allowed; tracebacks are not for
        # others.
        options += ["--server.allowedHosts=*", "--client.showErrorDetails=none"]
    if given.headless:
        options += ["--server.headless=true"]
    return options


def main() -> None:
    """Run the command with the arguments of this process."""
    given = given_by(sys.argv[1:])
    try:
        from streamlit.web import cli
    except ImportError:
        sys.exit(_WITHOUT_STREAMLIT)
    from fxopt.models.architectures import import_architectures
    from fxopt.ui.folders import VARIABLE
    from fxopt.ui.outside import ask_nobody

    ask_nobody()  # the page does so too, for starts by another command, but only once it has a visitor
    if given.folders:
        os.environ[VARIABLE] = os.pathsep.join(given.folders)
    if is_for_others(given):
        import_architectures()  # a class that opens one at once would wait for it together
    sys.argv = ["streamlit", "run", str(APP), *streamlit_options(given)]
    cli.main(prog_name="streamlit")
