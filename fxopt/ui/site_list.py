"""The sites of a pass, each with a switch, copies of one block together; and its near misses."""

from __future__ import annotations

from typing import Any

from fxopt.core import Exactness
from fxopt.ui.glossary import GLOSSARY
from fxopt.ui.markdown import counted, escaped
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class, place_of_copies, widget_of
from fxopt.workbench import MissState, PassState, SiteState
from fxopt.workbench.copies import Family, families_of

FEW = 6
"""The count of sites that are listed before "more" is asked for."""

LONGEST = 31
"""The most characters of a name that stand in a line of the list."""

EXACTNESS_WORDS = {
    Exactness.BITWISE: ("same bits", "green"),
    Exactness.ROUNDING: ("rounding", "blue"),
    Exactness.APPROXIMATE: ("approximate", "orange"),
    Exactness.CHANGES: ("changes results", "red"),
}


def described_sites(session: Session, state: PassState) -> dict[str, Any]:
    """Return the sites and near misses of the pass in focus, for the browser to draw."""
    families = families_in(session, state)
    listed = FEW + session.view.listed
    places = [site.site for family in families[listed:] for site in family.sites]
    if session.view.selected in (*places, *(miss.site for miss in state.misses[listed:])):
        listed = max(len(families), len(state.misses))
    return {
        "sites": [
            _site(session, state, family.sites[0]) if len(family.sites) == 1 else _family(session, state, family)
            for family in families[:listed]
        ],
        "missed": counted(len(state.misses), "near miss", "near misses") if state.misses else "",
        "missing": GLOSSARY["near miss"],
        "misses": [_miss(session, state, miss) for miss in state.misses[:listed]],
        "more": max(len(families) - listed, len(state.misses) - listed, 0),
    }


def families_in(session: Session, state: PassState) -> tuple[Family, ...]:
    """Return the sites of a pass as the list has them: copies in equal blocks together."""
    bench = session.workbench
    key = (bench.choices, state.name)
    return session.memo.remember("families", key, lambda: families_of(session.opened.view, state.sites))


def _family(session: Session, state: PassState, family: Family) -> dict[str, Any]:
    is_open = family.place in session.view.copies
    some = family.sites_on not in (0, len(family.sites))
    first = family.sites[0]
    return {
        "key": as_class(f"sites {session.styles[state.name].letter} at {family.place}"),
        "switch": described_switch(
            session,
            state,
            place_of_copies(family),
            f"{family.place}, all {len(family.sites)} copies",
            on=family.sites_on == len(family.sites),
        ),
        "site": first.site,
        "name": with_its_end(family.place),
        "count": f"{family.sites_on} of {len(family.sites)} on" if some else f"×{len(family.sites)}",
        "told": f"{family.sites_on} of {len(family.sites)} on. {first.explanation}",
        "exactness": _exactness(first),
        "copies": {
            "key": as_class(f"copies of {state.name} at {family.place}"),
            "place": family.place,
            "label": "Each copy",
            "open": is_open,
            "sites": [
                _site(session, state, site) for site in family.sites if is_open or site.site == session.view.selected
            ],
        },
    }


def _site(session: Session, state: PassState, site: SiteState) -> dict[str, Any]:
    current = site.site == session.view.selected
    manner = "current " if current else ""
    return {
        "key": as_class(f"{manner}site {session.styles[state.name].letter} at {site.site}"),
        "switch": described_switch(session, state, site.site, f"{state.pass_.label} at {site.site}", on=site.on),
        "site": site.site,
        "name": with_its_end(site.site),
        "told": site.explanation,
        "exactness": _exactness(site),
        "current": current,
    }


def described_switch(
    session: Session, state: PassState, place: str, label: str, *, on: bool, disabled: bool = False
) -> dict[str, Any]:
    """Return a switch of the list, for the browser to draw; `place` is empty for that of the whole pass."""
    return {
        "about": f"{session.styles[state.name].letter} {place}".strip(),
        "key": as_class(widget_of(state.name, place)),
        "label": label,
        "on": on,
        "disabled": disabled,
    }


def _exactness(site: SiteState) -> tuple[str, str]:
    return EXACTNESS_WORDS[site.exactness]


def _miss(session: Session, state: PassState, miss: MissState) -> dict[str, Any]:
    current = miss.site == session.view.selected
    manner = "current " if current else ""
    reason, pairs, remedy = parts_of_miss(miss)
    return {
        "key": as_class(f"{manner}miss {session.styles[state.name].letter} at {miss.site}"),
        "site": miss.site,
        "name": with_its_end(miss.site),
        "reason": reason,
        "pairs": pairs,
        "remedy": remedy,
        "current": current,
    }


def parts_of_miss(miss: MissState) -> tuple[str, list[tuple[str, str]], str]:
    """Return a near miss in parts: the reason, actual against needed with a word for each, and the remedy."""
    pairs = [(word, value) for word, value in (("found", miss.actual), ("needed", miss.needed)) if value]
    return miss.reason, pairs, f"To change that: {miss.remedy}" if miss.remedy else ""


def told_of_miss(miss: MissState) -> str:
    """Return a near miss as Markdown."""
    reason, pairs, remedy = parts_of_miss(miss)
    figures = " · ".join(f"{word} **{escaped(value)}**" for word, value in pairs)
    return "  \n".join(filter(None, (escaped(reason), figures, escaped(remedy))))


def with_its_end(name: str) -> str:
    """Return a name that fits a line; of a long one the end, which tells it from its neighbors.

    >>> with_its_end("stem_norm"), with_its_end("encoder_layer_11_attention_self_query_key")
    ('stem_norm', '…er_11_attention_self_query_key')
    """
    return name if len(name) <= LONGEST else f"…{name[1 - LONGEST :]}"
