"""A gate before Streamlit's own door for files: it bounds the bytes of one visitor, and of all together.

The memory that files take on their way in has to be free, and so has the disk that they take then (`upload_disk.py`).

Streamlit bounds each file (``server.maxUploadSize``), and takes any number of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from streamlit import runtime

from fxopt.errors import ModelError
from fxopt.process.memory import check_memory
from fxopt.ui.upload_disk import check_disk
from fxopt.ui.workshop import most_upload_megabytes

_UPLOAD = re.compile(r".*/_stcore/upload_file/(?P<visitor>[^/]+)/[^/]+")
_TIMES_IN_MEMORY = 2
"""Streamlit reads a file as a whole, while its form lies in memory or on the disk."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class UploadGate:
    """Refuse an upload before its body is read, where the visitor or all have too much here, or no memory is free."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self.app = app
        self._coming: Counter[str] = Counter()
        """By visitor, the bytes that are being uploaded."""

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        found = _UPLOAD.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "PUT" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        visitor, length = found["visitor"], _length(scope)
        if length is None:
            await _refuse(send, 411, "an upload has to say its length")
        elif refusal := self._refusal(visitor, length):
            await _refuse(send, 413, refusal)
        else:
            self._coming[visitor] += length
            try:
                await self.app(scope, receive, send)
            finally:
                self._coming[visitor] -= length
                if not self._coming[visitor]:
                    del self._coming[visitor]

    def _refusal(self, visitor: str, length: int) -> str:
        """Return the reason why so many bytes more are not taken; an empty text if they are."""
        most = most_upload_megabytes() * 2**20
        if self._coming[visitor] + _held(visitor) + length > most + _FORM:
            return f"the files of one visitor may have {most:,} bytes together"
        try:
            check_disk(length + self._coming.total())
            check_memory("the upload takes", _TIMES_IN_MEMORY * (length + self._coming.total()))
        except ModelError as error:
            return str(error)
        return ""


_FORM = 2**20
"""Bytes that the form around a file may take."""


def _held(visitor: str) -> int:
    """Return the bytes of the visitor's files that Streamlit holds."""
    if not runtime.exists():
        return 0
    storage: Any = getattr(runtime.get_instance().uploaded_file_mgr, "file_storage", {})
    return sum(len(file.data) for file in storage.get(visitor, {}).values())


def _length(scope: Message) -> int | None:
    text = next((value for name, value in scope["headers"] if name.lower() == b"content-length"), b"")
    return int(text) if text.isdigit() else None


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = f"{reason}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
