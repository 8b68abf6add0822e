"""The model that a command works on, captured, with its passes turned on."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxopt_cli.options import Choice, Sizes
from fxopt_cli.output import Form, Table, progress
from fxopt_cli.sources import Given, UsageError, model_of

if TYPE_CHECKING:
    from fxopt import Pass, Workbench
    from fxopt.recipes import Replay


@dataclass(frozen=True, eq=False)
class Bench:
    """The workbench of a command, and the model that lies on it."""

    given: Given
    wb: Workbench
    replayed: Replay | None = None


def captured(model: str, sizes: Sizes, form: Form, passes: Sequence[Pass[Any]] | None = None) -> Bench:
    """Return the captured model on a workbench, with every pass off.

    Raises:
        UsageError: the model or its inputs are wrong.
        fxopt.FxoptError: the model cannot be built or captured.
    """
    with progress(model, form) as tell:
        tell("importing torch")
        import fxopt
        from fxopt.tracing import CaptureStore

        tell("building it")
        given = model_of(model, sizes.batch, sizes.sequence, sizes.input or ())

        def told(stage: str) -> bool:
            tell(stage)
            return True

        if given.source.kind == "zoo":  # whose weights are always the same
            store = CaptureStore.of_this_user()
            gm = store.capture(given.source.name, given.model, given.args, given.kwargs, told)
        else:
            gm = fxopt.capture(given.model, given.args, given.kwargs, progress=told)
        tell("looking for sites")
        return Bench(given, fxopt.Workbench(gm, passes=passes))


def worked(model: str, sizes: Sizes, choice: Choice, form: Form, *, needed: bool = True) -> Bench:
    """Return the captured model with the chosen passes on.

    Raises:
        UsageError: the model, a pass or a site is wrong, or there is none where one is `needed`.
        fxopt.FxoptError: the model cannot be captured, or the recipe does not apply.
    """
    from fxopt import Recipe

    if needed and choice.is_empty:
        raise UsageError("turn something on: --pass NAME, --all, --only PASS:SITE or --recipe FILE")
    if choice.recipe is not None:
        recipe = Recipe.load(choice.recipe)
        rest = [one for one in _passes_of(choice) if one.signature not in {mine.signature for mine in recipe.passes()}]
        bench = captured(model, sizes, form, [*recipe.passes(), *rest])
        bench = Bench(bench.given, bench.wb, recipe.replay(bench.wb))
    else:
        bench = captured(model, sizes, form, _passes_of(choice))
    with progress("rewriting", form):
        _turn_on(bench.wb, choice)
    return bench


def _passes_of(choice: Choice) -> list[Pass[Any]]:
    """Return the chosen passes in the order in which they were given, and then the other registered ones."""
    from fxopt import registered_passes

    chosen = [pass_of(text) for text in choice.passes or ()]
    names = [one.name for one in chosen]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--pass names {twice} twice")
    others = [kind() for kind in registered_passes() if kind.__name__ not in names]
    return [*chosen, *others]


def pass_of(text: str) -> Pass[Any]:
    """Return the registered pass that a text names, as Python would write it: ``MergeLinears(keep='view')``.

    Raises:
        UsageError: there is no such pass, or it does not take the arguments.
    """
    from fxopt import RecipeError
    from fxopt.recipes import Step

    try:
        tree = ast.parse(text.strip(), mode="eval").body
        call = tree if isinstance(tree, ast.Call) else None
        name = ast.unparse(call.func if call is not None else tree)
        if call is not None and (call.args or not all(key.arg for key in call.keywords)):
            raise UsageError(f"--pass {text}: write arguments by name, as in MergeLinears(keep='view')")
        arguments = {str(key.arg): ast.literal_eval(key.value) for key in call.keywords} if call is not None else {}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"--pass {text}: write it as MergeLinears or MergeLinears(keep='view')") from None
    try:
        return Step(name, arguments, True).pass_()
    except RecipeError as error:
        raise UsageError(f"--pass {text}: {error.reason}") from None


def _turn_on(wb: Workbench, choice: Choice) -> None:
    for pass_ in wb.passes if choice.every else [pass_of(text) for text in choice.passes or ()]:
        wb.turn_on(pass_)
    for text in choice.only or ():
        wb.turn_on(*_site(wb, "--only", text))
    for text in choice.without or ():
        wb.turn_off(*_site(wb, "--without", text))
    failed = next((state for state in wb.states if state.error), None)
    if failed is not None:
        from fxopt import RewriteError

        raise RewriteError(failed.error)


def _site(wb: Workbench, option: str, text: str) -> tuple[str, str]:
    name, _, site = text.partition(":")
    names = [one.name for one in wb.passes]
    if not site or name not in names:
        raise UsageError(f"{option} {text}: write it as PASS:SITE; the passes are {', '.join(names)}")
    known = [one.site for one in wb.state_of(name).sites]
    if site not in known:
        raise UsageError(f"{option} {text}: {name} has no site {site}; it has {', '.join(known) or 'none here'}")
    return name, site


def model_data(given: Given) -> dict[str, Any]:
    """Return the model as JSON."""
    return {
        "kind": given.source.kind,
        "name": given.source.name,
        "batch": given.batch,
        "sequence": given.sequence,
    }


def passes_data(wb: Workbench) -> list[dict[str, Any]]:
    """Return the passes and edits that are on as JSON, in the order in which they run."""
    return [
        {"name": state.name, "sites_on": [site.site for site in state.sites if site.on], "sites": len(state.sites)}
        for state in wb.states
        if state.on
    ]


def passes_table(wb: Workbench) -> Table:
    """Return the passes and edits that are on as a table."""
    rows = [
        (state.name, state.sites_on, len(state.sites), ", ".join(site.site for site in state.sites if site.on))
        for state in wb.states
        if state.on
    ]
    return Table("", ("pass", "on", "sites", "rewritten at"), rows)
