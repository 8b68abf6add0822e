"""Requests of a browser that Streamlit would grant to anyone, and that concern other visitors or this machine.

Streamlit's own page keeps them behind a menu and a key, which the page has neither of. A client of another make can
still send them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import streamlit
from streamlit.logger import get_logger
from streamlit.runtime.app_session import AppSession

from fxopt.errors import FxoptError
from fxopt.ui.folders import is_served_here
from fxopt.ui.guest import is_guest

_LOG = get_logger(__name__)
_REQUESTS = {
    "_handle_clear_cache_request": "to clear the models of all visitors",
    "_handle_git_information_request": "for the names of files in the repository of this server",
}
"""The methods of a session that grant a request, with the request in words."""


def refuse_requests() -> None:
    """Refuse these requests of all sessions of this process, with a line in the log.

    In a process of someone else's, where the page is a guest behind a token, Streamlit's class stays as it is: the one
    visitor owns the process.

    Raises:
        FxoptError: this version of Streamlit grants one by another method, and others than users of this machine come.
            A page for this machine alone goes on, with a line in the log.
    """
    if is_guest():
        return
    for method, asked in _REQUESTS.items():
        if hasattr(AppSession, method):
            setattr(AppSession, method, _refusal(asked))
        elif is_served_here():
            _warn_once(method, asked)
        else:
            raise FxoptError(
                f"Streamlit {streamlit.__version__} has no {method}, so a browser's request {asked} cannot be refused; "
                "serve the page with an earlier Streamlit, or on this machine alone"
            )


@functools.cache
def _warn_once(method: str, asked: str) -> None:
    _LOG.warning("fxopt: a browser's request %s is granted: this Streamlit has no %s", asked, method)


def _refusal(asked: str) -> Callable[[AppSession], None]:
    def refuse(session: AppSession) -> None:
        _LOG.warning("fxopt: a browser asked %s, and was refused", asked)

    return refuse
