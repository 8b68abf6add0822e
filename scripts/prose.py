"""Measure the prose: how often docstrings, READMEs and messages say "what", and how often they negate, in 100 words.

    python scripts/prose.py                  # the tree: a line a kind of text, and the files that negate most
    python scripts/prose.py PATH [PATH ...]  # any folders, such as a checkout of a model to compare with

Code in backticks and examples behind ``>>>`` do not count. In a message, a value that is put in counts as one word.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

NEGATIONS = frozenset(
    {"no", "not", "none", "never", "nothing", "nobody", "nowhere", "neither", "nor", "cannot", "without"}
)
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_CODE = re.compile(r"```[\s\S]*?```|``[^`]+``|`[^`]+`|^\s*(?:>>>|\.\.\.).*$", re.M)
_SAYING = frozenset({"Unmet", "Miss", "fail", "demand", "warn"})
"""Calls whose texts are messages, beside exceptions."""


def main(paths: list[str]) -> None:
    counts: dict[str, Counter[str]] = {}
    files: Counter[str] = Counter()
    for root in map(Path, paths or ["fxopt", "fxopt_cli", "docs", "README.md", "CONTRIBUTING.md"]):
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            if path.suffix not in (".py", ".md") or "node_modules" in path.parts:
                continue
            for kind, text in _texts(path):
                words = [word.lower() for word in _WORD.findall(text)]
                negations = sum(word in NEGATIONS or word.endswith("n't") for word in words)
                found = counts.setdefault(kind, Counter())
                found.update(words=len(words), what=words.count("what"), negations=negations)
                files[f"{kind} of {path}"] += negations
    for kind, found in sorted(counts.items()):
        what, negations = (100 * found[key] / found["words"] for key in ("what", "negations"))
        print(f"{kind:12} {found['words']:7} words, {what:.2f} what, {negations:.2f} negations in 100")
    for name, number in files.most_common(15):
        print(f"{number:5} {name}")


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    text = path.read_text()
    if path.suffix == ".md":
        yield "Markdown", _CODE.sub(" ", text)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield "docstrings", _CODE.sub(" ", ast.get_docstring(node) or "")
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield "messages", " ".join(_strings(node.exc))
        elif isinstance(node, ast.Call) and _name(node.func) in _SAYING:
            yield "messages", " ".join(_strings(node))


def _strings(call: ast.Call) -> Iterator[str]:
    todo: list[ast.AST] = [*call.args, *call.keywords]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else " value " for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        else:
            todo += ast.iter_child_nodes(node)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


if __name__ == "__main__":
    main(sys.argv[1:])
