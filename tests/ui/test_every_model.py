"""Every model of the picker on the page: it opens, takes all passes, can be read, and comes back."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.models import ZOO
from fxopt.ui.session import Session
from tests.ui.visitor import APP


@pytest.mark.slow
@pytest.mark.parametrize("key", [source.key for source in ZOO])
def test_all_passes_go_on_and_come_off_and_every_kind_of_node_can_be_read(key: str) -> None:
    app = AppTest.from_file(str(APP), default_timeout=240).run()
    app.selectbox(key="model").set_value(key).run()
    assert not app.error, app.error[0].value
    session: Session = app.session_state["session"]
    assert session.opened.source.key == key
    for state in session.workbench.states:
        if session.workbench.state_of(state.name).sites:  # those before it may have left it none
            next(one for one in app.toggle if one.label == state.name).set_value(True).run()
            assert not app.exception, app.exception[0].value
            assert not app.error, app.error[0].value
    assert session.workbench.is_changed
    examples = {(node.op, node.target): node.name for node in session.view_of("Now").nodes}
    for name in list(examples.values())[:40]:
        session.select(name)
        app.run()
        assert not app.exception, app.exception[0].value
    if key == "gpt2":  # its layers are Conv1D, at which no other finds a site than dropout and the head
        assert sum("no site in this model" in text.value for text in app.caption) == len(session.workbench.states) - 2
    app.button(key="reverse all").click().run()
    assert any("restored, bit for bit" in text.value for text in app.markdown)
