"""The choices after a switch of a pass, or of some of its sites."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from fxopt.core import FxoptError
from fxopt.workbench.states import Choice, PassState
from fxopt.workbench.timeline import Choices

Sites: TypeAlias = str | Collection[str] | None
"""One site by name, several, or all that a pass has."""


def including(choices: Choices, states: Sequence[PassState], i: int, site: Sites) -> Choices:
    """Return the choices with pass number `i`, or some of its sites, on.

    Raises:
        FxoptError: the pass has no such site.
    """
    choice, sites = choices[i], names_of(site)
    if site is None:
        left_out: frozenset[str] = frozenset()
    elif choice.on:
        left_out = choice.without - sites
    else:
        _check_sites(states[i], sites)
        left_out = frozenset(found.site for found in states[i].sites) - sites
    return _with_choice(choices, i, replace(choice, on=True, without=left_out))


def without(choices: Choices, states: Sequence[PassState], i: int, site: Sites) -> Choices:
    """Return the choices with pass number `i`, or some of its sites, off.

    Raises:
        FxoptError: the pass has no such site.
    """
    choice, sites = choices[i], names_of(site)
    if site is None or not choice.on:
        return _with_choice(choices, i, Choice(choice.signature))
    _check_sites(states[i], sites)
    left_out = choice.without | sites
    left = {found.site for found in states[i].sites} - left_out
    return _with_choice(choices, i, replace(choice, without=left_out) if left else Choice(choice.signature))


def before_and_after(choices: Choices, edits: Collection[str]) -> tuple[Choices, Choices]:
    """Return the choices that an act now runs after, and the passes that are off, which run after the act.

    Args:
        edits: the signatures of the edits by hand, which keep their place also where they are off.
    """
    done = tuple(choice for choice in choices if choice.on or choice.signature in edits)
    return done, tuple(choice for choice in choices if choice not in done)


def names_of(site: Sites) -> frozenset[str]:
    return frozenset({site} if isinstance(site, str) else site or ())


def _with_choice(choices: Choices, i: int, choice: Choice) -> Choices:
    return (*choices[:i], choice, *choices[i + 1 :])


def _check_sites(state: PassState, sites: frozenset[str]) -> None:
    known = [found.site for found in state.sites]
    if unknown := sites.difference(known):
        raise FxoptError(f"{state.name} has no site {min(unknown)}; it has {', '.join(known) or 'none'}")
