"""Links: the work on a workbench and the view of it as a short text, for the address of a page."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fxopt.recipes.errors import RecipeError
from fxopt.recipes.reading import Part, parsed
from fxopt.recipes.replay import Replay, replay
from fxopt.recipes.steps import Step
from fxopt.workbench import Workbench

VERSION = "1"
"""The first letter of the text."""
MOST_STEPS = 64
"""A link comes from anyone, and a step may take as long as a run of the graph on fake tensors."""
MOST_BYTES = 256 * 2**10
"""Of the JSON in a link."""
MOST_NAMES = 10_000
_OF_COMPARISON = ("since", "back")

_KNOWN = (
    b'{"view": {"looked_at": "", "selected": "@", "graph": "Original", "graph": "Side by side", "graph": "Diff", '
    b'"open": ["encoder.layer.0", "model.layers.0", "attention"], "shut": []}, "steps": [{"edit": "SetArgument", '
    b'"arguments": {"node": "", "place": "args[1]", "value": 2.0}, "on": true, "sites": [{"site": "", "on": true}, '
    b'{"site": "encoder_layer_0_attention_self_query", "on": true}]}, {"pass": "FuseBatchNorm2dInConv2d", '
    b'"arguments": {}, "on": false, "sites": []}, {"pass": "FuseBatchNorm1dInLinear", "arguments": {}, "on": false, '
    b'"sites": []}, {"pass": "FoldBatchNorm", "arguments": {}, "on": false, "sites": []}, {"pass": '
    b'"ChangeTrueDivToMulByInverse", "arguments": {}, "on": false, "sites": []}, {"pass": "MergeLinears", "arguments": '
    b'{"keep": "copy"}, "on": false, "sites": []}, {"pass": "FuseBiasInLinear", "arguments": {}, "on": false, "sites": '
    b'[]}, {"pass": "RemoveIdentities", "arguments": {}, "on": false, "sites": []}, {"pass": "PackLinears", '
    b'"arguments": {}, "on": false, "sites": []}, {"pass": "PackConvolutions", "arguments": {}, "on": false, '
    b'"sites": []}]}'
)
"""Text that links are likely to have, by which they become shorter. Another one is another version."""


@dataclass(frozen=True)
class Link:
    """Steps of a recipe, and a view of the graphs; see `Recipe` for the steps."""

    steps: tuple[Step, ...] = ()
    view: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, hash=False)
    """Texts and lists of names by name, whose meaning is the page's own."""
    since: tuple[Step, ...] | None = None
    """The steps of an earlier or later state that the one of `steps` is compared with."""
    back: tuple[Step, ...] | None = None
    """The steps that the work goes back to after that, where they are others than `steps`."""

    @classmethod
    def of(cls, wb: Workbench, view: Mapping[str, str | tuple[str, ...]] | None = None) -> Link:
        """Return the link to a workbench as it is now.

        Raises:
            RecipeError: an argument of a pass or an edit has no form in a recipe.
        """
        pairs = enumerate(zip(wb.states, wb.choices))
        return cls(tuple(Step.of(state, choice, ("steps", i)) for i, (state, choice) in pairs), dict(view or {}))

    def to_text(self) -> str:
        """Return it as letters, digits, ``-`` and ``_``."""
        content: dict[str, Any] = {"view": self.view}
        for name in ("steps", *_OF_COMPARISON):
            if (steps := getattr(self, name)) is not None:
                content[name] = [step.to_json() for step in steps]
        squeezed = zlib.compressobj(9, zdict=_KNOWN)
        packed = squeezed.compress(json.dumps(content, allow_nan=False).encode()) + squeezed.flush()
        return VERSION + base64.urlsafe_b64encode(packed).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> Link:
        """Return the link of its text, which may come from anyone. Nothing is executed or imported from it.

        Raises:
            RecipeError: the text is no link, or one of another version.
        """
        if not text.startswith(VERSION):
            raise RecipeError(f"it is not a link of this fxopt: its links begin with {VERSION}")
        top = Part(parsed(_inflated(text[1:]))).fields(("view", "steps"), _OF_COMPARISON)
        view = {name: _named(one) for name, one in top.pop("view").table().items()}
        steps = {name: tuple(Step.read(one) for one in part.items(MOST_STEPS)) for name, part in top.items()}
        return cls(view=view, **steps)

    def replay(self, wb: Workbench) -> Replay:
        """Bring a workbench to `steps`, in one step that `undo` takes back; the rest where some do not apply.

        Raises:
            RecipeError: the replay failed; the workbench is as it was.
        """
        return replay(wb, self.steps, ("", ""), {}, strict=False)


def _named(part: Part) -> str | tuple[str, ...]:
    return tuple(one.text() for one in part.items(MOST_NAMES)) if isinstance(part.value, list) else part.text()


def _inflated(text: str) -> str:
    broken = "it is broken: a part of it may have been lost on its way"
    if not text.isascii():
        raise RecipeError(broken)
    try:
        packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj(zdict=_KNOWN)
        content = unpacking.decompress(packed, MOST_BYTES)
        if unpacking.unconsumed_tail:
            raise RecipeError(f"it has more than {MOST_BYTES:,} bytes")
        if not unpacking.eof:
            raise RecipeError(broken)
        return content.decode()
    except (binascii.Error, zlib.error, UnicodeError):
        raise RecipeError(broken) from None


def same_steps(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two links lead to the same work."""
    return [step.to_json() for step in one] == [step.to_json() for step in other]
