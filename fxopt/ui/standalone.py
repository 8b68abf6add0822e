"""The picture as one HTML file that works without a server and a network."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Sequence

from fxopt.ui.modules import joined, styles
from fxopt.ui.node_facts import Facts
from fxopt.view import Layout, ResolvedMarks, pack
from fxopt.view.steps import Step

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'">
<title>@title@</title>
<style>
html { color-scheme: light dark; }
body { margin: 0; }
#graph { --st-primary-color: #2a6482; }
@media (prefers-color-scheme: dark) {
  #graph { --st-background-color: #14181d; --st-text-color: #e4e9ee; --st-primary-color: #6fb3d2; }
  body { background: #14181d; }
}
@styles@
.fx { height: @height@ !important; border: 0; border-radius: 0; }
#both { display: flex; flex-wrap: wrap; }
#graph { flex: 3 1 36rem; min-width: 0; }
#inspector { flex: 1 1 18rem; box-sizing: border-box; max-height: @height@; overflow: auto; padding: 0.4rem 1rem; \
font: 13px/1.4 system-ui, sans-serif; overflow-wrap: anywhere; }
#inspector h2 { font-size: 15px; margin: 0.3rem 0; }
#inspector dt { opacity: 0.75; margin-top: 0.3rem; }
#inspector dd { margin: 0; }
#below { font: 14px/1.45 system-ui, sans-serif; padding: 0.5rem 1rem 2rem; }
#below summary { cursor: pointer; font-weight: 600; padding: 0.3rem 0; }
#below table { border-collapse: collapse; margin: 0.4rem 0 1rem; }
#below th, #below td { border: 1px solid #8886; padding: 0.15rem 0.5rem; text-align: left; vertical-align: top; }
@media (prefers-color-scheme: dark) { #below, #inspector { color: #e4e9ee; } }
</style>
</head>
<body>
<div id="both"><div id="graph"></div>
<aside id="inspector" aria-label="Inspector" aria-live="polite" hidden></aside></div>
@below@<script type="application/json" id="data">@data@</script>
<script type="module">
@code@
const { layout, facts: savedFacts, ...data } = JSON.parse(document.getElementById("data").textContent);
keep(await unpack(Uint8Array.from(atob(layout), (letter) => letter.charCodeAt(0))));
data.layout = [...fxopt.layouts.keys()][0];
const parentElement = document.getElementById("graph");
fxopt.show({ data, parentElement, setStateValue: heardBySavedPage });
inspectSaved(null);

function heardBySavedPage(_, { acts }) {
  for (const [number, kind, name] of acts) {
    fxopt.views[0].acts.take({ heard: number });
    if (kind === "select" || kind === "reveal") inspectSaved(name);
  }
}

function inspectSaved(name) {
  if (!savedFacts) return;
  const made = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });
  const rows = name !== null && Object.hasOwn(savedFacts, name) ? savedFacts[name] : [];
  const list = made("dl", "");
  list.append(...rows.flatMap(([label, text]) => [made("dt", label), made("dd", text)]));
  const none = name ? "A module: its nodes are in the table below." : "Select a node to see its facts.";
  const inspector = document.getElementById("inspector");
  inspector.hidden = false;
  inspector.replaceChildren(made("h2", name ?? "Inspector"), rows.length ? list : made("p", none));
}
</script>
</body>
</html>
"""


def standalone_html(
    picture: Layout,
    marks: ResolvedMarks | None = None,
    *,
    title: str = "Graph",
    dim: bool = False,
    side: str = "after",
    below: str = "",
    legend: Sequence[tuple[str, int, str]] = (),
    steps: Sequence[Step] = (),
    facts: Facts | None = None,
) -> str:
    """Return a page that shows `picture` as the app does: pan, zoom, select, search. Folded modules stay folded.

    Args:
        side: of a layout of two graphs, the shown one: ``before``, ``after``, or ``both`` in one picture.
        below: HTML that stands below the graph as it is.
        legend: kinds of marks, each with the number of its pass and its words; the marks are counted without it.
        steps: the sites of a rewrite, to be played.
        facts: of each node, for an inspector beside the graph.
    """
    data = {
        "key": "graph",
        "layout": base64.b64encode(pack(picture)).decode(),
        "marks": marks.payload() if marks else {},
        "dim": dim,
        "title": title,
        "foldable": False,
        "side": side,
        "legend": [list(entry) for entry in legend],
        "steps": [[step.told, [*step.boxes]] for step in steps],
        "facts": facts,
    }
    # A name from the model must not end the script element that carries it.
    text = json.dumps(data).replace("<", "\\u003c")
    parts = {"@title@": html.escape(title), "@styles@": styles(), "@data@": text, "@code@": joined("store")}
    parts["@height@"] = "70vh" if below else "100vh"
    parts["@below@"] = f'<main id="below">{below}</main>\n' if below else ""
    # In one pass, so that the inserted parts are not searched for the places of others.
    return re.sub("|".join(map(re.escape, parts)), lambda found: parts[found[0]], _PAGE)
