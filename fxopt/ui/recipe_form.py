"""The work on the page as a file: a button that saves it as a recipe, and an upload that does the work of one."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from fxopt.models import ZOO, LocalFolder
from fxopt.models.local_folder import name_of
from fxopt.recipes import Model, Recipe, RecipeError, Replay
from fxopt.recipes.replay import TAKES_IT
from fxopt.ui.acts import replay
from fxopt.ui.folders import is_served_here
from fxopt.ui.markdown import code, counted, escaped
from fxopt.ui.outcomes import RecipeOutcome
from fxopt.ui.own_models import OwnModel
from fxopt.ui.own_rule import problem_in_words
from fxopt.ui.panel import acting
from fxopt.ui.session import Session
from fxopt.ui.upload import is_uploaded

LISTED = 12
"""The most problems of a recipe that are listed."""
MOST_EDITS = 64
"""The most edits by hand of a recipe that a server for others takes: a few seconds for a large model."""
_MOST_MEGABYTES = 8
_FILE = "recipe file"


def recipe_form(session: Session) -> None:
    """Draw the button that opens the form, and the form."""
    form = st.popover("Recipe", key="recipe", icon=":material/description:", on_change="rerun",
                      help="Save the passes, sites and edits as a file, or load one")  # fmt: skip
    if form.open:
        with form:
            _save(session)
            st.file_uploader(
                "Load a recipe",
                type=["json"],
                key=_FILE,
                max_upload_size=_MOST_MEGABYTES,
                on_change=acting(session, lambda: _load(session)),
                help="A JSON file that Save wrote here, or `fxopt apply --save`. It is data: nothing in it is run.",
            )
            _show(session)


def _save(session: Session) -> None:
    try:
        text = session.memo.remember("recipe", session.workbench.choices, lambda: recipe_of(session).to_json())
    except RecipeError as error:
        st.error(f"**This cannot be saved.** {escaped(str(error))}", icon=":material/block:")
        return
    name = f"{session.opened.source.key.rpartition('/')[2]}.recipe.json"
    st.download_button("Save this work", text, name, "application/json", key="save recipe", on_click="ignore",
                       icon=":material/download:")  # fmt: skip


def recipe_of(session: Session) -> Recipe:
    """Return the work of a session as a recipe.

    Raises:
        RecipeError: a pass has failed, or an argument has no form in a recipe.
    """
    opened = session.opened
    source = opened.source
    if is_uploaded(source):
        model = Model("given", source.title)
    elif isinstance(source, OwnModel):
        model = Model("python", source.title)
    else:
        model = Model("folder", name_of(source)) if isinstance(source, LocalFolder) else Model("zoo", source.key)
    return Recipe.of(session.workbench, model, batch=opened.batch, sequence=opened.sequence)


def _load(session: Session) -> None:
    """Do the work of the uploaded file; a file that was taken away takes its message with it."""
    file = st.session_state.get(_FILE)
    if file is None:
        session.outcome_of_recipe = None
    else:
        replay(session, lambda: _replayed(session, file.name, file.getvalue(), rest=False))


def _replayed(session: Session, name: str, content: bytes, *, rest: bool) -> RecipeOutcome:
    recipe = None
    try:
        recipe = Recipe.from_bytes(content)
        _check_length(recipe)
        return RecipeOutcome(name, content, recipe, recipe.replay(session.workbench, strict=not rest))
    except RecipeError as error:
        return RecipeOutcome(name, content, recipe, refusal=error)


def _check_length(recipe: Recipe) -> None:
    """Check that a recipe from another machine is replayed within seconds: the time grows with the square of its edits.

    Raises:
        RecipeError: it has too many.
    """
    edits = sum(step.is_edit for step in recipe.steps)
    if edits > MOST_EDITS and not is_served_here():
        raise RecipeError(
            f"it has {edits:,} edits by hand, and this server takes {MOST_EDITS}; open it at your own page"
        )


def _apply_rest(session: Session, outcome: RecipeOutcome) -> None:
    replay(session, lambda: _replayed(session, outcome.file, outcome.content, rest=True))


def _show(session: Session) -> None:
    outcome = session.outcome_of_recipe
    if outcome is None:
        return
    if outcome.refusal is not None:
        _show_refusal(session, outcome, outcome.refusal)
    elif outcome.found is not None:
        _show_replay(outcome.file, outcome.found)


def _show_refusal(session: Session, outcome: RecipeOutcome, refusal: RecipeError) -> None:
    name = escaped(Path(outcome.file).name)
    apply_rest = acting(session, lambda: _apply_rest(session, outcome))
    if not refusal.problems:
        told = str(refusal).removesuffix(f"Nothing was changed; {TAKES_IT}").rstrip()
        st.error(f"**{name} was refused, and the work is as it was:** {escaped(told)}", icon=":material/block:")
        if refusal.is_refusal:
            st.button("Load it all the same", key="apply rest", on_click=apply_rest)
        return
    count = len(refusal.problems)
    parts = f"{count} of its parts does" if count == 1 else f"{count} of its parts do"
    listed = "\n".join(f"- {escaped(problem_in_words(problem))}" for problem in refusal.problems[:LISTED])
    more = f"\n- and {count - LISTED} more" if count > LISTED else ""
    st.error(
        f"**{name} was refused, and the work is as it was:** {parts} not apply here.{_made_on(session, outcome)}"
        f"\n\n{listed}{more}",
        icon=":material/block:",
    )
    st.button("Apply the rest", key="apply rest", on_click=apply_rest)


def _made_on(session: Session, outcome: RecipeOutcome) -> str:
    """Return a sentence on the model of the recipe, where another one of the picker is open."""
    model = outcome.recipe.model if outcome.recipe is not None else Model()
    title = next((source.title for source in ZOO if model.kind == "zoo" and source.key == model.name), "")
    return f" It was made on {escaped(title)}." if title and model.name != session.opened.source.key else ""


def _show_replay(file: str, found: Replay) -> None:
    name, sites = escaped(Path(file).name), counted(found.sites_on, "site")
    if found.is_same and not found.problems:
        told = f"{name}: {sites} on. Graph and weights are those of the recipe, bit for bit."
        st.success(told, icon=":material/check:")
        return
    model = "" if found.is_same_model else "The model is another one than in the recipe."
    listed = [f"left out: {escaped(problem_in_words(problem))}" for problem in found.problems[:LISTED]]
    listed += [f"new here, and off: {escaped(pass_)} at {code(site)}" for pass_, site in found.new_sites[:LISTED]]
    listed += map(escaped, found.versions)
    lines = [f"**{name}: {sites} on.** {model}", "", *(f"- {line}" for line in listed)]
    st.warning("\n".join(lines), icon=":material/info:")
