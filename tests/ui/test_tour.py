"""The stops of the tour: five, each at a control of the page."""

from __future__ import annotations

from fxopt.ui.lesson_places import PLACES
from fxopt.ui.tour import STOPS


def test_the_tour_has_five_stops_at_controls_that_lessons_know() -> None:
    assert len(STOPS) == len({one.control for one in STOPS}) == 5
    assert {one.control for one in STOPS} <= {*PLACES}
    assert all(len(one.text) < 240 for one in STOPS), "each is read within half a dozen lines"
