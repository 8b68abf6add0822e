"""Upload of a model on the page: the form, and the upload that the visitor has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from fxopt.errors import ModelError
from fxopt.models import ModelSource
from fxopt.ui.folders import is_served_here
from fxopt.ui.markdown import escaped
from fxopt.ui.own_models import OwnModel
from fxopt.ui.problem import Problem
from fxopt.ui.uploaded_files import Upload, UploadedFolder, kept, sorted_out
from fxopt.ui.workshop import code_allowed, is_workshop, most_upload_megabytes

HELP = (
    "config.json and model.safetensors of an architecture that transformers knows, as `model.save_pretrained(folder)` "
    "writes them: choose both together. They are data, and no code is run. They are removed when you leave."
)
_UPLOADED, _TURN = "uploaded", "turn of the upload"


def uploaded() -> Upload | None:
    """Return the visitor's upload, if there is one."""
    found: Upload | None = st.session_state.get(_UPLOADED)
    return found


def is_uploaded(source: ModelSource) -> bool:
    """Return whether a source is the visitor's upload."""
    if not isinstance(source, OwnModel):
        return isinstance(source, UploadedFolder)
    upload = uploaded()
    return upload is not None and bool(upload.code) and upload.source is source


def may_upload() -> bool:
    """Return whether visitors may upload models here: in a workshop all have the same ones."""
    return not is_workshop()


def upload_form() -> DeltaGenerator:
    """Draw the button in the bar that opens the form, and the form; return the place of its answer."""
    upload = uploaded()
    form = st.popover("Files …" if upload is None else "Other files …", key="upload", icon=":material/upload:")
    with form, st.container(key="upload form"):
        kinds = "config.json and model.safetensors"
        if _may_run_code():
            kinds += ", or a .pt2 or a .py, **which are run**"
        st.file_uploader(
            f"The files of a model: {kinds}",
            accept_multiple_files=True,
            key=_key(),
            max_upload_size=most_upload_megabytes(),
            on_change=_take,
            help=HELP,
        )
        place = st.empty()
    answer_upload(place)
    return place


def answer_upload(place: DeltaGenerator) -> None:
    """Say in the form how the upload has come out: the open form covers the place where the page tells of it.

    To be called again once the model was opened, which may fail.
    """
    problem: Problem | None = st.session_state.get("problem")
    upload = uploaded()
    if problem is not None:
        place.error(escaped(problem.told), icon=":material/block:")
    elif wish := st.session_state.get("wish of the upload"):
        place.info(wish, icon=":material/hourglass_top:")
    elif upload is not None:
        place.caption(f":material/check: {upload.told}")
    else:
        place.empty()


def _may_run_code() -> bool:
    return code_allowed.is_set() and is_served_here()


def _key() -> str:
    """Return the key of the field: another one after each upload, so that the field is empty again."""
    return f"files {st.session_state.setdefault(_TURN, 0)}"


def _take() -> None:
    """Take the files once they are those of a model. The others are told, and the field is empty again."""
    files: list[UploadedFile] = st.session_state.get(_key()) or []
    st.session_state.pop("problem", None)
    try:
        named, code, wish = sorted_out(files, _may_run_code())
        if named and not wish:
            upload = st.session_state[_UPLOADED] = kept(named, code)
            _held.clear()
            _held(upload)
    except ModelError as error:
        st.session_state["problem"] = Problem.of("The upload", error)
        wish = ""
    st.session_state["wish of the upload"] = wish
    if not wish:
        st.session_state[_TURN] += 1
        _release(files)


@st.cache_resource(scope="session", show_spinner=False, on_release=Upload.remove)
def _held(_upload: Upload) -> Upload:
    """Hold the visitor's upload, until the connection of the browser ends."""
    return _upload


def _release(files: Sequence[UploadedFile]) -> None:
    """Free the memory in which Streamlit holds files."""
    context = get_script_run_ctx()
    if context is not None:
        for file in files:
            manager: Any = context.uploaded_file_mgr
            manager.remove_file(context.session_id, file.file_id)
