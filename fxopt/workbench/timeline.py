"""The time line: each step of the history as a sentence, with the sites and nodes that differ by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from fxopt.edits import Edit
from fxopt.workbench.states import Choice, PassState, SiteState

Choices: TypeAlias = tuple[Choice, ...]
"""One choice for each pass, in the order in which they run."""
SiteKey: TypeAlias = tuple[str, str]
"""The name of a pass and the anchor of one of its sites."""


@dataclass(frozen=True)
class Act:
    """One act on a workbench: its sentence, and the difference that it made."""

    sentence: str
    before: Choices
    after: Choices
    came: frozenset[SiteKey] = frozenset()
    """The sites that are on after the act and were off before."""
    went: frozenset[SiteKey] = frozenset()
    """The sites that were on before the act and are off after it."""
    created: tuple[str, ...] = ()
    """The nodes that those sites made, by coming or by going, in the order of the passes."""
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes that the act touched, those that it made first."""
        return (*self.created, *self.changed, *self.removed)


def act_between(before: Choices, old: Sequence[PassState], after: Choices, new: Sequence[PassState]) -> Act:
    """Return the act that led from the choices `before`, with the states `old`, to `after`, with the states `new`."""
    were, are = _on(old), _on(new)
    came = {key: site for key, site in are.items() if key not in were}
    went = {key: site for key, site in were.items() if key not in are}
    to, back = tuple(came.values()), tuple(went.values())
    by_signature = {state.pass_.signature: state for state in (*old, *new)}
    pairs = [(by_signature[signature], mine, other) for signature, mine, other in _differing(before, after)]
    parts = [_told(state, mine, other, came, went) for state, mine, other in pairs]
    named = {state.name for state, _, _ in pairs}
    others = {state.name: _name(state) for state in by_signature.values() if state.name not in named}
    return Act(
        "; ".join([_joined(parts, before, after, by_signature), *_others(came, went, others)]),
        before,
        after,
        frozenset(came),
        frozenset(went),
        _distinct([*(site.created for site in to), *(site.removed for site in back)]),
        _distinct(site.changed for site in (*to, *back)),
        _distinct([*(site.removed for site in to), *(site.created for site in back)]),
    )


def _on(states: Iterable[PassState]) -> dict[SiteKey, SiteState]:
    return {(state.name, site.site): site for state in states for site in state.sites if site.on}


def _distinct(names: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for some in names for name in some))


def _differing(before: Choices, after: Choices) -> Iterator[tuple[str, Choice | None, Choice | None]]:
    old, new = ({choice.signature: choice for choice in choices} for choices in (before, after))
    for signature in dict.fromkeys([*new, *old]):
        if old.get(signature) != new.get(signature):
            yield signature, old.get(signature), new.get(signature)


def _told(
    state: PassState,
    before: Choice | None,
    after: Choice | None,
    came: Iterable[SiteKey],
    went: Iterable[SiteKey],
) -> str:
    """Return one pass or edit whose choice differs, in words."""
    on, off = ([site for name, site in keys if name == state.name] for keys in (came, went))
    if isinstance(state.pass_, Edit):
        return _of_edit(state.pass_, before, after)
    if before is None and after is not None and not after.on:
        return f"Into the list: {_name(state)}"
    if after is None:
        return f"Out of the list: {_name(state)}"
    if not after.on:
        return f"{_name(state)} off"
    if before is None or not before.on:
        return f"{_name(state)} at {_places(on)}" if on else f"{_name(state)} on, at no site"
    parts = [f"on at {_places(on)}"] if on else []
    parts += [f"off at {_places(off)}"] if off else []
    return f"{_name(state)} {' and '.join(parts) or 'at the same sites'}"


def _of_edit(edit: Edit, before: Choice | None, after: Choice | None) -> str:
    if after is None:
        return f"Taken away: {edit.title}"
    if before is None:
        return edit.summary if after.on else f"Off: {edit.title}"
    return f"{'On again' if after.on else 'Off'}: {edit.title}"


def _places(sites: Sequence[str]) -> str:
    return sites[0] if len(sites) == 1 else f"{len(sites):,} sites"


def _joined(parts: Sequence[str], before: Choices, after: Choices, states: dict[str, PassState]) -> str:
    if len(parts) == 1:
        return parts[0]
    are_the_same = {choice.signature for choice in before} == {choice.signature for choice in after}
    if parts and are_the_same and not any(choice.on for choice in after):
        return "Everything off"
    if parts:
        return f"At once: {'; '.join(parts)}"
    return _moved(before, after, lambda choice: states[choice.signature])


def _moved(before: Choices, after: Choices, state_of: Callable[[Choice], PassState]) -> str:
    """Return a change of the order alone, in words: the one that moved, and the one that it now runs before."""
    for choice in after:
        others = [one for one in after if one != choice]
        if others == [one for one in before if one != choice]:
            at = after.index(choice)
            last = at + 1 == len(after)
            where = "last" if last else f"before {_name(state_of(after[at + 1]))}"
            return f"{_name(state_of(choice))} runs {where}"
    return "Another order"


def _name(state: PassState) -> str:
    return f"the edit “{state.pass_.title}”" if isinstance(state.pass_, Edit) else state.pass_.label


def _others(came: Iterable[SiteKey], went: Iterable[SiteKey], others: Mapping[str, str]) -> Iterator[str]:
    """Yield the sites of the other passes, whose words are given by name, that came or went with the act."""
    for keys, verb in ((came, "comes"), (went, "goes")):
        counts: dict[str, int] = {}
        for name, _ in keys:
            if name in others:
                counts[name] = counts.get(name, 0) + 1
        for name, count in counts.items():
            yield f"{others[name]} {verb} with it at {count:,} site{'s' if count > 1 else ''}"
