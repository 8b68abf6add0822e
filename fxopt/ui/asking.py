"""The model that the fields of the picker name, and asking for another one in place of the visitor."""

from __future__ import annotations

import streamlit as st

from fxopt.models import model_source
from fxopt.ui.opening import FOLDER, Request
from fxopt.ui.upload import uploaded
from fxopt.ui.uploaded_files import UPLOAD


def size_key(axis: str) -> str:
    """Return a key for each model's number fields, so that each starts with its own defaults."""
    upload = uploaded() if st.session_state["model"] == UPLOAD else None
    return f"{axis} of {st.session_state['model']}{upload.folder.name if upload is not None else folder_text()}"


def folder_text() -> str:
    """Return the folder that is typed; empty where another model is chosen."""
    return str(st.session_state.get("folder") or "").strip() if st.session_state["model"] == FOLDER else ""


def chosen_model(batch: int | None = None, sequence: int | None = None) -> Request | None:
    """Return the request for the model that the fields name; None while they name none."""
    key, upload = st.session_state["model"], uploaded()
    if key == UPLOAD:
        return Request(key, "", batch, sequence, upload) if upload is not None else None
    if key == FOLDER and not folder_text():
        return None
    return Request(key, folder_text(), batch, sequence)


def ask_for_model(key: str, batch: int | None = None, sequence: int | None = None) -> None:
    """Choose a model of the zoo, at sizes or their defaults. To be called before the picker is drawn."""
    st.session_state["model"] = key
    for axis, wanted in zip(("batch", "sequence"), model_source(key).sizes.checked(key, batch, sequence)):
        if wanted is not None:
            st.session_state[size_key(axis)] = wanted


def is_asked_for(key: str) -> bool:
    """Return whether this model is the one that is chosen in the picker."""
    return bool(st.session_state.get("model") == key)
