"""Changes by hand: one kind a file. Each is a pass with one site at most, found by the name of its node.

So the laws of passes hold for them: they explain a refusal, reverse exactly, and mix with passes in any order. Each is
tried on fake tensors before it is applied (`fxopt.edits.propagation`).

A new kind is a file with a subclass of `Edit` that gives `title`, `draft` and `do`, its lines here, an act in
``fxopt/ui/edit_form.py``, and an example among the edits of ``tests/edits/test_laws.py``.
"""

from fxopt.edits.delete import Delete
from fxopt.edits.edit import Edit, EditError
from fxopt.edits.insert import Insert
from fxopt.edits.offers import Offers, offers_at
from fxopt.edits.probe import Probe
from fxopt.edits.replace_module import ReplaceModule
from fxopt.edits.retarget import Retarget
from fxopt.edits.rewire import Rewire
from fxopt.edits.set_argument import SetArgument
from fxopt.edits.swap_inputs import SwapInputs

ALL_EDITS: tuple[type[Edit], ...] = (Delete, Insert, ReplaceModule, Retarget, Rewire, SetArgument, SwapInputs)
"""The kinds of edits, which recipes name."""

__all__ = [
    "ALL_EDITS",
    "Delete",
    "Edit",
    "EditError",
    "Insert",
    "Offers",
    "Probe",
    "ReplaceModule",
    "Retarget",
    "Rewire",
    "SetArgument",
    "SwapInputs",
    "offers_at",
]
