"""The tour of the page in its first minute: five stops on real controls, through which `tour.js` leads."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from fxopt.ui.lesson_places import PLACES
from fxopt.ui.modules import joined

_tour = st.components.v2.component("fxopt_tour", js=joined("tour"), isolate_styles=False)


@dataclass(frozen=True)
class Stop:
    """A stop: a control, by its name in lessons, and the words beside it."""

    control: str
    title: str
    text: str
    part: str = ""
    """The panel of the frame that is opened for it, if it is closed."""


STOPS = (
    Stop(
        "passes",
        "Passes",
        "A pass is one optimization of the graph. Its line says in how many places, called sites, it applies here. "
        "The switch turns it on; pointing at the line shows what it would do.",
        part="left",
    ),
    Stop(
        "graph",
        "The graph of the model",
        "Each box is a call, and its color tells the kind. A box that a pass rewrites has the letter of the pass. "
        "Click a box to read about it, double-click a module to open it, and drag the picture to move it.",
    ),
    Stop(
        "views",
        "Before, now, and both",
        "Original is the model as it came, Now is the graph with the passes that are on. Diff draws both in one "
        "picture and plays the rewrite, site by site.",
    ),
    Stop(
        "inspector",
        "The box that is selected",
        "Here is all about it: its call, its line of Python, and for every pass why it applies there or why not. "
        "With no box selected, it tells about the whole graph.",
        part="right",
    ),
    Stop(
        "evidence",
        "Is it right, and is it faster?",
        "Each tab answers one question about the rewrite: parameters, errors, latency, cost, code. Undo takes every "
        "act back to the last bit. The key ? lists all keys, and this tour.",
    ),
)


def tour() -> None:
    """Draw the tour: it begins by itself on a visitor's first page, and after its end where it is asked for."""
    stops = [
        {"title": one.title, "text": one.text, "place": {"css": PLACES[one.control]}, "part": one.part} for one in STOPS
    ]
    with st.container(key="tour", gap=None):
        _tour(key="tour of the page", data={"stops": stops})
