"""Write the picture that the page shows while PyTorch is imported: ``python -m scripts.first_picture``."""

from __future__ import annotations

import re

from fxopt.models import ZOO
from fxopt.tracing import capture
from fxopt.ui.curtain import PICTURE
from fxopt.view import GraphView, default_unfolded, to_dot, to_picture


def main() -> None:
    source = ZOO[0]
    model = source.build()
    args, kwargs = source.inputs(model, *source.sizes.checked(source.title, None, None))
    view = GraphView.of(capture(model, args, kwargs))
    svg = to_picture(to_dot(view, default_unfolded(view)), "svg").decode()
    for left_out in (
        r"<!--.*?-->\n?",
        r"<title>.*?</title>\n?",
        r'<polygon fill="white" stroke="none".*?/>\n',
        r"</?a\b.*?>\n?",
    ):
        svg = re.sub(left_out, "", svg, flags=re.DOTALL)
    PICTURE.write_text(svg)


if __name__ == "__main__":
    main()
