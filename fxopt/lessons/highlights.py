"""The controls of the page that a lesson may point at, by name; `fxopt.ui` knows the place of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fxopt.lessons.errors import LessonError, unknown
from fxopt.lessons.facts import TABS, VIEWS
from fxopt.lessons.settings import Setting
from fxopt.lessons.vocabulary import Known

CONTROLS: Mapping[str, str] = {
    "model": "the picker of models",
    "passes": "the list of passes",
    "graph": "the graph",
    "views": "the choice of the graph that is shown",
    "inspector": "the inspector",
    "evidence": "the tabs below the graph",
    "undo": "the button Undo",
    "redo": "the button Redo",
    "reverse all": "the button Reverse all",
    "history": "the badge beside Reverse all",
    "compare": "the button Compare outputs",
    "measure": "the button Measure",
    "summary": "the figures above the graph",
    "edits": "the form of edits in the inspector",
    "rule": "the editor of a rule",
    "check rule": "the button Check the laws",
}
"""Controls without a name of their own."""

NAMED: Mapping[str, str] = {
    "pass": "a pass in the list, as pass:FoldBatchNorm",
    "site": "a site in the list, as site:FoldBatchNorm/stem_norm",
    "node": "a node of the graph, as node:stem_norm",
    "view": "one of the graphs, as view:Diff",
    "tab": "a tab below the graph, as tab:Numerics",
}
"""Controls that stand for one thing among several."""


@dataclass(frozen=True)
class Highlight:
    """A control: its kind, and the thing that it stands for."""

    kind: str
    pass_name: str = ""
    name: str = ""

    @property
    def in_words(self) -> str:
        """The control, for a learner who cannot see the outline."""
        if self.kind == "pass":
            return f"the pass {self.pass_name}"
        if self.kind == "site":
            return f"the site {self.name} of {self.pass_name}"
        if self.kind == "view":
            return f"the view {self.name}"
        return CONTROLS.get(self.kind) or f"the {self.kind} {self.name}"


def highlight_of(value: Setting, known: Known) -> Highlight:
    """Return the control that a setting names.

    Raises:
        LessonError: there is none of this name; the error has the nearest one.

    >>> from fxopt.lessons.settings import settings_of
    >>> highlight_of(settings_of("site:MergeLinears/query", 1), Known(("MergeLinears",))).in_words
    'the site query of MergeLinears'
    """
    text = value.text()
    kind, has_name, name = text.partition(":")
    try:
        return _highlight(kind, name, bool(has_name), known)
    except LessonError as error:
        raise error.at(value.line) from None


def _highlight(kind: str, name: str, has_name: bool, known: Known) -> Highlight:
    if not has_name:
        if kind not in CONTROLS:
            raise LessonError(unknown("control", kind, (*CONTROLS, *(f"{one}:..." for one in NAMED))))
        return Highlight(kind)
    pass_name, _, site = name.partition("/")
    if kind not in NAMED:
        raise LessonError(unknown("kind of control", kind, NAMED))
    if not name or (kind == "site" and not site):
        raise LessonError(f"{kind}: names {NAMED[kind]}")
    if kind in ("pass", "site"):
        if pass_name not in known.passes:
            raise LessonError(unknown("pass", pass_name, known.passes))
        return Highlight(kind, pass_name, site)
    among = {"view": VIEWS, "tab": TABS}.get(kind)
    if among is not None and name not in among:
        raise LessonError(unknown(kind, name, among))
    return Highlight(kind, name=name)
