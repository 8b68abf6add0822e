"""Each browser has a mark, which it gets with its first page and keeps."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from fxopt.ui import browser_mark as module
from fxopt.ui.browser_mark import COOKIE, MarkBrowser, browser_mark

MARK = "abcdefghijklmnopqrstuv"


def cookies_set(kind: str = "http", **headers: str) -> list[str]:
    """The cookies that come with the answer to a request."""
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"etag", b"1")]})

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": kind, "method": "GET", "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
    anyio.run(MarkBrowser(app), scope, None, send)
    assert (b"etag", b"1") in sent[0]["headers"]
    return [value.decode() for name, value in sent[0]["headers"] if name == b"set-cookie"]


def test_a_browser_gets_a_mark_of_its_own_with_a_page() -> None:
    one, other = cookies_set(accept="text/html,*/*"), cookies_set(accept="text/html,*/*", cookie="else=1")
    assert re.match(r"fxopt_browser=[\w-]{22}; Path=/; Max-Age=\d+; HttpOnly; SameSite=Lax$", one[0])
    assert one != other


@pytest.mark.parametrize(
    "cookie", ["xfxopt_browser=" + MARK, "fxopt_browser=", "fxopt_browser=two words", "a=fxopt_browser=" + MARK, "\xff"]
)
def test_a_cookie_that_is_no_mark_gives_way_to_one(cookie: str) -> None:
    assert len(cookies_set(accept="text/html", cookie=cookie)) == 1


@pytest.mark.parametrize(
    "request_",
    [{"accept": "text/html", "cookie": "a=1; fxopt_browser=" + MARK}, {"accept": "text/css"}, {"kind": "websocket"}],
)
def test_a_marked_browser_a_file_and_a_socket_get_none(request_: dict[str, str]) -> None:
    assert cookies_set(**request_) == []


def test_an_address_has_a_hash_of_the_mark_and_never_the_cookie(monkeypatch: pytest.MonkeyPatch) -> None:
    def told(cookies: dict[str, str]) -> str:
        monkeypatch.setattr(module, "st", SimpleNamespace(context=SimpleNamespace(cookies=cookies)))
        return browser_mark()

    assert re.fullmatch("[0-9a-f]{8}", told({COOKIE: MARK}))
    assert told({COOKIE: MARK}) != told({COOKIE: MARK[::-1]})
    assert (told({}), told({COOKIE: "broken"})) == ("", "")
