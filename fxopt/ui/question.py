"""The question before a switch that would turn other sites off too: it names them, and the visitor decides."""

from __future__ import annotations

from fxopt.ui.session import Session

NAMED = 2
"""The most sites of each pass that the question names."""


def question_about(session: Session, name: str) -> dict[str, str] | None:
    """Return the question about the pass or edit of this name, and the answer that does it; None if there is none."""
    question = session.view.question
    if question is None or question.pass_name != name:
        return None
    sites: dict[str, list[str]] = {}
    for other, site in question.resting:
        sites.setdefault(other, []).append(site)
    named = "; ".join(f"{session.called(other)} at {_some(of)}" for other, of in sites.items())
    verb = "rests" if len(question.resting) == 1 else "rest"
    return {
        "name": question.name,
        "told": f"{named} {verb} on this and would go off too; what still matches comes on again.",
        "yes": f"{'Remove' if question.removes else 'Turn off'} all the same",
        "no": "Keep it on",
    }


def _some(sites: list[str]) -> str:
    """Return some of the sites by name, and the count of the rest."""
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    return ", ".join(sites[:NAMED]) + more
