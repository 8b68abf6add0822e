"""The entry of a ledger: one site of a pass, or one call of a transformation written by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

from fxopt.core.patch_state import PatchState
from fxopt.graph.exactness import Exactness
from fxopt.graph.index import GraphIndex
from fxopt.recording.patch import Patch


class Repeatable(Protocol):
    """The author of an entry, who can do it again: a pass, a transformation, or the rest of one."""

    def run_again(self, index: GraphIndex, sites: set[str]) -> set[str]:
        """Do it again at `sites`, after something earlier was undone; give those where it applied."""
        ...


@dataclass(frozen=True, eq=False)  # equality would compare modules
class Entry:
    """One site of one pass, or one call of a transformation written by hand, and the patch made there."""

    pass_: Repeatable
    signature: str
    site: str
    exactness: Exactness
    patch: Patch
    state: PatchState = field(default_factory=PatchState)
    """Of the tensors that the patch put in, since it came into force."""

    def renewed(self) -> Entry:
        """Return the entry with the state of its tensors as they are now."""
        return replace(self, state=PatchState.of(self.patch, self.state.noted))

    def __repr__(self) -> str:
        return f"Entry({self.name}{f' at {self.site}' if self.site else ''}, {len(self.patch.changes)} changes)"

    @property
    def name(self) -> str:
        """That of the pass or transformation."""
        return name_of(self.pass_)

    @property
    def id(self) -> str:
        """The same for this site of this pass in every process; see `site_id`."""
        return site_id(self.signature, self.site)


def name_of(act: Repeatable) -> str:
    return str(getattr(act, "name", type(act).__name__))


def site_id(signature: str, anchor: str) -> str:
    """Return the id of the site of a pass at an anchor node: the same in every process and on every machine."""
    return f"{signature[:16]}@{anchor}"
