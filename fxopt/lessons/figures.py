"""The figures of a run that texts and conditions may name, such as ``parameters.delta``; each is computed from the run.

A name is a head and its parts, joined by dots. `FIGURES` has them all, with the form of their parts:
WHEN is ``before``, ``now`` or ``delta``; PASS a pass; NODE a node of the graph; PATH a tensor by its dotted path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fxopt.evidence.in_words import power_of_ten
from fxopt.lessons.errors import LessonError, unknown

WHEN = ("before", "now", "delta")
STATES = WHEN[:2]


@dataclass(frozen=True)
class Figure:
    """A family of figures: the form of its parts, and its meaning."""

    form: tuple[str, ...]
    about: str
    is_text: bool = False


FIGURES: Mapping[str, Figure] = {
    "nodes": Figure(("WHEN",), "nodes of the graph"),
    "module_calls": Figure(("WHEN",), "nodes that call a module"),
    "modules": Figure(("WHEN",), "modules that are called, each counted once"),
    "products": Figure(("WHEN",), "nodes that multiply matrices"),
    "parameters": Figure(("WHEN",), "elements of all parameters, ties counted once"),
    "bytes": Figure(("WHEN",), "bytes of all parameters and buffers"),
    "flops": Figure(("WHEN",), "floating-point operations of one run on the example"),
    "sites": Figure(("PASS",), "sites of a pass"),
    "on": Figure(("PASS",), "sites of a pass that are on"),
    "misses": Figure(("PASS",), "near misses of a pass"),
    "users": Figure(("NODE", "STATE"), "nodes that read a node"),
    "argument": Figure(("NODE", "STATE"), "the last number among the arguments of a node"),
    "inverse": Figure(("NODE", "STATE"), "1 divided by that number"),
    "held": Figure(("NODE", "STATE"), "elements of the parameters of the module that a node calls"),
    "rows": Figure(("NODE", "STATE"), "rows of the weight of the module that a node calls"),
    "columns": Figure(("NODE", "STATE"), "columns of that weight"),
    "element": Figure(("INDEX", "STATE", "PATH"), "one element of a tensor of the model, counted from 0"),
    "error": Figure(("ERROR",), "the largest distance of the outputs from the original's"),
    "latency": Figure(("LATENCY",), "the result of the measurement"),
    "label": Figure(("PASS",), "the name that the page has for a pass", is_text=True),
    "reason": Figure(("PASS", "NODE"), "the reason of a near miss, in words", is_text=True),
    "explanation": Figure(("PASS", "NODE"), "the explanation of a site, in words", is_text=True),
    "rule": Figure(("RULE",), "sites or near misses of the rule that the learner writes"),
    "rule_reason": Figure(("NODE",), "the reason of a near miss of that rule, in words", is_text=True),
    "rule_says": Figure(("SAID",), "the fault of that rule, or the laws that it obeys, in words", is_text=True),
    "verdict": Figure(("VERDICT",), "the verdict of a comparison or measurement, in words", is_text=True),
    "fingerprint": Figure(("STATE",), "the first letters of the fingerprint", is_text=True),
}
_RATIOS = ("ratio", "low", "high", "control_low", "control_high")
_CHOICES = {
    "WHEN": WHEN,
    "STATE": STATES,
    "ERROR": ("max_abs", "max_ulp", "differing", "elements"),
    "LATENCY": (*_RATIOS, "before_ms", "after_ms"),
    "RULE": ("sites", "misses"),
    "SAID": ("fault", "laws"),
    "VERDICT": ("numerics", "latency"),
}
_MOST_WHOLE, _LEAST, _MOST = 1e15, 1e-3, 1e6
_PLACEHOLDER = re.compile(r"\{([a-z_]+\.[A-Za-z0-9_.]+)\}")


@dataclass(frozen=True)
class Named:
    """The name of a figure, taken apart."""

    head: str
    parts: tuple[str, ...]

    @property
    def passes(self) -> tuple[str, ...]:
        return self._of("PASS")

    @property
    def nodes(self) -> tuple[str, ...]:
        return self._of("NODE")

    @property
    def is_text(self) -> bool:
        return FIGURES[self.head].is_text

    def _of(self, kind: str) -> tuple[str, ...]:
        return tuple(part for part, form in zip(self.parts, FIGURES[self.head].form) if form == kind)


def named(name: str, passes: Iterable[str] | None = None) -> Named:
    """Take the name of a figure apart.

    Args:
        passes: the names of the passes that there are; any name is taken where they are not given.

    Raises:
        LessonError: there is no such figure; the error has the nearest name, or the form.

    >>> named("element.0.before.norm.weight").parts
    ('0', 'before', 'norm.weight')
    """
    head, _, rest = name.partition(".")
    if head not in FIGURES:
        raise LessonError(unknown("figure", head, FIGURES))
    form = FIGURES[head].form
    parts = tuple(rest.split(".", len(form) - 1))
    if len(parts) != len(form) or not all(parts) or (form[-1] != "PATH" and "." in parts[-1]):
        raise LessonError(f"the figure {name!r} has another form than {'.'.join((head, *form))}")
    for part, kind in zip(parts, form):
        if kind in _CHOICES and part not in _CHOICES[kind]:
            raise LessonError(f"in the figure {name!r}: {unknown(kind, part, _CHOICES[kind])}")
        if kind == "INDEX" and not part.isdecimal():
            raise LessonError(f"in the figure {name!r}: {part!r} has to be a whole number from 0")
        if kind == "PASS" and passes is not None and part not in (known := list(passes)):
            raise LessonError(f"in the figure {name!r}: {unknown('pass', part, known)}")
    return Named(head, parts)


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of the figures that a text has in braces.

    >>> names_in(r"{nodes.now} nodes, $\\frac{1}{49}$")
    ('nodes.now',)
    """
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


def filled(text: str, figures: Mapping[str, float | str | None]) -> str:
    """Return a text with each name in braces replaced by its figure; one that is not known yet is a dash.

    >>> filled("{parameters.delta} of {parameters.before}", {"parameters.delta": -16, "parameters.before": 4096})
    '−16 of 4,096'
    """
    return _PLACEHOLDER.sub(lambda found: in_words(figures.get(found[1]), found[1]), text)


def in_words(value: float | str | None, name: str = "") -> str:
    """Return a figure for a reader: whole numbers in full, arguments and their inverses to the last digit.

    Ratios of a measurement have two decimals, as in its tab. A figure that is not 1 has as many as tell it from 1.

    >>> in_words(0.9464, "latency.low"), in_words(1.00028, "latency.ratio"), in_words(-0.34061)
    ('0.95', '1.0003', '−0.341')
    """
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    sign = "+" if name.endswith(".delta") and value > 0 else ""
    if float(value).is_integer() and abs(value) < _MOST_WHOLE:
        told = f"{int(value):,}"
    elif name.startswith(("argument.", "inverse.")):
        told = repr(value)
    else:
        told = _short(value, name)
    return sign + told.replace("-", "−")


def _short(value: float, name: str) -> str:
    if not _LEAST <= abs(value) < _MOST:
        return power_of_ten(value)
    told = f"{value:.2f}" if name.removeprefix("latency.") in _RATIOS else f"{value:.3g}"
    digits = 3
    while float(told) == 1:
        told = f"{value:.{digits}f}"
        digits += 1
    return told
