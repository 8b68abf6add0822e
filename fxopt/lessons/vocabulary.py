"""The vocabulary of conditions: the kinds of facts, each with the form of its value, its reading, and its judgement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fxopt.lessons.errors import LessonError
from fxopt.lessons.facts import LATENCY, NUMERICS, RULE, TABS, VIEWS, Snapshot
from fxopt.lessons.figures import Named, named
from fxopt.lessons.settings import Setting


@dataclass(frozen=True)
class Known:
    """The names that a lesson may use."""

    passes: tuple[str, ...]


@dataclass(frozen=True)
class FactKind:
    """A kind of fact: the form of its value in a lesson, how that is read, and how it is judged."""

    form: str
    about: str
    read: Callable[[Setting, Known], Mapping[str, Any]]
    holds: Callable[[Snapshot, Mapping[str, Any]], bool]


START = "start"
"""The bound of a figure that is its own value when the step began."""
_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "exactly": lambda a, b: a == b,
    "at_least": lambda a, b: a >= b,
    "at_most": lambda a, b: a <= b,
    "above": lambda a, b: a > b,
    "below": lambda a, b: a < b,
}


def _a_text(value: Setting, known: Known) -> Mapping[str, Any]:
    return {"is": value.text()}


def _a_pass(value: Setting, known: Known) -> Mapping[str, Any]:
    return {"is": value.one_of("pass", known.passes)}


def _out_of(kind: str, names: tuple[str, ...]) -> Callable[[Setting, Known], Mapping[str, Any]]:
    return lambda value, known: {"is": value.one_of(kind, names)}


def read_true(value: Setting, known: Known) -> Mapping[str, Any]:
    value.true()
    return {}


def read_site(value: Setting, known: Known) -> Mapping[str, Any]:
    items = value.items()
    if len(items) != 2:
        raise value.fail(f"a site is [pass, node], and this list has {len(items)} items")
    return {"pass": items[0].one_of("pass", known.passes), "node": items[1].text()}


def _bounds(value: Setting, needed: tuple[str, ...], others: tuple[str, ...] = ()) -> dict[str, Setting]:
    fields = value.fields(needed, (*others, *_BOUNDS))
    if not fields.keys() & _BOUNDS.keys():
        raise value.fail(f"a bound is missing here: give one of {', '.join(_BOUNDS)}")
    return fields


def _sites_on(value: Setting, known: Known) -> Mapping[str, Any]:
    fields = _bounds(value, (), ("of",))
    found: dict[str, Any] = {key: one.count() for key, one in fields.items() if key != "of"}
    return found | ({"of": fields["of"].one_of("pass", known.passes)} if "of" in fields else {})


def _edits(value: Setting, known: Known) -> Mapping[str, Any]:
    return {key: one.count() for key, one in _bounds(value, ()).items()}


def _figure(value: Setting, known: Known) -> Mapping[str, Any]:
    fields = _bounds(value, ("of",))
    return {key: figure_name(one, known) if key == "of" else _number_or_figure(one, known)
            for key, one in fields.items()}  # fmt: skip


def figure_in(value: Setting, name: str, known: Known) -> Named:
    """Return the figure of this name, which stands in `value`; the error of an unknown one has the line."""
    try:
        return named(name, known.passes)
    except LessonError as error:
        raise error.at(value.line) from None


def figure_name(value: Setting, known: Known) -> str:
    """Return the name of a figure that is a number."""
    if figure_in(value, value.text(), known).is_text:
        raise value.fail(f"{value.text()} is a text, and has to be a number")
    return value.text()


def _number_or_figure(value: Setting, known: Known) -> float | str:
    if value.text() == START:
        return START
    return value.number() if _is_number(value.text()) else figure_name(value, known)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _within(count: float | None, now: Snapshot, bounds: Mapping[str, Any]) -> bool:
    if count is None:
        return False
    for name, bound in bounds.items():
        if name in _BOUNDS:
            limit = _limit(bound, now, bounds.get("of", ""))
            if limit is None or not _BOUNDS[name](count, limit):
                return False
    return True


def _limit(bound: float | str, now: Snapshot, of: str) -> float | None:
    if bound == START:
        return now.number(of, at_start=True)
    return now.number(bound) if isinstance(bound, str) else bound


def _is_on(now: Snapshot, asked: Mapping[str, Any]) -> bool:
    found = now.passes.get(asked["pass"])
    return found is not None and found.sites.get(asked["node"], False)


def _counted(now: Snapshot, asked: Mapping[str, Any]) -> bool:
    of = now.passes.get(asked.get("of", ""))
    return _within(now.sites_on if "of" not in asked else of.sites_on if of else 0, now, asked)


FACTS: Mapping[str, FactKind] = {
    "model": FactKind("key", "the model that is open", _a_text, lambda now, a: now.model == a["is"]),
    "site_on": FactKind("[pass, node]", "a site is on", read_site, _is_on),
    "matches": FactKind(
        "[pass, node]", "a pass has a site there, on or off", read_site,
        lambda now, a: a["node"] in now.passes[a["pass"]].sites if a["pass"] in now.passes else False,
    ),
    "misses": FactKind(
        "[pass, node]", "a pass has a near miss there", read_site,
        lambda now, a: a["node"] in now.passes[a["pass"]].misses if a["pass"] in now.passes else False,
    ),
    "sites_on": FactKind("{exactly: 1, of: pass}", "the number of sites that are on", _sites_on, _counted),
    "focus": FactKind("pass", "the pass whose sites the list shows", _a_pass, lambda now, a: now.focus == a["is"]),
    "selected": FactKind("node", "the node that is selected", _a_text, lambda now, a: now.selected == a["is"]),
    "view": FactKind(
        "name", "the graph that is shown", _out_of("view", VIEWS), lambda now, a: now.view == a["is"]
    ),
    "tab": FactKind("name", "the tab that is open", _out_of("tab", TABS), lambda now, a: now.tab == a["is"]),
    "numerics": FactKind(
        "verdict or compared",
        "the verdict on the numbers of the graph as it is now",
        _out_of("verdict on numbers", (*NUMERICS, "compared")),
        lambda now, a: bool(now.numerics) and a["is"] in ("compared", now.numerics),
    ),
    "latency": FactKind(
        "verdict or measured",
        "the verdict on the latency of the graph as it is now",
        _out_of("verdict on latency", (*LATENCY, "measured")),
        lambda now, a: bool(now.latency) and a["is"] in ("measured", now.latency),
    ),
    "rule": FactKind(
        "state", f"the state of the rule that the learner writes: {', '.join(RULE)}",
        _out_of("state of a rule", tuple(RULE)),
        lambda now, a: now.rule is not None and a["is"] in now.rule.states,
    ),
    "rule_matches": FactKind(
        "node", "the rule that the learner writes matches there", _a_text,
        lambda now, a: now.rule is not None and a["is"] in now.rule.sites,
    ),
    "rule_misses": FactKind(
        "node", "the rule that the learner writes has a near miss there", _a_text,
        lambda now, a: now.rule is not None and a["is"] in now.rule.misses,
    ),
    "edits": FactKind(
        "{at_least: 1}", "the number of edits by hand that are on", _edits,
        lambda now, a: _within(sum(now.edits.values()), now, a),
    ),
    "fingerprint": FactKind(
        "original or changed", "the fingerprint of the graph, against the original's",
        _out_of("fingerprint", ("original", "changed")), lambda now, a: now.is_original == (a["is"] == "original"),
    ),
    "restored": FactKind(
        "true", "the graph was changed, and is the original again, bit for bit", read_true,
        lambda now, a: now.is_original and now.was_changed,
    ),
    "figure": FactKind(
        "{of: name, below: 0}",
        "a figure of the run, against a number, another figure, or `start`, its own value when the step began",
        _figure,
        lambda now, a: _within(now.number(a["of"]), now, a),
    ),
}  # fmt: skip
"""The vocabulary of conditions."""
