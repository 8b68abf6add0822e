"""The page's JavaScript: ES modules, of which a component gets those it needs as one. No build step is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "component"
_STYLES = {"styles": ("STYLES", "graph.css"), "list_styles": ("LIST_STYLES", "pass_list.css")}
"""By module, the variable and the file of styles that it brings."""
_IMPORT = re.compile(r'^import (?:\{[^}]*\} from )?"\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const|let) )", re.MULTILINE)


def joined(entry: str) -> str:
    """Return the module `entry` of the folder ``component``, behind all the modules that it needs, as one module.

    Each stands behind those that it imports. Their names at the top level differ, as they come to one scope.
    """
    texts: dict[str, str] = {}
    asked: set[str] = set()

    def add(name: str) -> None:
        if name in asked:
            return
        asked.add(name)
        text = _text(name)
        for needed in _IMPORT.findall(text):
            add(needed)
        texts[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(entry)
    return "\n".join(texts.values())


def styles() -> str:
    """Return the styles of the graph, which come with its code: those of a component come with each change of data."""
    return (FOLDER / "graph.css").read_text(encoding="utf-8")


def _text(name: str) -> str:
    if name in _STYLES:
        variable, file = _STYLES[name]
        return f"const {variable} = {json.dumps((FOLDER / file).read_text(encoding='utf-8'))};"
    return (FOLDER / f"{name}.js").read_text(encoding="utf-8")
