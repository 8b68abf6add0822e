"""The check of every law on every model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from torch import nn

from fxopt.core import (
    Pass,
)
from fxopt.errors import ArgumentError, expect, in_words
from fxopt.testing.breach import LawBroken
from fxopt.testing.case import Case
from fxopt.testing.laws import LAWS, Law

Model = tuple[nn.Module, tuple[Any, ...]]


@dataclass(frozen=True)
class LawReport:
    """The result of `check_pass`: the laws, models and sites that it has checked."""

    pass_name: str
    laws: tuple[str, ...]
    sites_of: dict[str, int]
    """The number of sites by the name of the model."""
    skipped: tuple[str, ...]
    """The checks left out, with the reasons."""

    @property
    def sites(self) -> int:
        return sum(self.sites_of.values())

    def __str__(self) -> str:
        found = ", ".join(f"{name} {count}" for name, count in self.sites_of.items())
        models, sites = _count(len(self.sites_of), "model"), _count(self.sites, "site")
        return f"{self.pass_name} obeys {len(self.laws)} laws on {models} ({sites}: {found})"


def check_pass(pass_: Pass[Any], models: Iterable[Model | Case], *, needs_sites: bool = True) -> LawReport:
    """Check every law of passes on every model.

    Args:
        pass_: an instance of a pass, or a rule made by `fxopt.rewrite`.
        models: pairs of a model, or of a graph module, and a tuple of its positional arguments. A model is captured.
        needs_sites: whether there must be a site in at least one model. A check on no site can never fail.

    Raises:
        LawBroken: a law does not hold, or no model has a site.
        TypeError: `pass_` is something else than an instance of a pass.
        ArgumentError: `models` has something else than models and their arguments.
    """
    given: object = pass_
    if not isinstance(given, Pass):
        hint = "; call it to make an instance" if isinstance(given, type) else ""
        raise TypeError(f"check_pass checks an instance of fxopt.Pass, not {given!r}{hint}")
    cases = _cases(models)
    for case in cases:
        for law in LAWS:
            check(law, pass_, case)
    sites = {case.name: len(pass_.scan(case.graph()).matches) for case in cases}
    report = LawReport(pass_.name, tuple(map(title, LAWS)), sites, tuple(s for case in cases for s in case.skipped))
    if needs_sites and not report.sites:
        raise LawBroken(
            f"{pass_.name} has no site in any of {_count(len(cases), 'model')}, so nothing was checked: "
            "give a model in which it applies, or needs_sites=False"
        )
    return report


def check(law: Law, pass_: Pass[Any], case: Case) -> None:
    """Check one law of `LAWS` on one model.

    Raises:
        LawBroken: the pass breaks it.
    """
    try:
        law(pass_, case)
    except Exception as error:
        reason = str(error) if isinstance(error, LawBroken) else f"{type(error).__name__}: {error}"
        raise LawBroken(f"{pass_.name} on {case.name}, law: {title(law)}: {reason}") from error


def title(law: Law) -> str:
    """Return the law as a sentence."""
    return getattr(law, "__name__", "law").replace("_", " ")


def _cases(models: Iterable[Model | Case]) -> list[Case]:
    takes = "models in a list, each a pair of a model and a tuple of its arguments"
    expect(models, Iterable, "check_pass(pass_, models)", takes, "write [(model, (x,))]")
    cases: list[Case] = []
    for given in models:
        if isinstance(given, Case):
            cases.append(given)
            continue
        if not (isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], nn.Module)):
            raise ArgumentError(f"check_pass(pass_, models) takes {takes}; one of these is {in_words(given)}")
        model, args = given
        expect(args, tuple | list, "check_pass(pass_, models)", takes, "write (x,) for one tensor x")
        name = type(model).__name__
        taken = sum(case.name == name or case.name.startswith(f"{name} #") for case in cases)
        cases.append(Case.of(f"{name} #{taken + 1}" if taken else name, model, args))
    return cases


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
