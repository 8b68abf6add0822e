"""Write the API reference of every public name from its docstring, by pdoc: `make docs`, into docs/api."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path

from pdoc import doc, render

NAMES = (
    *("fxopt", "fxopt.core", "fxopt.edits", "fxopt.evidence", "fxopt.view", "fxopt.export", "fxopt.recipes"),
    *("fxopt.tracing", "fxopt.workbench", "fxopt.lessons", "fxopt.testing", "fxopt.models"),
)
"""The modules whose `__all__` is documented."""


def write(folder: Path) -> list[Path]:
    """Write a page for each module and an index of all; return the files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pdoc imports the modules, and torch warns of its own doings
        modules = {name: doc.Module(importlib.import_module(name)) for name in NAMES}
        pages = {f"{name}.html": render.html_module(module, modules) for name, module in modules.items()}
        pages["index.html"] = render.html_index(modules)
        pages["search.js"] = render.search_index(modules)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        path = f"{name.removesuffix('.html').replace('.', '/')}.html" if name.endswith(".html") else name
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_linked(text), encoding="utf-8")
    return sorted(folder.rglob("*.html"))


def _linked(page: str) -> str:
    """Lead a link to a member that pdoc lists as inherited, and so gives no place, to its class."""
    places = set(re.findall(r'id="([^"]+)"', page))

    def led(found: re.Match[str]) -> str:
        return found[0] if found[1] in places else f'href="#{found[1].rpartition(".")[0]}"'

    return re.sub(r'href="#(\w+\.\w+)"', led, page)


if __name__ == "__main__":
    made = write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/api"))
    print(f"{len(made)} pages; open {made[0].parent / 'index.html'}")
