"""Passes and rules of other packages, which name them by the entry point group ``fxopt.passes``."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from fxopt.core import Pass
from fxopt.errors import FxoptError, warn
from fxopt.rules import Rule

GROUP = "fxopt.passes"
"""The entry points of a package are its passes, each under its own name: ``Name = "module:Name"``."""


@dataclass(frozen=True)
class InstalledPass:
    """A pass of another package."""

    kind: type[Pass[Any]]
    package: str
    """The name and version of the package, such as ``tiny-passes 0.1``."""


@dataclass(frozen=True)
class Refused:
    """An entry point that is left out."""

    name: str
    package: str
    reason: str
    """The fault and the remedy, in a clause."""

    def __str__(self) -> str:
        return f"the pass {self.name} of {self.package} is left out: {self.reason}"


@dataclass(frozen=True)
class InstalledPasses:
    """The passes of other packages, in the order of their packages and names, and the entry points left out."""

    passes: tuple[InstalledPass, ...] = ()
    refused: tuple[Refused, ...] = ()

    @property
    def kinds(self) -> tuple[type[Pass[Any]], ...]:
        return tuple(one.kind for one in self.passes)

    def package_of(self, pass_: Pass[Any]) -> str:
        """Return the package that brings a pass, or an empty string."""
        return next((one.package for one in self.passes if isinstance(pass_, one.kind)), "")

    def __str__(self) -> str:
        return ", ".join(f"{one.kind.__name__} ({one.package})" for one in self.passes)


_found: InstalledPasses | None = None
_lock = threading.RLock()
_is_reading = False


def installed_passes(taken: Collection[str]) -> InstalledPasses:
    """Return the passes that other packages bring, imported once in a process; then each refusal is warned of.

    Args:
        taken: the names of the built-in passes.
    """
    global _found, _is_reading
    with _lock:
        if _found is not None or _is_reading:  # a package that makes a workbench while it is imported has no more yet
            return _found or InstalledPasses()
        _is_reading = True
        try:
            _found = _read(taken)
        finally:
            _is_reading = False
    for one in _found.refused:
        warn(str(one))
    return _found


def _read(taken: Collection[str]) -> InstalledPasses:
    passes: list[InstalledPass] = []
    refused: list[Refused] = []
    homes = dict.fromkeys(taken, "fxopt")
    for point in sorted(entry_points(group=GROUP), key=lambda point: (_package_of(point), point.name)):
        package = _package_of(point)
        reason, kind = "", None
        if point.name in homes:
            reason = f"{homes[point.name]} has a pass of this name; give it another one"
        else:
            try:
                kind = _pass_of(point)
            except FxoptError as error:
                reason = str(error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others; fxopt goes on without it
                reason = f"it cannot be imported from {point.value} ({type(error).__name__}: {error})"
        if kind is None:
            refused.append(Refused(point.name, package, reason))
        else:
            homes[point.name] = package
            passes.append(InstalledPass(kind, package))
    return InstalledPasses(tuple(passes), tuple(refused))


def _package_of(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value.partition(":")[0]


def _pass_of(point: EntryPoint) -> type[Pass[Any]]:
    """Return the class of the pass that an entry point leads to.

    Raises:
        FxoptError: it leads to something else.
    """
    for reason in _faults(point.name, found := point.load()):
        raise FxoptError(reason)
    return type(found) if isinstance(found, Rule) else found


def _faults(name: str, found: Any) -> Iterator[str]:
    """Yield the reasons for which an object is no pass of the registry."""
    kind: Any = type(found) if isinstance(found, Rule) else found
    if not (isinstance(kind, type) and issubclass(kind, Pass)):
        yield f"a {type(found).__name__} is no pass; name a subclass of fxopt.Pass, or a rule"
        return
    if kind.__name__ != name:
        yield f"its own name is {kind.__name__}; name the entry point so"
    try:
        made = kind()
    except TypeError as error:
        yield f"it cannot be made without arguments ({error}); give each a default"
        return
    if made.name != name:
        yield f"it calls itself {made.name}; leave `name` as it is"
