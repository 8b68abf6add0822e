"""Choice of the open model: the built-in ones, architectures of transformers, or a folder with weights."""

from __future__ import annotations

import streamlit as st

from fxopt.errors import ModelError
from fxopt.models import SizeRange, Sizes
from fxopt.ui.fault import told_in_place
from fxopt.ui.folders import MOST_TEXT, folders_here
from fxopt.ui.keys import ask_for_sheet
from fxopt.ui.markdown import escaped
from fxopt.ui.opening import FOLDER, Opening, Request
from fxopt.ui.own_models import OwnModel, offered, offered_source
from fxopt.ui.problem import Problem, show_problem
from fxopt.ui.session import Session

_FOLDER_HELP = (
    "A folder with config.json and model.safetensors of an architecture that transformers knows, as "
    "`model.save_pretrained(folder)` writes it. It is read on the machine that serves this page; no code of it is run."
)


def model_picker() -> Session | None:
    """Draw the picker, open the requested model, and return the session; None before a first model is open."""
    with told_in_place("picker of models"):
        _picker()
    session: Session | None = st.session_state.get("session")
    return session


def _picker() -> None:
    _choose_model()
    _ask_for_what_is_chosen()
    # Both places are there in each run: the elements below keep their position, or the browser would build them anew.
    waiting, told, remarked = st.empty(), st.empty(), st.empty()
    _open_requested(waiting)
    session: Session | None = st.session_state.get("session")
    if problem := st.session_state.get("problem"):
        with told.container():
            show_problem(problem, session.opened.source.title if session else "")
    elif session is None:
        told.info("No model is open. Choose one above; the small ones open at once.", icon=":material/account_tree:")
    if session is not None and session.opened.remarks:
        remarked.warning("\n\n".join(map(escaped, session.opened.remarks)), icon=":material/warning:")


def _choose_model() -> None:
    widths = [0.9, 3.5, 3.6, 1.4, 1.4, 1.3]
    brand, picker, where, batch, sequence, reading = st.columns(widths, vertical_alignment="bottom")
    brand.html('<h1 class="brand">fxopt</h1>')
    titles = {source.key: source.title for source in offered()}
    if not folders_here().is_empty:
        titles[FOLDER] = "A folder with weights (safetensors) …"
    picker.selectbox("Model", list(titles), format_func=titles.__getitem__, key="model")
    key = st.session_state["model"]
    if key == FOLDER:
        where.text_input(
            "Folder",
            key="folder",
            placeholder="/path/to/model, then Enter",
            max_chars=MOST_TEXT,
            help=_FOLDER_HELP,
        )
    else:
        where.caption(escaped(offered_source(key).description))
    sizes = _sizes(key)
    if sizes is not None:
        _choose_size(batch, "Batch", "batch", sizes.batch)
        if sizes.sequence is not None:
            _choose_size(sequence, "Sequence", "sequence", sizes.sequence)
    with reading.container(horizontal=True, horizontal_alignment="right", gap="xsmall"):
        _reading_aids()


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
    st.button("Keys", icon=":material/keyboard:", key="icon keys", help="All keys (?)", on_click=ask_for_sheet)
    if large:
        st.html("<style>html { font-size: 19px !important; --fx-size: 17px; }</style>")


def _choose_size(place: st.delta_generator.DeltaGenerator, label: str, axis: str, limits: SizeRange) -> None:
    # The field itself has no bounds: out of range, the browser would drop the number silently.
    place.number_input(
        label,
        value=limits.default,
        step=1,
        key=_size_key(axis),
        help=f"A whole number {limits}",
    )


def _size_key(axis: str) -> str:
    """Return a key for each model's number fields, so that each starts with its own defaults."""
    return f"{axis} of {st.session_state['model']}{_folder()}"


def _folder() -> str:
    return str(st.session_state.get("folder") or "").strip() if st.session_state["model"] == FOLDER else ""


def _sizes(key: str) -> Sizes | None:
    if key == FOLDER and not _folder():
        return None
    try:
        source = Request(key, _folder()).source
        return None if isinstance(source, OwnModel) else source.sizes  # its example is as large as it is
    except ModelError:
        # Opening the folder says the fault in it.
        return None


# ---- the request


def _ask_for_what_is_chosen() -> None:
    """Request the model that the fields name, if it differs from the last request.

    This is a plain call instead of a callback of the fields: when clicks come quickly, Streamlit ends a run as soon as
    it looks at its state.
    """
    model, folder = st.session_state["model"], _folder()
    sizes = [st.session_state.get(_size_key(axis)) for axis in ("batch", "sequence")]
    before = st.session_state.get("chosen")
    if before == (model, folder, *sizes):
        return
    is_the_same = before is not None and before[:2] == (model, folder)
    if model != FOLDER or folder:
        st.session_state["request"] = Request(model, folder, *sizes) if is_the_same else Request(model, folder)
    st.session_state["chosen"] = (model, folder, *sizes)


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
