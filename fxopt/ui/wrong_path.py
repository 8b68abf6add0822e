"""A wrong path leads to the page, where Streamlit's own files would be looked for below it and the page stay white."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from streamlit import config

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OF_STREAMLIT = ("_stcore", "static", "media", "component", "app", "vendor")
"""The first parts of paths that Streamlit answers."""


class LeadBack:
    """Send a browser that asks for a page anywhere else to the page; the query, which may hold a state, goes along."""

    def __init__(self, app: Application) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        base = f"/{str(config.get_option('server.baseUrlPath') or '').strip('/')}".rstrip("/")
        if scope["type"] != "http" or not is_lost(scope["path"], base) or not wants_a_page(scope):
            await self.app(scope, receive, send)
            return
        query = scope.get("query_string") or b""
        up = scope["path"].removeprefix(base).count("/") - 1  # relative: a proxy may have put something before
        place = ("../" * up or "./").encode() + (b"?" + query if query else b"")
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", place)]})
        await send({"type": "http.response.body", "body": b""})


def is_lost(path: str, base: str = "") -> bool:
    """Return whether a path is neither the page nor a file or an entry of Streamlit.

    >>> [is_lost(path) for path in ("/", "/a/b", "/a", "/static/js/index.js", "/_stcore/health", "/favicon.png")]
    [False, True, True, False, False, False]
    >>> is_lost("/fx/", base="/fx"), is_lost("/fx/a/b", base="/fx"), is_lost("/other", base="/fx")
    (False, True, False)
    """
    if not path.startswith(f"{base}/"):
        return False
    parts = [part for part in path.removeprefix(base).split("/") if part]
    return bool(parts) and parts[0] not in OF_STREAMLIT and "." not in parts[-1]


def wants_a_page(scope: Scope) -> bool:
    """Return whether a request of HTTP is that of a browser for a page, rather than for one of its files."""
    accepted = b"".join(value for name, value in scope["headers"] if name.lower() == b"accept")
    return scope["method"] == "GET" and b"text/html" in accepted
