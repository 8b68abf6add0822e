"""The pages of the tests share a profile of the browser, and none finds what another has stored."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.browser.visitor import APP

pytestmark = pytest.mark.browser

STORED = "[localStorage.getItem('kept'), sessionStorage.getItem('kept'), document.cookie.includes('kept')]"


@pytest.mark.parametrize("time", ["first", "second"])
def test_a_page_finds_nothing_that_another_has_stored(page: Page, serve: Callable[..., str], time: str) -> None:
    page.goto(f"{serve(APP)}/_stcore/health")
    assert page.evaluate(STORED) == [None, None, False]
    page.evaluate("localStorage.kept = sessionStorage.kept = 'a'; document.cookie = 'kept=a'")
    assert page.evaluate(STORED) == ["a", "a", True]
    beside = page.context.new_page()
    beside.goto(page.url)
    assert beside.evaluate("localStorage.kept") == "a"
