"""A picture of a graph as SVG, by the first layout engine of this machine that makes one."""

from __future__ import annotations

from fxopt.view.engine import engines
from fxopt.view.program import EngineError, answer_of

SECONDS = 60
"""The time that an engine may take. A graph with every module open can take longer; fold it then."""


def to_svg(dot: str, seconds: float = SECONDS) -> bytes:
    """Return the SVG of a graph in DOT, as `to_dot` writes it.

    Raises:
        EngineError: no engine is installed, or the last one failed or took longer than `seconds`.
    """
    failure = EngineError("no layout engine is installed; pip install graphviz-pure brings one")
    for _, program in engines():
        try:
            return answer_of([program, "-Tsvg"], dot.encode(), seconds)
        except EngineError as error:
            failure = error
    raise failure
