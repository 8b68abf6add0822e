"""A picture of a graph as a file, by the first layout engine of this machine that makes one."""

from __future__ import annotations

from typing import Literal, get_args

from fxopt.errors import FxoptError
from fxopt.view.engine import engines
from fxopt.view.program import EngineError, answer_of

SECONDS = 60
"""The time that an engine may take. A graph with every module open can take longer; fold it then."""

PictureForm = Literal["svg", "png", "pdf"]


def to_svg(dot: str, seconds: float = SECONDS) -> bytes:
    """Return the SVG of a graph in DOT, as `to_dot` writes it.

    Raises:
        EngineError: no engine is installed, or the last one failed or took longer than `seconds`.
    """
    return to_picture(dot, "svg", seconds)


def to_picture(dot: str, form: PictureForm, seconds: float = SECONDS) -> bytes:
    """Return the picture of a graph in DOT as SVG, PNG or PDF.

    Raises:
        EngineError: no engine of this machine makes this form, or the last one failed or took longer than `seconds`.
        FxoptError: the form is another one.
    """
    if form not in get_args(PictureForm):
        raise FxoptError(f"a picture has the form {', '.join(get_args(PictureForm))}, not {form!r}")
    failure = EngineError("no layout engine is installed; pip install graphviz-pure brings one")
    for _, program in engines():
        try:
            return answer_of([program, f"-T{form}"], dot.encode(), seconds)
        except EngineError as error:
            failure = error
    if form == "pdf":
        raise EngineError(f"a PDF takes the program dot of Graphviz (apt install graphviz): {failure}") from failure
    raise failure
