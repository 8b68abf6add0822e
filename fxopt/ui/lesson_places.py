"""The places on the page of the controls that a lesson points at, as selectors of CSS; nodes are found in the graph."""

from __future__ import annotations

from collections.abc import Mapping

from fxopt.lessons.highlights import CONTROLS, Highlight
from fxopt.ui.session import Session
from fxopt.ui.site_list import families_in
from fxopt.ui.switches import as_class

PLACES: Mapping[str, str] = {
    "model": '.st-key-bar [data-testid="stSelectbox"]',
    "passes": ".st-key-passes",
    "graph": ".fx-stage",
    "views": ".st-key-shown",
    "inspector": ".st-key-inspected",
    "evidence": '.st-key-drawer [role="tablist"]',
    "undo": ".st-key-icon-undo",
    "redo": ".st-key-icon-redo",
    "reverse all": ".st-key-reverse-all",
    "history": ".st-key-history .stMarkdownBadge",
    "compare": ".st-key-compare",
    "measure": ".st-key-measure",
    "summary": ".summary",
    "edits": ".st-key-edit-form",
    "rule": '.st-key-drawer iframe[title*="ace"]',
    "check rule": ".st-key-check-rule",
}
"""Of the controls without a name of their own."""


def place_of(session: Session, highlight: Highlight) -> dict[str, str]:
    """Return the place of a control: the ``node`` of the graph by name, or the ``css`` and the ``text`` in it.

    Of a site that is one of several copies, it has what is ``around`` it too: the list shows the copies as one.
    """
    kind, name = highlight.kind, highlight.name
    if kind in CONTROLS:
        return {"css": PLACES[kind]}
    if kind == "node":
        return {"node": name}
    if kind == "tab":
        return {"css": '.st-key-drawer [role="tab"]', "text": name}
    if kind == "view":
        return {"css": ".st-key-shown button", "text": name}
    letter = session.styles[highlight.pass_name].letter
    if kind == "pass":
        return {"css": f'[class*="st-key-pass-{letter}-"]'}
    site = f'[class~="st-key-site-{letter}-at-{name}"], [class~="st-key-current-site-{letter}-at-{name}"]'
    state = session.workbench.state_of(highlight.pass_name)
    family = next((one for one in families_in(session, state) if name in one.names), None)
    if family is None or len(family.sites) == 1:
        return {"css": site}
    return {"css": site, "around": f'[class~="st-key-sites-{letter}-at-{as_class(family.place)}"]'}
