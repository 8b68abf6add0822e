"""Every model of the picker on the page: it opens, takes all passes, can be read, and comes back."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from fxopt.models import ZOO
from fxopt.ui.command import PAGE
from fxopt.ui.session import Session
from fxopt.ui.viewing import select
from tests.ui.visitor import passes, rows, switch


@pytest.mark.slow
@pytest.mark.parametrize("key", [source.key for source in ZOO])
def test_all_passes_go_on_and_come_off_and_every_kind_of_node_can_be_read(key: str) -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=240).run()
    app.selectbox(key="model").set_value(key).run()
    assert not app.error, app.error[0].value
    session: Session = app.session_state["session"]
    assert session.opened.source.key == key
    for state in session.workbench.states:
        if session.workbench.state_of(state.name).sites:  # those before it may have left it none
            switch(app, state.name, True)
            assert not app.exception, app.exception[0].value
            assert not app.error, app.error[0].value
            assert not any(row.get("error") for row in rows(app)), rows(app)
    assert session.workbench.is_changed
    examples = {(node.op, node.target): node.name for node in session.view_of("Now").nodes}
    for name in list(examples.values())[:40]:
        select(session, name)
        app.run()
        assert not app.exception, app.exception[0].value
    idle = {state.name for state in session.workbench.states if not (state.sites or state.misses or state.on)}
    assert {one["key"] for one in passes(app)["idle"]} == {f"idle-{name}" for name in idle - {session.view.looked_at}}
    app.button(key="reverse all").click().run()
    assert any("restored, bit for bit" in text.value for text in app.markdown)
