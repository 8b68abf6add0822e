"""Where acts of the visitor are known to lead, so that the browser may paint it at once."""

from __future__ import annotations

import pytest

from fxopt.models import model_source
from fxopt.ui.foreseen import ACTS, PICTURES, Foreseen
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from fxopt.ui.switches import as_class, widget_of
from fxopt.workbench import Choice, Sites

MERGE, BIAS = "MergeLinears", "FuseBiasInLinear"


@pytest.fixture
def session() -> Session:
    source = model_source("digits_transformer")
    return Session(captured(source.key, "", 2, None, source))


def switch(session: Session, name: str, on: bool, sites: Sites = None, place: str = "") -> str:
    """Switch as the page does; gives the class of the switch."""
    session.turn(name, sites, on, widget=widget_of(name, place))
    return as_class(widget_of(name, place))


def test_a_switch_leads_back_to_where_it_came_from(session: Session) -> None:
    start = session.workbench.choices
    assert as_class(widget_of(MERGE)) not in session.ends()
    act = switch(session, MERGE, on=True)
    assert session.ends()[act] == (start, MERGE)
    merged = session.workbench.choices
    switch(session, MERGE, on=False)
    assert session.ends()[act] == (merged, MERGE)


def test_sites_lead_back_as_well_alone_and_together(session: Session) -> None:
    start = session.workbench.choices
    sites = [site.site for site in session.workbench.state_of(MERGE).sites]
    one = switch(session, MERGE, on=True, sites=sites[0], place=sites[0])
    assert session.ends()[one] == (start, MERGE)
    session.undo()
    both = switch(session, MERGE, on=True, sites=frozenset(sites), place="all layers")
    assert session.ends()[both] == (start, MERGE)


def test_nothing_is_foreseen_where_going_off_could_have_to_be_asked_about(session: Session) -> None:
    switch(session, BIAS, on=True)
    act = switch(session, MERGE, on=True)
    assert act not in session.ends(), "fused biases may rest on it"
    switch(session, MERGE, on=False)
    assert session.question is not None
    assert act not in session.ends()
    session.answer(sure=True)
    session.undo()
    assert act not in session.ends(), "it is asked about again"


def test_going_off_is_foreseen_once_it_was_seen_to_need_no_question(session: Session) -> None:
    sites = [site.site for site in session.workbench.state_of(BIAS).sites]
    switch(session, BIAS, on=True, sites=sites[0], place=sites[0])
    alone = session.workbench.choices
    act = switch(session, BIAS, on=True, sites=sites[1], place=sites[1])
    assert act not in session.ends(), "another site of the pass is on"
    switch(session, BIAS, on=False, sites=sites[1], place=sites[1])
    switch(session, BIAS, on=True, sites=sites[1], place=sites[1])
    assert session.ends()[act] == (alone, BIAS)


def test_a_pass_with_a_site_left_out_does_not_come_back_as_it_was(session: Session) -> None:
    site = session.workbench.state_of(MERGE).sites[0].site
    switch(session, MERGE, on=True, sites=site, place=site)
    act = switch(session, MERGE, on=False)
    assert act not in session.ends(), "switched on again, it has all of its sites on"


def test_enter_leads_where_the_switch_does_that_it_stands_for(session: Session) -> None:
    start = session.workbench.choices
    session.look_at(MERGE)
    session.switch_current()
    assert session.ends()["Enter"] == (start, MERGE)
    site = session.workbench.state_of(MERGE).sites[0].site
    session.select(site)
    assert "Enter" not in session.ends(), "it would switch this site, which was never switched alone"
    session.look_at("")
    assert "Enter" not in session.ends()


def test_undo_redo_and_reverse_all_are_always_foreseen(session: Session) -> None:
    start = session.workbench.choices
    assert session.ends().keys() == {"reverse-all"}
    session.turn(MERGE, None, on=True)
    merged = session.workbench.choices
    assert session.ends() == {"icon-undo": (start, MERGE), "reverse-all": (start, MERGE)}
    session.undo()
    assert session.ends()["icon-redo"] == (merged, MERGE)
    session.redo()
    assert session.workbench.choices == merged


def test_what_is_remembered_is_bounded() -> None:
    foreseen = Foreseen()
    choices = [(Choice(str(number)),) for number in range(2 * ACTS)]
    for number, one in enumerate(choices):
        foreseen.led(one, "act", (one, "A"))
        foreseen.painted(number, f"picture {number}")
    assert not foreseen.ends(choices[0])
    assert foreseen.ends(choices[-ACTS]) == {"act": (choices[-ACTS], "A")}
    last = len(choices) - 1
    looks = {"old": last - PICTURES, "kept": last - PICTURES + 1, "never": -1}
    assert foreseen.pictures(looks) == {"kept": f"picture {looks['kept']}"}
