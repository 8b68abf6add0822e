"""Acts and sight of a visitor at the page, by Streamlit's AppTest."""

from __future__ import annotations

import json
import re

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Checkbox, Toggle

from fxopt.ui.session import Session
from fxopt.workbench import PassState

FOLD = "FuseBatchNorm2dInConv2d"


def assert_usable(app: AppTest) -> None:
    """No exception is shown, and the open model can be worked with."""
    assert not app.exception, [error.value for error in app.exception]
    names = [state.pass_.label for state in session(app).workbench.states if is_listed(app, state)]
    assert [toggle.label for toggle in app.toggle][: len(names)] == names


def is_listed(app: AppTest, state: PassState) -> bool:
    """Whether a pass has a row: those that find nothing here stand together in one line."""
    return bool(state.sites or state.misses or state.on or state.error or state.name == session(app).view.looked_at)


def session(app: AppTest) -> Session:
    found: Session = app.session_state["session"]
    return found


def switch(app: AppTest, name: str, on: bool) -> AppTest:
    return toggle(app, name).set_value(on).run()


def toggle(app: AppTest, name: str) -> Toggle:
    """The switch of a pass by the name of its class, or that of an edit by its label."""
    return next(one for one in app.toggle if one.label in (name, session(app).called(name)))


def checkbox(app: AppTest, label: str) -> Checkbox:
    """The check box with this label, in which the pass may have the name of its class."""
    name, _, place = label.partition(" at ")
    return next(one for one in app.checkbox if one.label in (label, f"{session(app).called(name)} at {place}"))


def badge(app: AppTest) -> str:
    badges = [text.value for text in app.markdown if "-badge[" in text.value]
    assert len(badges) == 1
    return str(badges[0])


def marks(app: AppTest) -> dict[str, list[list[object]]]:
    """The marks that the graph component was sent: box index to [kind, pass, count]."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"layout"' in one.proto.json]
    assert len(sent) == 1
    found: dict[str, list[list[object]]] = sent[0]["marks"]["boxes"]
    return found


def shown_marks(app: AppTest) -> set[object]:
    return {mark[0] for box in marks(app).values() for mark in box}


def metrics(app: AppTest) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.+?)</dt><dd><strong>(.+?)</strong>", "".join(one.value for one in app.get("html"))))


def pass_lines(app: AppTest) -> str:
    """The lines of the passes, as HTML."""
    return "\n".join(one.proto.body for one in app.get("html") if "pass-line" in one.proto.body)


def texts(app: AppTest) -> str:
    return "\n".join(str(one.value) for one in (*app.markdown, *app.caption, *app.error, *app.success, *app.warning))
