"""Acts in the list of passes, as a browser sends them: each once, in their order, and only about what is there."""

from __future__ import annotations

import pytest

from fxopt.models import model_source
from fxopt.ui.events import Heard
from fxopt.ui.open_model import captured
from fxopt.ui.pass_acts import act
from fxopt.ui.pass_list import described_list
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class, place_of_copies, widget_of
from fxopt.workbench.copies import Family

MERGE, DIVIDE = "MergeLinears", "ChangeTrueDivToMulByInverse"


@pytest.fixture
def visited() -> Session:
    source = model_source("digits_transformer")
    return Session(captured(source.key, "", 2, None, source))


def send(session: Session, heard: Heard, *acts: tuple[int, str, str]) -> None:
    assert act(session, heard, [list(one) for one in acts]) == ""


def test_an_act_that_is_sent_until_it_is_heard_is_done_once(visited: Session) -> None:
    heard = Heard()
    first = (1, "on", widget_of(MERGE))
    send(visited, heard, first)
    send(visited, heard, first, (2, "off", widget_of(MERGE)), (3, "on", widget_of(DIVIDE)))
    assert [state.name for state in visited.workbench.states if state.on] == [DIVIDE]
    assert heard.number == 3
    assert len(visited.workbench.acts) == 3


def test_quick_acts_are_done_in_their_order_each_about_what_the_one_before_left(visited: Session) -> None:
    send(visited, Heard(), (1, "look", MERGE), (2, "later", MERGE), (3, "on", widget_of(MERGE)), (4, "close", ""))
    assert [state.name for state in visited.workbench.states].index(MERGE) == 1
    assert visited.workbench.state_of(MERGE).on
    assert visited.view.looked_at == ""


@pytest.mark.parametrize(
    ("kind", "about"),
    [
        ("on", widget_of("Nobody")),
        ("on", widget_of(MERGE, "nowhere")),
        ("on", widget_of(MERGE, "all nowhere")),
        ("off", "\ud800"),
        ("look", "Nobody"),
        ("go", "nowhere"),
        ("copies", "nowhere"),
        ("remove", MERGE),
        ("show", MERGE),
        ("behind", MERGE),
        ("answer", "yes"),
        ("burn", MERGE),
    ],
)
def test_an_act_about_nothing_that_is_there_changes_nothing(visited: Session, kind: str, about: str) -> None:
    before = visited.workbench.choices, visited.view
    send(visited, Heard(), (1, kind, about))
    assert (visited.workbench.choices, visited.view) == before


def test_a_site_that_another_act_took_away_is_left_alone(visited: Session) -> None:
    site = visited.workbench.state_of("FuseBiasInLinear").sites[0].site
    widget = widget_of("FuseBiasInLinear", site)
    send(visited, Heard(), (1, "on", widget_of(MERGE)))
    gone = {one.site for one in visited.workbench.state_of("FuseBiasInLinear").sites}
    expected = site in gone
    send(visited, Heard(), (1, "on", widget))
    assert visited.workbench.state_of("FuseBiasInLinear").on == expected


@pytest.mark.parametrize("place", ["block*.operator.truediv", "block*.operator.truediv (2)", "3-layers", "linear_3"])
def test_the_switch_of_copies_has_a_name_of_its_own_in_the_browser(place: str) -> None:
    others = {"block*.operator.truediv", "block*.operator.truediv (2)", "3-layers", "linear_3"} - {place}
    names = {as_class(widget_of("A", place_of_copies(Family(other, ())))) for other in others}
    assert as_class(widget_of("A", place_of_copies(Family(place, ())))) not in names


def test_the_list_names_each_switch_once(visited: Session) -> None:
    send(visited, Heard(), (1, "look", MERGE))
    place = described_list(visited)["rows"][0]["focus"]["sites"][0]["copies"]["place"]
    send(visited, Heard(), (1, "copies", place))
    row = described_list(visited)["rows"][0]
    copies = row["focus"]["sites"][0]["copies"]
    widgets = [row["switch"]["widget"], *(site["switch"]["widget"] for site in copies["sites"])]
    assert copies["open"]
    assert len({*widgets}) == 1 + len(visited.workbench.state_of(MERGE).sites)
    send(visited, Heard(), (1, "copies", place))
    assert described_list(visited)["rows"][0]["focus"]["sites"][0]["copies"]["sites"] == []
