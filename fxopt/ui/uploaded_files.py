"""Files of a model that a visitor uploaded: they go into a folder that goes with the visitor, read as any folder is.

`config.json` and safetensors are data: none of it is run or unpickled, and the weights are compared with the config
before a tensor is made (`fxopt.models.LocalFolder`). Files that can run code are for `fxopt app --allow-code` alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from torch import nn

from fxopt.errors import ModelError
from fxopt.models import LocalFolder, ModelSource, Sizes
from fxopt.models.dry_run import Fit
from fxopt.models.from_code import PICKLES, PROGRAM_RUNS_CODE, from_program, from_python
from fxopt.models.stored_weights import short
from fxopt.process.memory import in_words
from fxopt.ui import upload_disk
from fxopt.ui.folders import folders_here
from fxopt.ui.own_models import OwnModel
from fxopt.ui.workshop import most_upload_megabytes

UPLOAD = "upload"
"""The key of the picker for a model that is uploaded."""
_CONFIG, _WEIGHTS, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_WEIGHTS_NAME = re.compile(r"[\w.-]{1,200}\.safetensors")
_CODE = (".pt2", ".py")


class File(Protocol):
    """An uploaded file."""

    name: str
    size: int

    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True)
class UploadedFolder(LocalFolder):
    """A folder of weights that a visitor uploaded. Its messages name the upload rather than the folder's place here."""

    name: str

    @property
    def key(self) -> str:
        return f"{UPLOAD}:{self.path.name}"

    @property
    def title(self) -> str:
        return self.name

    @property
    def description(self) -> str:
        return "A model that was uploaded, read as safetensors; no code of it is run."

    @property
    def sizes(self) -> Sizes:
        return self._sizes

    @cached_property
    def _sizes(self) -> Sizes:  # known also once the files have gone
        return super().sizes

    def build(self, fit: Fit | None = None) -> nn.Module:
        with self._its_own_messages():
            return super().build(fit)

    def checked_fit(self) -> Fit:
        if not self.path.is_dir():
            raise ModelError(f"the files of {self.name} went as its visitor left; upload them again")
        with self._its_own_messages():
            return super().checked_fit()

    @contextlib.contextmanager
    def _its_own_messages(self) -> Iterator[None]:
        try:
            yield
        except ModelError as error:
            raise ModelError(_without_place(str(error), self.path)) from error

    def _config(self) -> dict[str, Any]:
        with self._its_own_messages():
            return super()._config()


def _without_place(text: str, folder: Path) -> str:
    """Return a message that names files of a folder by their names alone."""
    return text.replace(f"{folder}{os.sep}", "").replace(str(folder), "the upload")


@dataclass(frozen=True, eq=False)
class Upload:
    """The files of a visitor's model, in a folder that is removed as the visitor leaves, or as this process ends."""

    folder: Path
    name: str
    told: str
    """The files in words."""
    bytes: int
    """Of the disk."""
    code: str = ""
    """The name of the file of Python or of `torch.export`, where it is one."""

    @cached_property
    def _end(self) -> weakref.finalize[..., Upload]:
        return weakref.finalize(self, upload_disk.give_back, str(self.folder), self.bytes)

    def __post_init__(self) -> None:
        try:
            upload_disk.take(self.bytes)
        except ModelError:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        _ = self._end  # which is called once, whoever asks for it

    def remove(self) -> None:
        """Remove the folder; a model that is open stays open."""
        self._end()

    @cached_property
    def source(self) -> ModelSource:
        """The source of the model. Where it is code, the first look at this runs it, and captures the model."""
        if not self.code:
            return UploadedFolder(self.folder, self.name)
        file = self.folder / f"model{Path(self.code).suffix}"
        read = from_program if file.suffix == ".pt2" else from_python
        try:
            made = read(file, self.code)
        except ModelError as error:
            raise ModelError(_without_place(str(error), self.folder)) from error
        return OwnModel.of(self.name, made.model, made.args, made.kwargs)


def kept(files: Mapping[str, File], code: str = "") -> Upload:
    """Return the upload of these files, which are copied into a new folder.

    Raises:
        ModelError: the disk is full, or the uploads of all visitors together have all that they may have of it.
    """
    size = sum(file.size for file in files.values())
    name = code or _architecture(files[_CONFIG])
    try:
        folder = Path(tempfile.mkdtemp(prefix="fxopt-upload-", suffix=f"-{secrets.token_hex(16)}"))
        upload = Upload(folder, name, f"{', '.join(files)}; {in_words(size)}", size, code)
        for name, file in files.items():
            with (folder / (f"model{Path(name).suffix}" if code else name)).open("wb") as place:
                _copy(file, place)
    except OSError as error:  # what there is of it goes with it
        raise ModelError(f"the upload cannot be kept on this server: {error.strerror}") from error
    return upload


def _copy(file: File, place: IO[bytes]) -> None:
    file.seek(0)
    shutil.copyfileobj(file, place, 2**20)


def _architecture(config: File) -> str:
    """Return the name of the architecture, as a title; its faults are told as the model is opened."""
    config.seek(0)
    try:
        names = json.loads(config.read()).get("architectures")
        return str(names[0])[:60]
    except (ValueError, AttributeError, TypeError, LookupError, RecursionError):
        return "Uploaded model"


def sorted_out(files: Sequence[File], allow_code: bool) -> tuple[dict[str, File], str, str]:
    """Return the files of a model by the names that they are kept under, the name of one with code, and a wish.

    The wish is a sentence on the files that lack still; it is empty if none does. Other files of a saved model, such as
    those of its tokenizer, are left out.

    Raises:
        ModelError: a file can run code and may not, two have one name, or all together are too large.
    """
    named: dict[str, File] = {}
    for file in files:
        name = re.split(r"[\\/]", file.name)[-1]
        if name in named:
            raise ModelError(f"two files are called {short(name)}; choose those of one model")
        named[name] = file
    size, most = sum(file.size for file in files), most_upload_megabytes() * 2**20
    if size > most:
        instead = "" if folders_here().is_empty else "; open its folder instead, of the machine that serves this page"
        raise ModelError(f"the files have {in_words(size)}, and an upload at most {in_words(most)}{instead}")
    code = [name for name in named if name.endswith(_CODE)]
    weights = [name for name in named if name.endswith(".safetensors")]
    if code and not weights:
        return {code[0]: named[code[0]]}, _allowed(code, allow_code), ""
    pickles = [name for name in named if name.lower().endswith(PICKLES)]
    if pickles and not weights:
        raise ModelError(
            f"{short(pickles[0])} can run code when it is read, so it stays unread. Save the model with "
            "model.save_pretrained(folder), and upload config.json and model.safetensors of that folder"
        )
    return _parts(named, weights), "", _wish(named, weights)


def _allowed(code: Sequence[str], allow_code: bool) -> str:
    """Return the file with code, if it may be run."""
    name = short(code[0])
    if len(code) > 1:
        raise ModelError(f"{name} and {short(code[1])} are two models; choose one")
    if not allow_code:
        reason = PROGRAM_RUNS_CODE if name.endswith(".pt2") else "a file of Python is run"
        raise ModelError(
            f"{name} is refused: {reason}. Only `fxopt app --allow-code`, which serves this machine alone, takes it; "
            "config.json with safetensors is taken everywhere"
        )
    return code[0]


def _parts(named: Mapping[str, File], weights: Sequence[str]) -> dict[str, File]:
    wrong = next((name for name in weights if not _WEIGHTS_NAME.fullmatch(name)), None)
    if wrong is not None:
        raise ModelError(f"{short(wrong)} is no name for a file of weights; call it model.safetensors")
    found = {name: named[name] for name in (_CONFIG, _INDEX, *weights) if name in named}
    if len(weights) == 1 and _INDEX not in named:
        found[_WEIGHTS] = found.pop(weights[0])
    return found


def _wish(named: Mapping[str, File], weights: Sequence[str]) -> str:
    if not named:
        return ""
    lacking = [one for one, there in ((_CONFIG, _CONFIG in named), (_WEIGHTS, bool(weights))) if not there]
    return f"{' and '.join(lacking)} of the model {'are' if lacking[1:] else 'is'} still to come." if lacking else ""
