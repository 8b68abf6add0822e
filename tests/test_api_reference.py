"""The API reference: every public name is in it, and its links lead somewhere."""

from __future__ import annotations

import importlib
import importlib.util
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "api_reference.py"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "a" and named.get("href"):
            self.links.add(str(named["href"]))
        if named.get("id"):
            self.places.add(str(named["id"]))


@pytest.mark.slow
def test_every_public_name_is_in_the_reference_and_every_link_leads_somewhere(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("api_reference", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    files = script.write(tmp_path)
    pages = {file: Page(file.read_text()) for file in files}
    for name in script.NAMES:
        page = pages[tmp_path / (name.replace(".", "/") + ".html")]
        missing = [one for one in importlib.import_module(name).__all__ if one not in page.places]
        assert missing == [], name
    dead = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                continue  # of pdoc itself and of torch
            to = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if to not in pages or (parts.fragment and unquote(parts.fragment) not in pages[to].places):
                dead.append(f"{file.name}: {link}")
    assert dead == []
    assert len(pages) == len(script.NAMES) + 1
