"""A server for a class (``fxopt app --workshop``): small models that all share, and limits for each visitor."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from fxopt.errors import FxoptError

if TYPE_CHECKING:
    from fxopt.models import ModelSource

VARIABLE = "FXOPT_WORKSHOP"
"""The environment variable that makes a workshop of a server."""
LIMITS = {"FXOPT_MOST_GB": "0.5", "FXOPT_MOST_TFLOP": "0.05"}
"""Of one run of a visitor (`fxopt.ui.limits`), unless the environment says otherwise."""
code_allowed = threading.Event()
"""Set by ``fxopt app --allow-code`` alone, for the process: users of this machine may write rules, which are run.

It is no environment variable, which a server, a script or a notebook would inherit unseen.
"""
AWAY_MINUTES = "FXOPT_AWAY_MINUTES"
"""The environment variable with the minutes after which the session of an idle visitor rests."""

MOST_UPLOAD = "FXOPT_MOST_UPLOAD_MB"
"""The environment variable with the megabytes that the files which a visitor uploads may have together."""

MOST_UPLOADS = "FXOPT_MOST_UPLOADS_MB"
"""The environment variable with the megabytes that the uploads of all visitors may have together on the disk."""


def is_workshop() -> bool:
    return os.environ.get(VARIABLE, "") not in ("", "0")


def begin_workshop() -> None:
    """Make a workshop of this process. To be called before the modules of the page are imported, which read limits."""
    os.environ[VARIABLE] = "1"
    for name, most in LIMITS.items():
        os.environ.setdefault(name, most)


def models_here() -> tuple[ModelSource, ...]:
    """Return the built-in models of the picker: in a workshop those of a few megabytes, which all lessons are about."""
    from fxopt.models import ZOO  # here, as a server listens before it imports PyTorch
    from fxopt.models.teaching import TEACHING
    from fxopt.models.trained import TRAINED

    return (*TRAINED, *TEACHING) if is_workshop() else ZOO


def minutes_until_rest() -> float:
    """Return the minutes after which an idle session rests.

    Raises:
        FxoptError: the environment has no such number.
    """
    text = os.environ.get(AWAY_MINUTES, "20")
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not minutes > 0:
        raise FxoptError(f"{AWAY_MINUTES} is {text!r}; give a number of minutes above 0, such as 20, or inf for never")
    return minutes


def most_uploads_megabytes() -> int:
    """Return the megabytes that the uploads of all visitors may have together on the disk.

    Raises:
        FxoptError: the environment has no such number.
    """
    return _megabytes(MOST_UPLOADS, 10 * most_upload_megabytes())


def most_upload_megabytes() -> int:
    """Return the megabytes that a visitor may upload: in a workshop, where all are recipes, less.

    Raises:
        FxoptError: the environment has no such number.
    """
    return _megabytes(MOST_UPLOAD, 16 if is_workshop() else 450)  # BERT-base has 418


def _megabytes(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise FxoptError(f"{variable} is {text!r}; give a whole number of megabytes above 0, such as {default}")
    return int(text)
