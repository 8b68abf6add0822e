"""Opening a model beside the page: it may take seconds, can be cancelled, and survives a click meanwhile."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import streamlit as st

from fxopt.models import CachedModel, LocalFolder, ModelSource
from fxopt.models.hugging_face import cached_folder, is_hub_id
from fxopt.process.news import news_to
from fxopt.ui.folders import folders_here, is_folder
from fxopt.ui.job import Job, Progress, about_cancel
from fxopt.ui.markdown import escaped
from fxopt.ui.open_model import captured
from fxopt.ui.own_models import OwnModel, offered_source
from fxopt.ui.presence import presence
from fxopt.ui.session import Session
from fxopt.ui.uploaded_files import UPLOAD, Upload

FOLDER = "folder"
QUIET_SECONDS, PATIENT_SECONDS = 0.3, 2.5
"""The page stays as it is for so long, then a line appears, and after the second a button to cancel as well."""
POLL_SECONDS, LINE_SECONDS = 0.2, 1.0
"""A click of the visitor's ends the run within the first; the line is renewed after the second. With a class that opens
one model, to tell all of them of each of its stages would take as long as opening it."""


@dataclass(frozen=True)
class Request:
    """A model that a visitor asked for, at sizes; None for a size means its default."""

    key: str
    folder: str = ""
    batch: int | None = None
    sequence: int | None = None
    upload: Upload | None = None

    @property
    def source(self) -> ModelSource:
        if self.key == UPLOAD and self.upload is not None:
            return self.upload.source
        if self.key != FOLDER:
            return offered_source(self.key)
        return CachedModel(self.path, self.folder) if self._is_id else LocalFolder(self.path)

    @property
    def path(self) -> Path:
        """The folder, if it may be opened here; otherwise a `ModelError` gives the reason."""
        return cached_folder(self.folder) if self._is_id else folders_here().folder(self.folder)

    @property
    def _is_id(self) -> bool:
        """Whether the folder is the id of a Hugging Face model, which visitors of this machine alone may give."""
        return folders_here().named is None and is_hub_id(self.folder) and not is_folder(Path(self.folder))

    @property
    def stamp(self) -> str:
        """A text that changes with the files of the folder, or with the model of this name that was given in Python."""
        if self.key != FOLDER:  # an upload has a key of its own
            source = self.source
            return source.stamp if isinstance(source, OwnModel) else ""
        folder = self.path
        files = (folder / "config.json", *sorted(folder.glob("*.safetensors")))
        return " ".join(f"{file.stat().st_mtime_ns} {file.stat().st_size}" for file in files if file.is_file())


@dataclass(eq=False)
class Opening:
    """One attempt to open the requested model."""

    request: Request
    before: Session | None
    """The open session meanwhile; its passes stay on if the same model was asked for at other sizes."""
    key: str = ""
    title: str = "the model"
    stage: str = ""
    begun: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        self.job = Job(self._open, presence())

    def _open(self, progress: Progress) -> Session:
        request, source = self.request, self.request.source
        self.key, self.title, self.stage = source.key, source.title, "building it"
        batch, sequence = source.sizes.checked(source.title, request.batch, request.sequence)

        def tell(stage: str) -> bool:
            self.stage = stage
            return progress(0)

        with news_to(tell):
            opened = captured(source.key, request.stamp, batch, sequence, source, tell)
        return self._resumed(Session(opened))

    def session(self) -> Session | None:
        """Return a session with the opened model, once it is ready: it goes on where the one before it is by now."""
        return self.job.result and self._resumed(self.job.result)

    def _resumed(self, session: Session) -> Session:
        if (at_other_sizes := self._at_other_sizes) is not None:
            session.resume(at_other_sizes)
        return session

    @property
    def _at_other_sizes(self) -> Session | None:
        """The open session, if it has the same model."""
        return self.before if self.before is not None and self.before.opened.source.key == self.key else None

    @property
    def told(self) -> str:
        """The model, and the stage of its opening."""
        return f"{self.title}: {self.stage}"

    @property
    def estimate(self) -> str:
        """The time that it may take, where the same model was captured at other sizes and that took a while."""
        seconds = self._at_other_sizes.opened.report.seconds if self._at_other_sizes is not None else 0.0
        return f"; at the sizes before, its capture took {seconds:.0f} s" if seconds >= 1 else ""

    def wait(self, place: st.delta_generator.DeltaGenerator) -> None:
        """Wait until it is done, and say so in `place`. A click of the visitor's may end the run; the work goes on."""
        if self.job.wait(max(0.0, self.begun + QUIET_SECONDS - time.perf_counter())):
            return
        # Over a page that is there: it would move under the pointer, to make room for a line and when that goes.
        key = "opening" if self.before is None else "opening over the page"
        with place.container(horizontal=True, vertical_alignment="center", key=key):
            line, button = st.empty(), st.empty()
        offered, due = False, 0.0
        while not self.job.wait(POLL_SECONDS):
            _ = "opening" in st.session_state  # where the visitor has clicked, Streamlit ends the run here
            seconds = time.perf_counter() - self.begun
            if seconds >= due:
                due = seconds + LINE_SECONDS
                line.caption(f":material/hourglass_top: Opening {escaped(self.told)} … {seconds:.0f} s{self.estimate}")
            if seconds >= PATIENT_SECONDS and not offered:
                offered = True
                button.button("Cancel", key="cancel opening", help=about_cancel(), on_click=cancel,
                              args=(st.session_state,))  # fmt: skip
        place.empty()


def cancel(state: MutableMapping[str, Any]) -> None:
    """Cancel the opening; its thread ends at its next report of progress."""
    opening: Opening | None = state.get("opening")
    if opening is not None:
        opening.job.cancel()
    for key in {"request", "opening"} & set(state):
        del state[key]
