"""The switches in the list of passes: the name of each, and its name in the browser."""

from __future__ import annotations

import re

from fxopt.workbench.copies import Family


def as_class(key: str) -> str:
    """Return `key` as it stands, after ``st-key-``, in the class of the part of the page with that key.

    >>> as_class("on MergeLinears at encoder.layer.0")
    'on-MergeLinears-at-encoder-layer-0'
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "-", key)


def widget_of(pass_name: str, place: str = "") -> str:
    """Return the name of the switch of a pass, or of its sites at a place."""
    return f"on {pass_name} at {place}" if place else f"on {pass_name}"


def place_of_copies(family: Family) -> str:
    """Return the place at which one switch moves all sites of a family."""
    return f"all {family.place}"
