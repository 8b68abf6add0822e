"""The versions of the libraries that a recipe was made with."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata

_PACKAGES = ("fxopt", "torch", "transformers")


def versions_here() -> dict[str, str]:
    """Return the versions of Python and of the installed libraries that decide a result, by name."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def other_versions(then: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words which libraries have another version now."""
    here = versions_here()
    pairs = [(name, version, here.get(name, "not there")) for name, version in then.items()]
    return tuple(f"{name} was {version} and is {now}" for name, version, now in pairs if version != now)
