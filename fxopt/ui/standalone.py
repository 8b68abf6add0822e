"""The picture as one HTML file that works without a server and a network."""

from __future__ import annotations

import base64
import html
import json
import re

from fxopt.ui.modules import joined, styles
from fxopt.view import Layout, ResolvedMarks, pack

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
#graph { --st-primary-color: #2f6f8f; }
@media (prefers-color-scheme: dark) {
  #graph { --st-background-color: #14181d; --st-text-color: #e4e9ee; --st-primary-color: #6fb3d2; }
  body { background: #14181d; }
}
@styles@
.fx { height: 100vh !important; border: 0; border-radius: 0; }
</style>
</head>
<body>
<div id="graph"></div>
<script type="application/json" id="data">@data@</script>
<script type="module">
@code@
const { layout, ...data } = JSON.parse(document.getElementById("data").textContent);
keep(await unpack(Uint8Array.from(atob(layout), (letter) => letter.charCodeAt(0))));
data.layout = [...fxopt.layouts.keys()][0];
const nothing = () => {};
const parentElement = document.getElementById("graph");
fxopt.show({ data, parentElement, setStateValue: nothing });
</script>
</body>
</html>
"""


def standalone_html(
    picture: Layout, marks: ResolvedMarks | None = None, *, title: str = "Graph", dim: bool = False
) -> str:
    """Return a page that shows `picture` as the app does: pan, zoom, select, search. Folded modules stay folded."""
    data = {
        "key": "graph",
        "layout": base64.b64encode(pack(picture)).decode(),
        "marks": marks.payload() if marks else {},
        "dim": dim,
        "title": title,
        "foldable": False,
    }
    # A name from the model must not end the script element that carries it.
    text = json.dumps(data).replace("<", "\\u003c")
    parts = {"@title@": html.escape(title), "@styles@": styles(), "@data@": text, "@code@": joined("store")}
    # In one pass, so that the inserted parts are not searched for the places of others.
    return re.sub("|".join(map(re.escape, parts)), lambda found: parts[found[0]], _PAGE)
