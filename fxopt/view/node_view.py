"""One node as plain data."""

from __future__ import annotations

from dataclasses import dataclass

PART = "part"
"""Stands for the class name of a group that is a part and no module (see `fxopt.view.parts`)."""


@dataclass(frozen=True)
class NodeView:
    """One node. `aside` is the reason why a first picture leaves it out, ``"constant"`` or ``"size"``; otherwise empty.

    `modules` are the groups around it, outermost first, as (path, class name): modules, their second and later calls
    (``layer#2``), and parts.
    """

    name: str
    op: str
    target: str
    kind: str
    called: str = ""
    modules: tuple[tuple[str, str], ...] = ()
    shape: str = ""
    dtype: str = ""
    aside: str = ""

    @property
    def module(self) -> str:
        """The path of the module it lies in, as the model knows it; empty at the top level."""
        paths = [path for path, name in self.modules if name != PART]
        return paths[-1].partition("#")[0] if paths else ""
