"""Work ahead of the visitors of ``fxopt app``: imports, and captures of the picker's models, kept on disk.

A person who picks BERT for the first time would wait for the import of transformers, and for a capture. Both begin once
the first graph has been sent. The captures are made by a process of their own at the lowest priority, once for each
version of torch, transformers and fxopt: ``python -m fxopt.ui.ahead PID`` ends with the server whose process it names.
With ``FXOPT_AHEAD=0`` in the environment they wait for their visitors.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

FREE_BYTES = 4 * 2**30
"""Captures wait for their visitor on a machine with less free memory: a model and its capture take up to 1.5 GB."""
LOOK_SECONDS = 1.0
VARIABLE = "FXOPT_AHEAD"
"""The environment variable that is 0 where no captures shall be made ahead."""
first_graph_sent = threading.Event()
_LOG = logging.getLogger(__name__)


def work_ahead() -> None:
    """Import transformers, and make the captures that are missing, in a thread, once a first graph has been sent."""
    threading.Thread(target=_work, name="fxopt works ahead", daemon=True).start()


def _work() -> None:
    first_graph_sent.wait()
    from fxopt.models.architectures import import_architectures
    from fxopt.process.garbage import without_collection
    from fxopt.process.memory import available_bytes
    from fxopt.process.one_at_a_time import one_at_a_time

    is_wanted = os.environ.get(VARIABLE) != "0" and not note_of_captures().is_file()
    makes_captures = None
    if is_wanted and available_bytes() > FREE_BYTES:
        makes_captures = subprocess.Popen([sys.executable, "-m", __name__, str(os.getpid())])
    with one_at_a_time():
        without_collection(import_architectures)()
    if makes_captures is not None:
        makes_captures.wait()


def note_of_captures() -> Path:
    """Return the path of the file that says: all captures of these models, made by this code, have been made."""
    from fxopt.models import ZOO
    from fxopt.tracing import CaptureStore
    from fxopt.tracing.stored import code_version

    models = [(source.key, source.sizes) for source in ZOO]
    digest = hashlib.blake2b(f"{code_version()} {models}".encode(), digest_size=16).hexdigest()
    return CaptureStore.of_this_user().folder / f"ahead {digest}"


def make_captures() -> None:
    """Capture each model of the picker at its usual sizes, and keep the captures on disk."""
    from fxopt.errors import FxoptError
    from fxopt.models import ZOO
    from fxopt.process.memory import available_bytes
    from fxopt.tracing import CaptureStore

    store, note = CaptureStore.of_this_user(), note_of_captures()
    for source in ZOO:
        if available_bytes() < FREE_BYTES:
            return
        try:
            model = source.build()
            args, kwargs = source.inputs(model, *source.sizes.checked(source.title, None, None))
            store.capture(source.key, model, args, kwargs)
        except FxoptError as error:
            _LOG.warning("fxopt: %s is not captured ahead: %s", source.title, error)
    if note.parent.is_dir():
        note.touch()


def _end_with(server: int) -> None:
    while os.getppid() == server:
        time.sleep(LOOK_SECONDS)
    os._exit(0)


def main(server: str) -> None:
    """Make the captures, as long as the server with this process number runs."""
    import torch

    if hasattr(os, "nice"):
        os.nice(19)
    torch.set_num_threads(1)
    threading.Thread(target=_end_with, args=(int(server),), daemon=True).start()
    make_captures()


if __name__ == "__main__":
    main(sys.argv[1])
