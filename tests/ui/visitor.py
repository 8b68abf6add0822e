"""Acts and sight of a visitor at the page, by Streamlit's AppTest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamlit.testing.v1 import AppTest

from fxopt.ui import pass_acts
from fxopt.ui.events import Heard
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class
from fxopt.workbench import PassState

FOLD = "FuseBatchNorm2dInConv2d"


def assert_usable(app: AppTest) -> None:
    """No exception is shown, and the open model can be worked with."""
    assert not app.exception, [error.value for error in app.exception]
    names = [state.pass_.label for state in session(app).workbench.states if is_listed(app, state)]
    assert [row["name"] for row in rows(app) if "by hand" not in row] == names


def is_listed(app: AppTest, state: PassState) -> bool:
    """Whether a pass has a row: those that find nothing here stand together in one line."""
    return bool(state.sites or state.misses or state.on or state.error or state.name == session(app).view.looked_at)


def session(app: AppTest) -> Session:
    found: Session = app.session_state["session"]
    return found


def switch(app: AppTest, name: str, on: bool) -> AppTest:
    return toggle(app, name).set_value(on).run()


@dataclass(frozen=True)
class Switch:
    """A switch in the list of passes."""

    app: AppTest
    about: str
    label: str
    value: bool
    disabled: bool

    def set_value(self, on: bool) -> AppTest:
        """Move it as a visitor does; the page is to be run then."""
        assert not self.disabled, f"{self.label} is disabled"
        return act(self.app, "on" if on else "off", self.about)


def message(of: Session, *acts: Any) -> dict[str, Any]:
    """The message by which the browser tells of acts in a session, ``(number, kind, about)``."""
    return {"session": of.identity, "acts": [*acts]}


def act(app: AppTest, kind: str, about: str = "") -> AppTest:
    """Do an act in the list of passes, as a browser sends it, about a pass by its name; the page is to be run then."""
    styles = session(app).styles
    about = styles[about].letter if about in styles else about
    assert pass_acts.act(session(app), Heard(), message(session(app), [1, kind, about])) == ""
    return app


def passes(app: AppTest) -> dict[str, Any]:
    """The list of passes as the browser was sent it."""
    sent = [json.loads(one.proto.json) for one in app.get("bidi_component") if '"rows"' in one.proto.json]
    assert len(sent) == 1
    found: dict[str, Any] = sent[0]
    return found


def rows(app: AppTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = passes(app)["rows"]
    return found


def row(app: AppTest, name: str) -> dict[str, Any]:
    return next(one for one in rows(app) if one["class"] == as_class(name))


def switches(app: AppTest) -> list[Switch]:
    """All switches of the list, those of its sites too."""
    return [
        Switch(app, one["about"], one["label"], one["on"], one["disabled"])
        for row in rows(app)
        for one in _switches_in(row)
    ]


def _switches_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        if "about" in part and "on" in part:
            yield part
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            yield from _switches_in(one)


def toggle(app: AppTest, name: str) -> Switch:
    """The switch of a pass by the name of its class, or that of an edit by its label."""
    return next(one for one in switches(app) if one.label in (name, session(app).called(name)))


def checkbox(app: AppTest, label: str) -> Switch:
    """The check box with this label, in which the pass may have the name of its class."""
    name, _, place = label.partition(" at ")
    return next(one for one in switches(app) if one.label in (label, f"{session(app).called(name)} at {place}"))


def question(app: AppTest) -> str:
    """The question to the visitor that the list has; empty if there is none."""
    asked = [one["question"]["told"] for one in rows(app) if one["question"]]
    assert len(asked) <= 1
    return asked[0] if asked else ""


def answer(app: AppTest, said: str) -> AppTest:
    """Answer the question of the list; the page is to be run then."""
    [asking] = [one["question"]["name"] for one in rows(app) if one["question"]]
    return act(app, "answer", f"{asking} {said}")


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
    """The lines of the passes, in words."""
    return "\n".join(one.get("words", "") for one in rows(app))


def texts(app: AppTest) -> str:
    told = (str(one.value) for one in (*app.markdown, *app.caption, *app.error, *app.success, *app.warning))
    has_list = any('"rows"' in one.proto.json for one in app.get("bidi_component"))
    listed = {name: part for name, part in passes(app).items() if name != "session"} if has_list else {}
    return "\n".join((*told, *_texts_in(listed)))


def _texts_in(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _texts_in(one)
