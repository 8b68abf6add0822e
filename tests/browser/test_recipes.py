"""Recipes in a real browser: a file is saved, loaded again, and a wrong one is refused with nothing lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from fxopt import Recipe
from tests.browser.visitor import FOLD, Open

pytestmark = pytest.mark.browser


def test_work_is_saved_to_a_file_and_loaded_from_it_and_a_wrong_file_loses_nothing(visit: Open, tmp_path: Path) -> None:
    visitor = visit()
    page = visitor.page
    visitor.switch(FOLD)
    visitor.sees_badge("4 sites on")
    page.get_by_role("button", name="Recipe").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save this work").click()
    file = tmp_path / saved.value.suggested_filename
    saved.value.save_as(file)
    assert sum(len(step.sites_on) for step in Recipe.load(file).steps) == 4
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{\n "fxopt_recipe": 7\n}')
    page.locator("input[type=file]").set_input_files(wrong)
    visitor.sees("line 2, fxopt_recipe: the version of this recipe is 7")
    _picture(page, "refused")
    visitor.sees_badge("4 sites on")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Reverse all").click()
    visitor.sees_badge("restored, bit for bit")
    page.get_by_role("button", name="Recipe").click()
    page.locator("input[type=file]").set_input_files(file)
    visitor.sees("Graph and weights are those of the recipe, bit for bit.")
    visitor.sees_badge("4 sites on")
    _picture(page, "loaded")
    expect(visitor.is_on(FOLD)).to_be_checked()


def _picture(page: object, name: str) -> None:
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")  # type: ignore[attr-defined]
