"""A group of options is declared once, and each command that takes it has its options."""

import inspect

import pytest
import typer

from fxopt_cli import inspecting, judging, keeping, rewriting
from fxopt_cli.options import Choice, Sizes, Tables, expanded


def test_the_fields_of_a_group_become_options_in_its_place() -> None:
    given: list[object] = []

    def command(name: str, sizes: Sizes, choice: Choice, rounds: int = 3) -> None:
        given.extend((name, sizes, choice, rounds))

    run = expanded(command)
    assert list(inspect.signature(run).parameters) == [
        "name", "batch", "sequence", "input", "passes", "every", "only", "without", "recipe", "rounds",
    ]  # fmt: skip
    run(name="x", batch=2, sequence=None, input=["2x3"], passes=None, every=True, only=None, without=None, recipe=None,
        rounds=4)  # fmt: skip
    assert given == ["x", Sizes(2, None, ["2x3"]), Choice(every=True), 4]


@pytest.mark.parametrize(
    "command", [inspecting.draw, rewriting.apply, rewriting.reverse, judging.compare, judging.bench, keeping.export]
)
def test_commands_that_work_on_a_model_have_the_same_options(command: object) -> None:
    parameters = inspect.signature(expanded(command)).parameters  # type: ignore[arg-type]
    assert {"batch", "sequence", "input", "passes", "every", "only", "without", "recipe", "json"} <= set(parameters)


def test_two_forms_at_once_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="give one of --json, --csv and --markdown"):
        _ = Tables(json=True, csv=True).form
