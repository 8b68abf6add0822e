"""A mark of each browser: by it the page knows an address that this browser wrote from one that was sent to it."""

from __future__ import annotations

import re
import secrets
from hashlib import sha256

import streamlit as st

from fxopt.ui.wrong_path import Application, Receive, Scope, Send, wants_a_page

COOKIE = "fxopt_browser"
_SECONDS = 365 * 24 * 60 * 60
_MARK = re.compile(r"[\w-]{22}", re.ASCII)


class MarkBrowser:
    """Give each browser that has no mark a random one, in a cookie, with the page. It says nothing about its owner."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not wants_a_page(scope) or _is_marked(scope):
            await self.app(scope, receive, send)
            return

        async def send_marked(message: Scope) -> None:
            if message["type"] == "http.response.start":
                # Lax: a browser that follows a link in a mail brings its mark
                cookie = f"{COOKIE}={secrets.token_urlsafe(16)}; Path=/; Max-Age={_SECONDS}; HttpOnly; SameSite=Lax"
                message["headers"] = [*message.get("headers", ()), (b"set-cookie", cookie.encode())]
            await send(message)

        await self.app(scope, receive, send_marked)


def _is_marked(scope: Scope) -> bool:
    cookies = b";".join(value for name, value in scope["headers"] if name.lower() == b"cookie").decode("latin-1")
    pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
    return any(name == COOKIE and _MARK.fullmatch(mark) for name, _, mark in pairs)


def browser_mark() -> str:
    """Return a hash of the mark of the visitor's browser, which may stand in an address; empty without cookies."""
    mark = str(st.context.cookies.get(COOKIE, ""))  # a mock in an AppTest
    return sha256(mark.encode()).hexdigest()[:8] if _MARK.fullmatch(mark) else ""
