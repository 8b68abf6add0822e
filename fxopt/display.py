"""Rich display in a notebook: the method that it asks a value for. An upper layer registers the renderers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Container
from functools import singledispatch

_before_the_first: list[Callable[[], None]] = []


def before_the_first(register: Callable[[], None]) -> None:
    """Let `register` bring the renderers, once the first value is displayed: their import takes time."""
    _before_the_first.append(register)


@singledispatch
def html_of(value: object) -> str | None:
    """Return a value as HTML; None where its text tells all. `fxopt.ui.notebook` registers a renderer of each kind."""
    return None


class Displayed:
    """A value that Jupyter, JupyterLab and VS Code draw; a terminal prints its text."""

    def _repr_mimebundle_(
        self, include: Container[str] | None = None, exclude: Container[str] | None = None
    ) -> dict[str, str]:
        """Return the text of the value, and its HTML where that can be shown, each under its MIME type."""
        bundle = {"text/plain": repr(self)}
        if _shows_html():
            while _before_the_first:
                _before_the_first.pop()()
            shown = html_of(self)
            if shown is not None:
                bundle["text/html"] = shown
        return bundle


def _shows_html() -> bool:
    """Return False in a terminal of IPython, which asks for the bundle as well and shows the text alone."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is None or "text/html" in shell.display_formatter.active_types
