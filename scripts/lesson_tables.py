"""Write the tables of facts, figures and controls in assets/lessons/README.md, as the library has them."""

from __future__ import annotations

from pathlib import Path

from fxopt.lessons.figures import FIGURES
from fxopt.lessons.highlights import CONTROLS, NAMED
from fxopt.lessons.vocabulary import FACTS

GUIDE = Path(__file__).parents[1] / "assets" / "lessons" / "README.md"


def tables() -> dict[str, list[str]]:
    """Return the rows of each table, by the title of its section."""
    return {
        "### Facts that a step can wait for": [
            f"| `{name}` | `{kind.form}` | {kind.about} |" for name, kind in FACTS.items()
        ],
        "### Figures that a text can tell": [
            f"| `{'.'.join((head, *figure.form))}` | {figure.about} |" for head, figure in FIGURES.items()
        ],
        "### Controls that a step can point at": [
            f"| `{name}` | {about} |"
            for name, about in (*CONTROLS.items(), *((f"{k}:...", v) for k, v in NAMED.items()))
        ],
    }


def written(text: str) -> str:
    """Return the guide with the rows of its tables replaced."""
    for title, rows in tables().items():
        before, after = text.split(title + "\n\n", 1)
        lines = after.split("\n")
        end = next(i for i, line in enumerate(lines) if not line.startswith("|"))
        text = "\n".join([f"{before}{title}\n", *lines[:2], *rows, *lines[end:]])
    return text


if __name__ == "__main__":
    GUIDE.write_text(written(GUIDE.read_text()))
