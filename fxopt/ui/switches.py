"""The switches on the page: where each was drawn, and where the visitor has moved it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import streamlit as st

from fxopt.workbench import Sites


def as_class(key: str) -> str:
    """Return `key` as it stands, after ``st-key-``, in the class of a widget or container with that key.

    >>> as_class("on MergeLinears at encoder.layer.0")
    'on-MergeLinears-at-encoder-layer-0'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "-", key)


def widget_of(pass_name: str, place: str = "") -> str:
    """Return the widget that switches a pass, or its sites at a place."""
    return f"on {pass_name} at {place}" if place else f"on {pass_name}"


@dataclass
class Switch:
    """A switch on the page, of a pass or of some of its sites."""

    widget: str
    """The thing that it switches, as `widget_of` names it."""
    key: str
    """Of the switch that stands there now."""
    pass_name: str
    sites: Sites
    first: bool
    """The place in which it was first drawn."""
    place: bool
    """The place to which the visitor has moved it, as far as that was obeyed."""


class Switches:
    """The switches of one visitor, by widget.

    The browser sends the places of all switches with each click. A switch moved by Python would be reported in its old
    place by a click that comes before the browser has heard of the move, and be taken for a wish. So each switch stays
    as it was drawn: if its place is out of date, another one takes its place.
    """

    def __init__(self) -> None:
        self._by_widget: dict[str, Switch] = {}
        self._numbers = itertools.count(2)

    def place(self, widget: str, name: str, sites: Sites, on: bool) -> Switch:
        """Return the switch to draw for the pass `name`, or some sites of it, which is on or off."""
        switch = self._by_widget.get(widget)
        if switch is None or switch.place != on or (switch.key not in st.session_state and switch.first != on):
            # The number is in front, unlike in other widgets: the browser leaves it out of the class of the switch.
            key = widget if switch is None else f"{next(self._numbers)} {widget}"
            while key in st.session_state:
                key = f"{next(self._numbers)} {widget}"
            switch = Switch(widget, key, name, sites, first=on, place=on)
        switch.sites = sites
        self._by_widget[widget] = switch
        return switch

    def moved(self) -> Iterator[Switch]:
        """Yield the switches that the visitor moved since the last run, at their new places.

        This is one loop instead of a callback for each: when clicks come quickly, Streamlit ends a run as soon as it
        looks at its state.
        """
        for switch in list(self._by_widget.values()):
            wanted = st.session_state.get(switch.key)
            if not isinstance(wanted, bool):
                continue
            if wanted != switch.place:
                switch.place = wanted
                yield switch
