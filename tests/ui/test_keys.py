"""Presses and drags that the browser tells of act on a session, each once."""

from __future__ import annotations

import pytest

from fxopt.edits import Insert
from fxopt.models import model_source
from fxopt.ui.keys import Heard, act
from fxopt.ui.open_model import captured
from fxopt.ui.session import Session
from fxopt.ui.viewing import look_at
from fxopt.workbench import Workbench
from tests.ui.visitor import message


@pytest.fixture
def session() -> Session:
    """One with the seven passes A to G: how many there are beside them is of no concern here."""
    source = model_source("digits_transformer")
    made = Session(captured(source.key, "", 2, None, source))
    made.workbench = Workbench(made.opened.pristine, passes=made.workbench.passes[:7])
    return made


def press(session: Session, heard: Heard, *presses: tuple[int, str]) -> None:
    assert act(session, heard, message(session, *presses)) == ""


def order(session: Session) -> str:
    """The letters of the passes and edits in the order in which they run."""
    return "".join(session.styles[state.name].letter for state in session.workbench.states)


def test_each_press_acts_once_however_often_it_is_told(session: Session) -> None:
    heard = Heard()
    look_at(session, "FuseBatchNorm2dInConv2d")
    press(session, heard, (1, "later"), (2, "later"))
    press(session, heard, (1, "later"), (2, "later"), (3, "earlier"))
    assert order(session) == "ACBDEFG"
    assert heard.number == 3


def test_a_pass_is_dragged_before_another_or_to_the_end(session: Session) -> None:
    press(session, Heard(), (1, "move C A"), (2, "move A F"), (3, "move B"))
    assert order(session) == "CDEAFGB"
    for stays in ("move F F", "move C D", "move B"):
        press(session, Heard(), (1, stays))
        assert order(session) == "CDEAFGB"


def test_a_pass_is_moved_before_an_edit_and_behind_it(session: Session) -> None:
    session.workbench.edit(Insert("patches", "Identity"))
    assert order(session) == "HABCDEFG"
    press(session, Heard(), (1, "move A"))
    assert order(session) == "HBCDEFGA"
    press(session, Heard(), (1, "move D H"))
    assert order(session) == "DHBCEFGA"


def test_what_is_not_there_is_not_moved(session: Session) -> None:
    press(session, Heard(), (1, "move Z A"), (2, "move A Z"))
    look_at(session, "")
    press(session, Heard(), (1, "later"), (2, "Enter"), (3, "no key"))
    assert order(session) == "ABCDEFG"
    assert not session.workbench.can_undo
