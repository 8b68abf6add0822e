"""A gate before the page: it lets in who brings the token, by the address at first and by a cookie from then on."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

PARAMETER = "token"
_REFUSED = b"This page is for the one who opened it. Use the address, with its token, that fxopt.explore printed.\n"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class TokenGate:
    """An ASGI application that passes on to another one the requests of browsers that were let in."""

    def __init__(self, application: Application, token: str, cookie: str) -> None:
        """
        Args:
            token: the secret; whoever knows it is let in.
            cookie: its name, which the servers of one machine must not share.
        """
        self._application, self._token, self._cookie = application, token, cookie

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or any(map(self._is_known, _cookies(scope, self._cookie))):
            await self._application(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        elif self._is_known(dict(_query(scope)).get(PARAMETER, "")):
            await self._let_in(scope, send)
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await _answer(send, 403, headers, _REFUSED)

    def _is_known(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._token.encode())

    async def _let_in(self, scope: Message, send: Send) -> None:
        """Answer with the cookie, and with the address less the token: it stays out of links that are sent on."""
        rest = urlencode([(name, value) for name, value in _query(scope) if name != PARAMETER])
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", f"/?{rest}".encode() if rest else b"/"), (b"set-cookie", cookie.encode())]
        await _answer(send, 303, [*headers, (b"cache-control", b"no-store"), (b"referrer-policy", b"no-referrer")], b"")


async def _answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _query(scope: Message) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("ascii", "replace"), keep_blank_values=True)


def _cookies(scope: Message, name: str) -> Iterator[str]:
    """Yield the values of the cookies of this name. Other cookies of the host may have any form."""
    for header, value in scope.get("headers", ()):
        if header == b"cookie":
            for cookie in value.decode("latin-1").split(";"):
                found, _, content = cookie.strip().partition("=")
                if found == name:
                    yield content
