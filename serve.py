"""Serve the page, to this machine alone unless told otherwise: ``python serve.py --help``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

APP = Path(__file__).parent / "app.py"
HERE = "127.0.0.1"
FOLDERS = "FXOPT_FOLDERS"
_ABOUT = (
    "Serve the page of fxopt. It listens on this machine alone, and asks no other one for anything. With --serve, "
    "others can use it too. They may open the models of the picker, and of this machine's folders those below "
    "--folders. One run may take 4 GB beside the weights and 2 TFLOP: FXOPT_MOST_GB and FXOPT_MOST_TFLOP say otherwise."
)


def options_of(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the options of Streamlit and the environment variables that `arguments` stand for."""
    parser = argparse.ArgumentParser("python serve.py", description=_ABOUT)
    parser.add_argument("--serve", metavar="HOST", default=HERE,
                        help="the address to listen at; 0.0.0.0 is every network of this machine")  # fmt: skip
    parser.add_argument("--folders", metavar="FOLDER", nargs="+", default=[],
                        help="open folders with weights only where they lie below these")  # fmt: skip
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--headless", action="store_true", help="open no browser")
    given = parser.parse_args(arguments)
    for folder in given.folders:
        if not Path(folder).is_dir() or os.pathsep in folder:
            parser.error(f"--folders: {folder} is no folder")
    options = [f"--server.address={given.serve}", f"--server.port={given.port}"]
    if given.serve != HERE:
        # The names by which others call this machine are not known here, and they need not read its tracebacks.
        options += ["--server.allowedHosts=*", "--client.showErrorDetails=none"]
    if given.headless:
        options += ["--server.headless=true"]
    return options, {FOLDERS: os.pathsep.join(map(os.path.abspath, given.folders))} if given.folders else {}


def main() -> None:
    options, variables = options_of(sys.argv[1:])
    from streamlit import net_util
    from streamlit.web import cli

    # Streamlit asks an outside service for this machine's address: at a start on every network, and when a page from
    # elsewhere calls. Not where it has an answer; an empty one fits no caller.
    net_util._external_ip = ""
    os.environ.update(variables)
    sys.argv = ["streamlit", "run", str(APP), *options]
    cli.main(prog_name="streamlit")


if __name__ == "__main__":
    main()
