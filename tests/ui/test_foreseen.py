"""Where acts of the visitor are known to lead, so that the browser may paint it at once."""

from __future__ import annotations

import pytest

from fxopt.models import model_source
from fxopt.ui.acts import answer, redo, switch_current, turn, undo
from fxopt.ui.foreseen import ACTS, PICTURES, End, Foreseen
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class, widget_of
from fxopt.ui.viewing import look_at, select
from fxopt.workbench import Choice, Sites

MERGE, BIAS = "MergeLinears", "FuseBiasInLinear"


@pytest.fixture
def session() -> Session:
    source = model_source("digits_transformer")
    return Session(captured(source.key, "", 2, None, source))


def switch(session: Session, name: str, on: bool, sites: Sites = None, place: str = "") -> str:
    """Switch as the page does; gives the class of the switch."""
    turn(session, name, sites, on, widget=widget_of(name, place))
    return as_class(widget_of(name, place))


def ends(session: Session) -> dict[str, End]:
    entered = widget_of(*session.entered[:2]) if session.entered is not None else ""
    return session.foreseen.ends(session.workbench, session.view.looked_at, entered)


def test_a_switch_leads_back_to_where_it_came_from(session: Session) -> None:
    start = session.workbench.choices
    assert as_class(widget_of(MERGE)) not in ends(session)
    act = switch(session, MERGE, on=True)
    assert ends(session)[act] == (start, MERGE)
    merged = session.workbench.choices
    switch(session, MERGE, on=False)
    assert ends(session)[act] == (merged, MERGE)


def test_sites_lead_back_as_well_alone_and_together(session: Session) -> None:
    start = session.workbench.choices
    sites = [site.site for site in session.workbench.state_of(MERGE).sites]
    one = switch(session, MERGE, on=True, sites=sites[0], place=sites[0])
    assert ends(session)[one] == (start, MERGE)
    undo(session)
    both = switch(session, MERGE, on=True, sites=frozenset(sites), place="all layers")
    assert ends(session)[both] == (start, MERGE)


def test_nothing_is_foreseen_where_going_off_could_have_to_be_asked_about(session: Session) -> None:
    switch(session, BIAS, on=True)
    act = switch(session, MERGE, on=True)
    assert act not in ends(session), "fused biases may rest on it"
    switch(session, MERGE, on=False)
    assert session.view.question is not None
    assert act not in ends(session)
    answer(session, sure=True)
    undo(session)
    assert act not in ends(session), "it is asked about again"


def test_going_off_is_foreseen_once_it_was_seen_to_need_no_question(session: Session) -> None:
    sites = [site.site for site in session.workbench.state_of(BIAS).sites]
    switch(session, BIAS, on=True, sites=sites[0], place=sites[0])
    alone = session.workbench.choices
    act = switch(session, BIAS, on=True, sites=sites[1], place=sites[1])
    assert act not in ends(session), "another site of the pass is on"
    switch(session, BIAS, on=False, sites=sites[1], place=sites[1])
    switch(session, BIAS, on=True, sites=sites[1], place=sites[1])
    assert ends(session)[act] == (alone, BIAS)


def test_a_pass_with_a_site_left_out_does_not_come_back_as_it_was(session: Session) -> None:
    site = session.workbench.state_of(MERGE).sites[0].site
    switch(session, MERGE, on=True, sites=site, place=site)
    act = switch(session, MERGE, on=False)
    assert act not in ends(session), "switched on again, it has all of its sites on"


def test_enter_leads_where_the_switch_does_that_it_stands_for(session: Session) -> None:
    start = session.workbench.choices
    look_at(session, MERGE)
    switch_current(session)
    assert ends(session)["Enter"] == (start, MERGE)
    site = session.workbench.state_of(MERGE).sites[0].site
    select(session, site)
    assert "Enter" not in ends(session), "it would switch this site, which was never switched alone"
    look_at(session, "")
    assert "Enter" not in ends(session)


def test_undo_redo_and_reverse_all_are_always_foreseen(session: Session) -> None:
    start = session.workbench.choices
    assert ends(session).keys() == {"reverse-all"}
    turn(session, MERGE, None, on=True)
    merged = session.workbench.choices
    assert ends(session) == {"icon-undo": (start, MERGE), "reverse-all": (start, MERGE)}
    undo(session)
    assert ends(session)["icon-redo"] == (merged, MERGE)
    redo(session)
    assert session.workbench.choices == merged


def test_a_switch_that_changes_nothing_leads_nowhere(session: Session) -> None:
    start = session.workbench.choices
    act = switch(session, MERGE, on=True)
    switch(session, MERGE, on=True)
    assert ends(session)[act] == (start, MERGE)


def test_what_is_remembered_is_bounded(session: Session) -> None:
    foreseen, bench = session.foreseen, session.workbench
    switch(session, MERGE, on=True)
    start = tuple(Choice(choice.signature) for choice in bench.choices)
    for number in range(ACTS):
        foreseen.switched(f"switch {number}", MERGE, None, on=True, start=start, bench=bench)
    assert len(foreseen._ends) == ACTS
    assert as_class(widget_of(MERGE)) not in ends(session)
    assert ends(session)[f"switch-{ACTS - 1}"] == (start, MERGE)
    foreseen = Foreseen()
    for number in range(PICTURES + 1):
        foreseen.painted(number, f"picture {number}")
    looks = {"old": 0, "kept": 1, "never": -1}
    assert foreseen.pictures(looks) == {"kept": "picture 1"}
