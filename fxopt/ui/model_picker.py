"""Which model is open: the built-in ones, architectures of transformers, or a folder with weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from fxopt.core.errors import FxoptError, ModelError
from fxopt.models import ZOO, LocalFolder, ModelSource, SizeRange, Sizes, model_source
from fxopt.ui.markdown import escaped
from fxopt.ui.session import Session, captured

FOLDER = "folder"
_FOLDER_HELP = (
    "A folder with config.json and model.safetensors of an architecture that transformers knows, as "
    "`model.save_pretrained(folder)` writes it. It is read on the machine that serves this page; no code of it is run."
)


@dataclass(frozen=True)
class Request:
    """A model that a visitor asked for, at sizes; None for a size means its default."""

    key: str
    folder: str = ""
    batch: int | None = None
    sequence: int | None = None

    @property
    def source(self) -> ModelSource:
        return LocalFolder(Path(self.folder).expanduser()) if self.key == FOLDER else model_source(self.key)


def model_picker() -> Session | None:
    """Draw the picker, open what was asked for, and give the session; None while nothing could be opened."""
    if "session" not in st.session_state:
        st.session_state.setdefault("request", Request(ZOO[0].key))
    _choose_model()
    # Both places are there in each run: what comes below keeps its position, or the browser would build it anew.
    waiting, told = st.empty(), st.empty()
    _open_requested(waiting)
    if problem := st.session_state.get("problem"):
        with told:
            _show_problem(problem)
    session: Session | None = st.session_state.get("session")
    return session


def _choose_model() -> None:
    brand, picker, where, batch, sequence, _ = st.columns([0.9, 3.5, 4, 1.4, 1.4, 0.6], vertical_alignment="bottom")
    brand.html('<h1 class="brand">fxopt</h1>')
    titles = {source.key: source.title for source in ZOO} | {FOLDER: "A folder with weights (safetensors) …"}
    picker.selectbox("Model", list(titles), format_func=titles.__getitem__, key="model", on_change=_ask_for_model)
    key = st.session_state["model"]
    if key == FOLDER:
        where.text_input(
            "Folder",
            key="folder",
            placeholder="/path/to/model, then Enter",
            help=_FOLDER_HELP,
            on_change=_ask_for_folder,
        )
    else:
        where.caption(escaped(model_source(key).description))
    sizes = _sizes(key)
    if sizes is not None:
        _choose_size(batch, "Batch", "batch", sizes.batch)
        if sizes.sequence is not None:
            _choose_size(sequence, "Sequence", "sequence", sizes.sequence)


def _choose_size(place: st.delta_generator.DeltaGenerator, label: str, what: str, limits: SizeRange) -> None:
    # Without bounds of its own: out of range, the browser would drop the number and not say why.
    place.number_input(
        label,
        value=limits.default,
        step=1,
        key=_size_key(what),
        help=f"A whole number {limits}",
        on_change=_ask_for_sizes,
    )


def _size_key(what: str) -> str:
    """Each model has number fields of its own, so that each starts with its own defaults."""
    return f"{what} of {st.session_state['model']}{_folder()}"


def _folder() -> str:
    return str(st.session_state.get("folder") or "").strip() if st.session_state["model"] == FOLDER else ""


def _sizes(key: str) -> Sizes | None:
    if key == FOLDER and not _folder():
        return None
    try:
        return Request(key, _folder()).source.sizes
    except ModelError:
        # Opening the folder says what is wrong with it.
        return None


# ---- what was asked for


def _ask_for_model() -> None:
    if st.session_state["model"] == FOLDER:
        if _folder():
            _ask_for_folder()
        return
    st.session_state["request"] = Request(st.session_state["model"])


def _ask_for_folder() -> None:
    if _folder():
        st.session_state["request"] = Request(FOLDER, _folder())


def _ask_for_sizes() -> None:
    batch, sequence = (st.session_state.get(_size_key(what)) for what in ("batch", "sequence"))
    st.session_state["request"] = Request(st.session_state["model"], _folder(), batch, sequence)


def _cancel() -> None:
    st.session_state.pop("request", None)


def _open_requested(waiting: st.delta_generator.DeltaGenerator) -> None:
    """Open what was asked for. The request stays until it is done, so that a click meanwhile does not lose it."""
    request: Request | None = st.session_state.get("request")
    if request is None:
        return
    try:
        session = _opened(request, waiting)
    except Exception as error:  # noqa: BLE001 - building a model may fail in any way; the page stays and tells how
        told = str(error) if isinstance(error, FxoptError) else f"{type(error).__name__}: {error}"
        st.session_state["problem"] = told
    else:
        st.session_state["session"] = session
        st.session_state.pop("problem", None)
    st.session_state.pop("request", None)
    waiting.empty()


def _opened(request: Request, waiting: st.delta_generator.DeltaGenerator) -> Session:
    source = request.source
    batch, sequence = source.sizes.checked(source.title, request.batch, request.sequence)
    stamp = _stamp(request)
    with waiting.container(horizontal=True, vertical_alignment="center"):
        st.button("Cancel", key="cancel opening", on_click=_cancel)
        with st.spinner(f"Opening {escaped(source.title)}: building it and capturing its graph …", show_time=True):
            opened = captured(source.key, stamp, batch, sequence, source)
            return Session(opened)


def _stamp(request: Request) -> str:
    """Changes where a file of the folder does, so that a folder that was mended is read again."""
    if request.key != FOLDER:
        return ""
    folder = Path(request.folder).expanduser()
    files = (folder / "config.json", *sorted(folder.glob("*.safetensors")))
    return " ".join(f"{file.stat().st_mtime_ns} {file.stat().st_size}" for file in files if file.is_file())


def _show_problem(problem: str) -> None:
    session: Session | None = st.session_state.get("session")
    still = f"\n\nStill open: **{escaped(session.opened.source.title)}**, as it was." if session else ""
    with st.container(horizontal=True, key="problem"):
        st.error(escaped(problem) + still, icon=":material/error:")
        st.button(
            "Dismiss", icon=":material/close:", key="icon dismiss", help="Dismiss", on_click=_dismiss, type="tertiary"
        )


def _dismiss() -> None:
    st.session_state.pop("problem", None)
