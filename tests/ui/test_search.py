"""Regular expressions that a visitor may write."""

from __future__ import annotations

import time

import pytest

from fxopt.ui import search
from fxopt.ui.search import found

NAMES = ["encoder_layer_0_attention_self_query", "encoder_layer_0_attention_output_dense", "pooler_dense", "a" * 200]


def texts(name: str) -> tuple[str, ...]:
    return (name,)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ("query|pooler", [0, 2]),
        ("layer_[0-9]+_.*dense", [1]),
        ("^POOLER", [2]),
        ("dense$", [1, 2]),
        ("(self_)?query", [0]),
    ],
)
def test_an_expression_is_used_as_one(asked: str, fits: list[int]) -> None:
    assert found(asked, NAMES, texts) == ([NAMES[at] for at in fits], "")


@pytest.mark.parametrize(
    "asked",
    ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*a){20}b", ".*.*.*.*.*.*b", "(a?){40}b", "((a{0,9}){0,9}){0,9}b", "(a*)*\\1b"],
)
def test_an_expression_with_too_many_ways_is_taken_as_text(asked: str) -> None:
    begun = time.thread_time()
    fitting, told = found(asked, NAMES, texts)
    assert (fitting, told.startswith("Taken as plain text")) == ([], True)
    assert time.thread_time() - begun < 1


@pytest.mark.parametrize("asked", ["(", "[[a]", "a{99999999999}", "\\", "(" * 200, "(?P<a>x)(?P<a>y)", "x" * 501])
def test_what_is_no_expression_is_taken_as_text(asked: str) -> None:
    assert found(asked, [*NAMES, f"see {asked}"], texts)[0] == [f"see {asked}"]


def test_the_texts_together_have_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_SECONDS", -1)
    assert found("quer.", NAMES, texts) == ([], "Taken as plain text: it takes too long")
