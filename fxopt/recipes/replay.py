"""The replay of a recipe: tried on a workbench beside, compared with the recipe, then taken over in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fxopt.core import FxoptError, GraphIndex, Miss
from fxopt.edits import Edit, EditError
from fxopt.passes import APPROXIMATE_PASSES
from fxopt.recipes.errors import RecipeError, written
from fxopt.recipes.steps import Step, arguments_of, kind_name
from fxopt.recipes.versions import other_versions
from fxopt.workbench import Choice, PassState, Workbench
from fxopt.workbench.verdicts import verdicts_of

APPLIES_THE_REST = "strict=False applies the rest."
TAKES_IT = "strict=False takes it all the same."
"""The end of the sentence of a refusal; the page and the command name their own remedy in its place."""
_FEW = 8
_ROUNDS = 100


@dataclass(frozen=True)
class Problem:
    """A part of a recipe that does not apply to this model: a site, an edit, or a whole pass."""

    step: int
    """The number of the step in the recipe, from 0."""
    name: str
    """Of the pass or edit."""
    site: str
    """The name of the anchor node; empty for a whole pass."""
    reason: str
    remedy: str = ""
    is_unknown_pass: bool = False
    """Whether the workbench has no pass of this name, with any arguments."""

    def __str__(self) -> str:
        where = f"{written(('steps', self.step))} {self.name}" + (f" at {self.site}" if self.site else "")
        return f"{where}: {self.reason}" + (f" ({self.remedy})" if self.remedy else "")


@dataclass(frozen=True)
class Replay:
    """The outcome of a replay."""

    is_same_model: bool
    """Whether the graph before any pass has the fingerprint of the recipe."""
    is_same: bool
    """Whether the graph has the fingerprint that the recipe names for its end."""
    sites_on: int
    problems: tuple[Problem, ...] = ()
    """The parts of the recipe that were left out."""
    new_sites: tuple[tuple[str, str], ...] = ()
    """Sites that the recipe does not know, as pairs of pass name and site; they stay off."""
    versions: tuple[str, ...] = ()
    """The libraries whose versions differ, in words."""


def replay(
    wb: Workbench, steps: Sequence[Step], fingerprints: tuple[str, str], versions: Mapping[str, str], *, strict: bool
) -> Replay:
    """Replay the steps of a recipe; see `Recipe.replay`. `fingerprints` are those before and after it."""
    try:
        trial = wb.another()
        names, problems = _choose(steps, trial)
        new = _left_out(steps, trial, names)
        problems += [one for i in names for one in _missing(i, steps[i], trial, names[i])]
        before, after = trial.portable_fingerprints()
        found = Replay(
            is_same_model=before == fingerprints[0],
            is_same=after == fingerprints[1],
            sites_on=sum(state.sites_on for state in trial.states),
            problems=tuple(sorted(problems, key=lambda one: one.step)),
            new_sites=tuple(new),
            versions=other_versions(versions),
        )
        if strict:
            _check(found)
        wb.choose(trial.choices, (*trial.added, *trial.edits))
    except RecipeError:
        raise
    except FxoptError as error:
        raise RecipeError(f"the replay failed, and the workbench is as it was: {error}") from error
    return found


def _choose(steps: Sequence[Step], trial: Workbench) -> tuple[dict[int, str], list[Problem]]:
    """Bring `trial` to the steps; return the signature of each step that it has, and the passes that it lacks."""
    mine = {one.signature: one for one in trial.passes}
    edits: dict[str, Edit] = {}
    choices: dict[str, Choice] = {}
    names: dict[int, str] = {}
    problems = []
    for i, step in enumerate(steps):
        if step.is_edit:
            edit = step.edit(("steps", i))
            while edit.signature in edits:
                edit = edit.another_turn()
            edits[edit.signature] = edit
            signature = edit.signature
        else:
            known = (
                s for s, one in mine.items() if kind_name(one) == step.name and arguments_of(one) == step.arguments
            )
            signature = next(known, "")
            if not signature and step.name in {one.__name__ for one in APPROXIMATE_PASSES}:
                signature = _added(step, i, trial)
                mine = {one.signature: one for one in trial.passes}
            if not signature:
                if step.on:
                    has = ", ".join(one.name for one in trial.passes)
                    reason = f"the workbench has no such pass with these arguments; it has {has}"
                    is_unknown = all(one.name != step.name for one in trial.passes)
                    problems.append(
                        Problem(i, step.name, "", reason, "make it with passes=recipe.passes()", is_unknown)
                    )
                continue
            if signature in choices:
                raise RecipeError(f"{step.name} with these arguments is in the recipe twice", ("steps", i))
        names[i] = signature
        choices[signature] = Choice(signature, step.on, step.without if step.on else frozenset())
    rest = {signature: Choice(signature) for signature in mine if signature not in choices}
    trial.choose((*choices.values(), *rest.values()), edits.values())
    return names, problems


def _added(step: Step, number: int, trial: Workbench) -> str:
    """Add the approximate pass of a step; return its signature, or nothing where another one has its name."""
    pass_ = step.pass_(("steps", number))
    alike = [one for one in trial.passes if one.name == pass_.name]
    if not alike:
        trial.add(pass_)
    return pass_.signature if not alike or pass_.signature == alike[0].signature else ""


def _left_out(steps: Sequence[Step], trial: Workbench, names: dict[int, str]) -> list[tuple[str, str]]:
    """Turn the sites off that the recipe does not know, until there is none; return them."""
    found: dict[tuple[str, str], None] = {}
    for _ in range(_ROUNDS):
        extra = dict(_unknown(steps, trial, names))
        if not extra:
            return list(found)
        signature, sites = next(iter(extra.items()))
        pass_ = next(one for one in trial.passes if one.signature == signature)
        found |= {(pass_.name, site): None for site in sites}
        trial.turn_off(pass_, sites)
    raise RecipeError("its passes find new sites in this model again and again, so it cannot be brought to the recipe")


def _unknown(steps: Sequence[Step], trial: Workbench, names: dict[int, str]) -> Iterator[tuple[str, list[str]]]:
    states = {state.pass_.signature: state for state in trial.states}
    for i, signature in names.items():
        sites = [one.site for one in states[signature].sites if one.on and one.site not in steps[i].sites_on]
        if sites:
            yield signature, sites


def _missing(i: int, step: Step, trial: Workbench, signature: str) -> Iterator[Problem]:
    """Yield the sites of a step that the recipe has on and that are not on here."""
    state = _state(trial, signature)
    on = {one.site for one in state.sites if one.on}
    for site in step.sites:
        if site.on and site.site not in on:
            yield Problem(i, state.name, site.site, *_why(trial, state, site.site))


def _state(trial: Workbench, signature: str) -> PassState:
    return next(state for state in trial.states if state.pass_.signature == signature)


def _why(trial: Workbench, state: PassState, site: str) -> tuple[str, str]:
    """Return the reason why a pass or edit is not on at a site, and the remedy."""
    if state.error:
        return state.error, ""
    if not state.on and any(one.site == site for one in state.sites):
        return "the recipe has it off, and this site of it on", ""
    for verdict in verdicts_of(trial, site):
        if verdict.state is state and verdict.miss is not None:
            return verdict.miss.reason, verdict.miss.remedy
        if verdict.state is state and verdict.kind == "silent":
            return verdict.reason, ""
        if verdict.state is state and verdict.site is not None:
            return "it matches there, but another site has taken one of its nodes", ""
    if isinstance(state.pass_, Edit):
        return _refusal(state.pass_, trial)
    return "it is the anchor of no match", ""


def _refusal(edit: Edit, trial: Workbench) -> tuple[str, str]:
    found = edit.scan(trial.current)
    miss = next(iter(found.misses), None)
    if isinstance(miss, Miss):
        return miss.reason, miss.remedy
    try:
        edit.check(GraphIndex(trial.current))
    except EditError as error:
        return error.reason, error.remedy
    return "it is the anchor of no match", ""


def _check(found: Replay) -> None:
    """Refuse a replay that has problems, or another result on the same model."""
    if found.problems:
        told = [f"- {one}" for one in found.problems[:_FEW]]
        more = len(found.problems) - _FEW
        what = (
            "the model is another one than that of the recipe" if not found.is_same_model else "the model is the same"
        )
        many = f"{len(found.problems)} part{'s' if len(found.problems) > 1 else ''} of the recipe"
        raise RecipeError(
            "\n".join(
                [
                    f"{many} cannot be applied; {what}. Nothing was changed; {APPLIES_THE_REST}",
                    *told,
                    *([f"- and {more} more"] if more > 0 else []),
                ]
            ),
            problems=found.problems,
            is_refusal=True,
        )
    if found.is_same_model and not found.is_same:
        others = "; ".join(found.versions) or "the versions of all libraries are the same"
        raise RecipeError(
            "the model is that of the recipe, and the result is another one than it names. Its fingerprint may have "
            f"been edited, or other libraries compute otherwise: {others}. Nothing was changed; {TAKES_IT}",
            is_refusal=True,
        )
