"""What a visitor does at the page and sees there, by Streamlit's AppTest."""

from __future__ import annotations

import json
import re
from pathlib import Path

from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Checkbox, Toggle

from fxopt.ui.session import Session

APP = Path(__file__).parents[2] / "app.py"
FOLD = "FuseBatchNorm2dInConv2d"


def assert_usable(app: AppTest) -> None:
    """No exception is shown, and the open model can be worked with."""
    assert not app.exception, [error.value for error in app.exception]
    names = [state.name for state in session(app).workbench.states]
    assert [toggle.label for toggle in app.toggle][: len(names)] == names


def session(app: AppTest) -> Session:
    found: Session = app.session_state["session"]
    return found


def switch(app: AppTest, name: str, on: bool) -> AppTest:
    return toggle(app, name).set_value(on).run()


def toggle(app: AppTest, label: str) -> Toggle:
    return next(one for one in app.toggle if one.label == label)


def checkbox(app: AppTest, label: str) -> Checkbox:
    return next(one for one in app.checkbox if one.label == label)


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


def texts(app: AppTest) -> str:
    return "\n".join(str(one.value) for one in (*app.markdown, *app.caption, *app.error, *app.success, *app.warning))
