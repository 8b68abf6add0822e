"""The buttons that save what is shown."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from fxopt.export import to_csv, to_markdown
from fxopt.ui.downloads import _nodes, _parameters, _picture
from tests.ui.visitor import FOLD, session, switch


def test_tables_and_pictures_are_of_the_graph_as_it_is(app: AppTest) -> None:
    switch(app, FOLD, True)
    mine = session(app)
    lines = to_csv(_nodes(mine)).splitlines()
    assert lines[0] == "name,op,target,module,shape,dtype"
    assert len(lines) == 1 + len(mine.workbench.current.graph.nodes)
    assert not any(line.startswith("stem_norm,") for line in lines)
    assert to_markdown(_parameters(mine), "Parameters").startswith("### Parameters\n\n| path |")
    assert _picture(mine, "png").startswith(b"\x89PNG")
