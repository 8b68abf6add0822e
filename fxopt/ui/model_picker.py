"""Choice of the open model: the built-in ones, architectures of transformers, or a folder with weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from fxopt.errors import ModelError
from fxopt.models import SizeRange, Sizes
from fxopt.ui.address import awaits_upload, forget, honor, newly_asked
from fxopt.ui.asking import chosen_model, size_key
from fxopt.ui.fault import MOST_TOLD, complain, told_in_place
from fxopt.ui.folders import MOST_TEXT, folders_here
from fxopt.ui.keys import ask_for_sheet
from fxopt.ui.learning import toggle_lessons
from fxopt.ui.markdown import escaped
from fxopt.ui.opening import FOLDER, Opening, Request
from fxopt.ui.own_models import OwnModel, beginning, offered
from fxopt.ui.problem import Problem, show_problem
from fxopt.ui.session import Session
from fxopt.ui.upload import answer_upload, may_upload, upload_form
from fxopt.ui.uploaded_files import UPLOAD

_LARGE_TYPE = Path(__file__).with_name("large_type.css")
_FOLDER_HELP = (
    "A folder with config.json and model.safetensors of an architecture that transformers knows, as "
    "`model.save_pretrained(folder)` writes it. It is read on the machine that serves this page; no code of it is run. "
    "At a page for this machine alone, owner/name is a model in its cache of Hugging Face; nothing is fetched."
)


def model_picker() -> Session | None:
    """Draw the picker, open the requested model, and return the session; None before a first model is open."""
    with told_in_place("picker of models"):
        _picker()
    session: Session | None = st.session_state.get("session")
    honor(session)
    return session


def _picker() -> None:
    answer = _choose_model()
    _ask_for_what_is_chosen()
    # Both places are there in each run: the elements below keep their position, or the browser would build them anew.
    with st.container(key="messages", gap="xsmall"):
        waiting, told, remarked = st.empty(), st.empty(), st.empty()
    _open_requested(waiting)
    if answer is not None:
        answer_upload(answer)
    session: Session | None = st.session_state.get("session")
    if problem := st.session_state.get("problem"):
        with told.container():
            show_problem(problem, session.opened.source.title if session else "")
    elif session is None and awaits_upload():
        told.info(
            "The address asks for a model that was uploaded, and an upload goes with its visitor. Upload its files "
            "again, with the button above; then the rest of the address is followed.",
            icon=":material/upload:",
        )
    elif session is None:
        told.info("No model is open. Choose one above; the small ones open at once.", icon=":material/account_tree:")
    if session is not None and session.opened.remarks:
        remarked.warning("\n\n".join(map(escaped, session.opened.remarks)), icon=":material/warning:")


def _choose_model() -> DeltaGenerator | None:
    """Draw the bar, and return the place of the answer to an upload, where there is one."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="bar"):
        return _bar()


def _bar() -> DeltaGenerator | None:
    answer = None
    st.html('<h1 class="brand">fxopt</h1>', width="content")
    titles = {source.key: source.title for source in offered()}
    if not folders_here().is_empty:
        titles[FOLDER] = "A folder with weights (safetensors) …"
    if may_upload():
        titles[UPLOAD] = "Upload a model (safetensors) …"
    _choose_as_asked(titles)
    st.selectbox("Model", list(titles), format_func=titles.__getitem__, key="model", label_visibility="collapsed",
                 width=270)  # fmt: skip
    key = st.session_state["model"]
    if key == FOLDER:
        st.text_input(
            "Folder",
            key="folder",
            placeholder="/path or owner/name, then Enter",
            max_chars=MOST_TEXT,
            help=_FOLDER_HELP,
            label_visibility="collapsed",
            width=240,
        )
    elif key == UPLOAD:
        answer = upload_form()
    sizes = _sizes()
    if sizes is not None:
        _choose_size("Batch", "batch", sizes.batch)
        if sizes.sequence is not None:
            _choose_size("Sequence", "sequence", sizes.sequence)
    with st.container(horizontal=True, horizontal_alignment="right", gap="xsmall", width="content", key="reading"):
        _reading_aids()
    return answer


def _choose_as_asked(titles: Mapping[str, str]) -> None:
    """Choose model and sizes as the address asks, where it does so now, and another model in place of one that is gone.

    To be called before the fields are drawn.
    """
    asked = newly_asked()
    if asked is None:
        if st.session_state.get("model", "") not in ("", *titles):
            del st.session_state["model"]
        return
    key, folder = (asked.model, asked.folder) if asked.model else beginning()
    if key not in titles:
        complain(f"The address asks for a model that is not here: {escaped(key[:MOST_TOLD])}")
        forget()
        return
    st.session_state["model"] = key
    if key == FOLDER:
        st.session_state["folder"] = folder
    sizes = _sizes()
    if sizes is not None:
        st.session_state[size_key("batch")] = sizes.batch.default if asked.batch is None else asked.batch
    if sizes is not None and sizes.sequence is not None:
        length = sizes.sequence.default if asked.sequence is None else asked.sequence
        st.session_state[size_key("sequence")] = length


def _reading_aids() -> None:
    """Draw the choice of large type, for a projector, and the sheet of keys."""
    large = st.session_state.get("large type", False)
    st.button(
        "Large type",
        icon=":material/text_decrease:" if large else ":material/text_increase:",
        key="icon large type",
        help="Type of the usual size" if large else "Large type, for a projector",
        on_click=lambda: st.session_state.update({"large type": not large}),
    )
    st.button(
        "Lessons", icon=":material/school:", key="icon lessons", help="Learn with this page", on_click=toggle_lessons
    )
    st.button(
        "Keys",
        icon=":material/keyboard:",
        key="icon keys",
        help="All keys, and the words of this page (?)",
        on_click=ask_for_sheet,
    )
    if large:
        st.html(_LARGE_TYPE)


def _choose_size(label: str, axis: str, limits: SizeRange) -> None:
    # The field itself has no bounds: out of range, the browser would drop the number silently.
    key = size_key(axis)
    st.session_state.setdefault(key, limits.default)
    st.number_input(label, step=1, key=key)


def _sizes() -> Sizes | None:
    """Return the sizes of the model that the fields name; None where it has only those of its example, or a fault."""
    try:
        request = chosen_model()
        if request is None or (request.upload is not None and request.upload.code):
            return None
        source = request.source
        return None if isinstance(source, OwnModel) else source.sizes
    except ModelError:
        # Opening the folder says the fault in it.
        return None


# ---- the request

_NOTHING_YET = object()


def _ask_for_what_is_chosen() -> None:
    """Request the model that the fields name, if it differs from the last request.

    This is a plain call instead of a callback of the fields: when clicks come quickly, Streamlit ends a run as soon as
    it looks at its state.
    """
    request = chosen_model(*(st.session_state.get(size_key(axis)) for axis in ("batch", "sequence")))
    if st.session_state.get("chosen", _NOTHING_YET) == request:
        return
    if request is not None:
        st.session_state["request"] = request
    st.session_state["chosen"] = request


def _open_requested(waiting: st.delta_generator.DeltaGenerator) -> None:
    """Open the requested model. The request stays until it is done, so that it survives a click meanwhile."""
    request: Request | None = st.session_state.get("request")
    if request is None:
        return
    opening: Opening | None = st.session_state.get("opening")
    if opening is None or opening.request != request:
        if opening is not None:
            opening.job.cancel()  # a newer request ends an older one
        opening = st.session_state["opening"] = Opening(request, st.session_state.get("session"))
    opening.wait(waiting)
    for done in ("request", "opening"):
        st.session_state.pop(done, None)
    if opening.job.failure is not None:
        st.session_state["problem"] = Problem.of(opening.title, opening.job.failure)
    else:
        st.session_state["session"] = opening.session()
        st.session_state.pop("problem", None)
