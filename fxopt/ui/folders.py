"""The folders of the server's machine that a visitor may open: any from this machine itself, named ones from others."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from fxopt.errors import ModelError
from fxopt.ui.workshop import is_workshop

MOST_TEXT = 4096
"""The most characters of a path; Linux takes as many."""
MOST_NAME = 255
"""Bytes of the name of a file or folder, on every file system in use."""
SHOWN = 60
"""Characters shown of an impossible path, in the message about it."""

VARIABLE = "FXOPT_FOLDERS"
"""The environment variable with the named folders, separated as in ``PATH``."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Folders:
    """The folders whose models may be opened.

    >>> Folders((Path("/nowhere"),)).folder("/etc")
    Traceback (most recent call last):
    fxopt.errors.ModelError: only folders below /nowhere can be opened at this server
    """

    named: tuple[Path, ...] | None = None
    """The places that they must lie below; None for anywhere. Then only users of this machine reach the page."""

    @property
    def is_empty(self) -> bool:
        """Whether every folder is forbidden."""
        return self.named == ()

    def folder(self, text: str) -> Path:
        """Return the folder that a visitor named.

        Raises:
            ModelError: it cannot be a path, or is a forbidden one. The message for a forbidden folder is the same
                whether it exists or not.
        """
        _check_path(text)
        if self.named is None:
            try:
                return Path(text).expanduser()
            except RuntimeError:
                raise ModelError(f"{text}: this machine has no such user; give the whole path") from None
        found = [Path(os.path.realpath(asked)) for root in self.named if (asked := _below(root, text)) is not None]
        allowed = [folder for folder in found if self._has(folder)]
        for folder in allowed:
            if is_folder(folder) and all(map(self._has, _files_of(folder))):
                return folder
        if not allowed or is_folder(allowed[0]):
            below = f"only folders below {', '.join(map(str, self.named))}" if self.named else "no folder"
            raise ModelError(f"{below} can be opened at this server")
        return allowed[0]

    def _has(self, path: Path) -> bool:
        """Return whether `path`, through all links, lies below one of the named folders."""
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(os.path.realpath(root)) for root in self.named or ())


def _below(root: Path, text: str) -> Path | None:
    """Return the path `text`, seen from `root`, if it is written as one below it. The disk is not read."""
    asked = Path(os.path.normpath(root / text))
    return asked if asked.is_relative_to(root) or asked.is_relative_to(os.path.realpath(root)) else None


def _files_of(folder: Path) -> list[Path]:
    """Return the files of a model that are read."""
    return [folder / "config.json", *folder.glob("*.safetensors*")]


def is_folder(path: Path) -> bool:
    """Return whether there is a folder at `path`; False if the system keeps that secret."""
    try:
        return path.is_dir()
    except OSError:
        return False


def folders_of(address: str | None, folders: Sequence[str]) -> Folders:
    """Return the folders that may be opened at a server that listens at `address`; None for every interface.

    >>> folders_of("127.0.0.1", []).named, folders_of("0.0.0.0", []).named
    (None, ())
    """
    if is_workshop():
        return Folders(())
    named = [name for name in folders if name]
    if named or not is_loopback(address):
        return Folders(tuple(Path(os.path.abspath(os.path.expanduser(name))) for name in named))
    return Folders()


def folders_here() -> Folders:
    """Return the folders that may be opened at this server, by its address and the variable `VARIABLE`."""
    return folders_of(st.get_option("server.address"), os.environ.get(VARIABLE, "").split(os.pathsep))


def is_served_here() -> bool:
    """Return whether only this machine reaches this server: at a workshop others do, through a balancer."""
    return not is_workshop() and is_loopback(st.get_option("server.address"))


def is_loopback(address: str | None) -> bool:
    """Return whether only this machine reaches `address`, which is a name or a number.

    >>> [is_loopback(address) for address in ("localhost", "127.8.0.1", "::1", "::", "0.0.0.0", "192.168.1.5", None)]
    [True, True, True, False, False, False, False]
    """
    if address in LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(address or "").is_loopback
    except ValueError:
        return False


def _check_path(text: str) -> None:
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
    if "\0" in text:
        raise ModelError(f"{shown!r} is no path: it has a NUL character in it")
    if len(text) > MOST_TEXT:
        raise ModelError(f"{shown} is no path: it has {len(text):,} characters, and a path at most {MOST_TEXT:,}")
    longest = max(len(os.fsencode(part)) for part in text.encode("utf-8", "replace").decode("utf-8").split("/"))
    if longest > MOST_NAME:
        raise ModelError(
            f"{shown} is no path: a name in it has {longest:,} bytes, and the name of a folder at most {MOST_NAME}"
        )
