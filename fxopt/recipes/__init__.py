"""Recipes: the work on a workbench as JSON, to keep, send and replay. Nothing is executed or imported from one.

recipe = Recipe.of(wb); recipe.save("merged.json")
Recipe.load("merged.json").replay(other_wb)  # the same model: the same fingerprint, or a RecipeError that says why not
"""

from fxopt.recipes.errors import RecipeError
from fxopt.recipes.recipe import Model, Recipe
from fxopt.recipes.replay import Problem, Replay
from fxopt.recipes.steps import SiteChoice, Step

__all__ = ["Model", "Problem", "Recipe", "RecipeError", "Replay", "SiteChoice", "Step"]
