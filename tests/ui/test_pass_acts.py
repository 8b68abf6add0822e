"""Acts in the list of passes, as a browser sends them: each once, in their order, and only about what is there."""

from __future__ import annotations

from typing import Any

import pytest

from fxopt.models import model_source
from fxopt.ui.events import Heard
from fxopt.ui.open_model import captured
from fxopt.ui.pass_acts import act
from fxopt.ui.pass_list import described_list
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class, place_of_copies, widget_of
from fxopt.workbench.copies import Family
from tests.ui.visitor import message

MERGE, DIVIDE, BIAS = "MergeLinears", "ChangeTrueDivToMulByInverse", "FuseBiasInLinear"


@pytest.fixture
def visited() -> Session:
    source = model_source("digits_transformer")
    return Session(captured(source.key, "", 2, None, source))


def letter(session: Session, name: str) -> str:
    return session.styles[name].letter


def send(session: Session, heard: Heard, *acts: tuple[int, str, str]) -> None:
    assert act(session, heard, message(session, *acts)) == ""


def test_an_act_that_is_sent_until_it_is_heard_is_done_once(visited: Session) -> None:
    heard, merge = Heard(), letter(visited, MERGE)
    first = (1, "on", merge)
    send(visited, heard, first)
    send(visited, heard, first, (2, "off", merge), (3, "on", letter(visited, DIVIDE)))
    assert [state.name for state in visited.workbench.states if state.on] == [DIVIDE]
    assert heard.number == 3
    assert len(visited.workbench.acts) == 3


def test_quick_acts_are_done_in_their_order_each_about_what_the_one_before_left(visited: Session) -> None:
    merge, before = letter(visited, MERGE), [state.name for state in visited.workbench.states].index(MERGE)
    send(visited, Heard(), (1, "look", merge), (2, "later", merge), (3, "on", merge), (4, "close", ""))
    assert [state.name for state in visited.workbench.states].index(MERGE) == before + 1
    assert visited.workbench.state_of(MERGE).on
    assert visited.view.looked_at == ""


def test_an_approximate_pass_comes_into_the_list_when_it_is_asked_for_and_undo_takes_it_away(visited: Session) -> None:
    def offered() -> list[str]:
        return [one["class"] for one in described_list(visited)["approximate"]]

    heard = Heard()
    assert offered() == ["JoinLinears", "CastLinearsToBFloat16", "QuantizeLinears"]
    send(visited, heard, (1, "add", "QuantizeLinears"), (2, "add", "QuantizeLinears"), (3, "add", "MergeLinears"))
    assert offered() == ["JoinLinears", "CastLinearsToBFloat16"]
    names = [one.name for one in visited.workbench.states]
    assert names[names.index("QuantizeLinears") + 1] == "PackLinears", "what is packed, it would not find"
    state = visited.workbench.state_of("QuantizeLinears")
    assert (state.on, visited.view.looked_at) == (False, "QuantizeLinears")
    send(visited, heard, (4, "on", letter(visited, "QuantizeLinears")))
    rows = {row["class"]: row for row in described_list(visited)["rows"]}
    assert rows["QuantizeLinears"]["switch"]["on"] == bool(state.sites)
    while visited.workbench.can_undo:
        visited.workbench.undo()
    assert "QuantizeLinears" in offered()


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("on", "Z9"),
        ("on", "H nowhere"),
        ("on", "H all nowhere"),
        ("off", "\ud800"),
        ("look", "Z9"),
        ("go", "nowhere"),
        ("copies", "nowhere"),
        ("remove", "H"),
        ("show", "H"),
        ("behind", "H"),
        ("answer", "H yes"),
        ("answer", "yes"),
        ("burn", "H"),
    ],
)
def test_an_act_about_nothing_that_is_there_changes_nothing(visited: Session, kind: str, about: str) -> None:
    assert letter(visited, MERGE) == "H"
    before = visited.workbench.choices, visited.view
    send(visited, Heard(), (1, kind, about))
    assert (visited.workbench.choices, visited.view) == before


def test_a_site_that_another_act_took_away_is_left_alone(visited: Session) -> None:
    bench, bias = visited.workbench, letter(visited, BIAS)
    sites = {site.site for site in bench.state_of(BIAS).sites}
    send(visited, Heard(), (1, "on", letter(visited, MERGE)))
    gone = sorted(sites - {site.site for site in bench.state_of(BIAS).sites})
    assert gone, "merged linears have no bias of their own"
    send(visited, Heard(), *((number, "on", f"{bias} {site}") for number, site in enumerate(gone, 1)))
    assert bench.state_of(BIAS).sites_on == 0


def test_the_same_model_at_other_sizes_obeys_the_acts_that_were_on_their_way(visited: Session) -> None:
    source = model_source("digits_transformer")
    larger = Session(captured(source.key, "", 3, None, source))
    assert larger.identity != visited.identity
    larger.resume(visited)
    assert larger.identity == visited.identity


def test_an_answer_is_to_the_question_that_it_names(visited: Session) -> None:
    merge, bias = letter(visited, MERGE), letter(visited, BIAS)
    first, second = (site.site for site in visited.workbench.state_of(MERGE).sites)
    send(visited, Heard(), (1, "look", merge), (2, "on", merge), (3, "on", bias), (4, "off", f"{merge} {first}"))
    earlier = visited.view.question
    send(visited, Heard(), (1, "off", f"{merge} {second}"))
    assert earlier is not None
    assert visited.view.question is not None
    assert visited.view.question.pass_name == earlier.pass_name == MERGE
    send(visited, Heard(), (1, "answer", f"{earlier.name} yes"))
    assert visited.view.question is not None, "another one was asked meanwhile"
    assert visited.workbench.state_of(MERGE).sites_on == 2
    send(visited, Heard(), (1, "answer", f"{visited.view.question.name} yes"))
    assert visited.view.question is None
    assert [site.site for site in visited.workbench.state_of(MERGE).sites if site.on] == [first]


@pytest.mark.parametrize("place", ["block*.operator.truediv", "block*.operator.truediv (2)", "3-layers", "linear_3"])
def test_the_switch_of_copies_has_a_name_of_its_own_in_the_browser(place: str) -> None:
    others = {"block*.operator.truediv", "block*.operator.truediv (2)", "3-layers", "linear_3"} - {place}
    names = {as_class(widget_of("A", place_of_copies(Family(other, ())))) for other in others}
    assert as_class(widget_of("A", place_of_copies(Family(place, ())))) not in names


def row(session: Session, name: str) -> dict[str, Any]:
    return next(one for one in described_list(session)["rows"] if one["class"] == name)


def test_copies_are_listed_as_asked_and_each_switch_is_named_once(visited: Session) -> None:
    send(visited, Heard(), (1, "look", letter(visited, MERGE)))
    [family] = row(visited, MERGE)["focus"]["sites"]
    assert family["copies"]["sites"] == []
    send(visited, Heard(), (1, "copies", family["copies"]["place"]))
    [family] = row(visited, MERGE)["focus"]["sites"]
    named = [family["switch"]["about"], *(site["switch"]["about"] for site in family["copies"]["sites"])]
    assert len({*named}) == 1 + len(visited.workbench.state_of(MERGE).sites)
    send(visited, Heard(), (1, "copies", family["copies"]["place"]))
    assert row(visited, MERGE)["focus"]["sites"][0]["copies"]["sites"] == []
