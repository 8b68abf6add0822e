"""Pictures of graphs as files."""

import shutil

import pytest

from fxopt import FxoptError
from fxopt.view import to_picture
from fxopt.view.program import EngineError


def test_a_graph_is_drawn_as_svg_and_png_and_another_form_is_refused() -> None:
    dot = "digraph { a -> b }"
    assert b"<svg" in to_picture(dot, "svg")
    assert to_picture(dot, "png").startswith(b"\x89PNG")
    with pytest.raises(FxoptError, match="svg, png, pdf, not 'gif'"):
        to_picture(dot, "gif")  # type: ignore[arg-type]


def test_a_pdf_takes_graphviz() -> None:
    dot = "digraph { a -> b }"
    if shutil.which("dot"):
        assert to_picture(dot, "pdf").startswith(b"%PDF")
        return
    with pytest.raises(EngineError, match="a PDF takes the program dot of Graphviz"):
        to_picture(dot, "pdf")
