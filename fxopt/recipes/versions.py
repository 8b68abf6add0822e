"""The versions of the libraries that a recipe was made with."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata

from fxopt.passes import others_installed

_PACKAGES = ("fxopt", "torch", "transformers")


def versions_here() -> dict[str, str]:
    """Return the versions of Python, of the libraries that decide a result, and of packages with passes, by name."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    for one in others_installed().passes:
        name, _, version = one.package.rpartition(" ")
        found[name] = version
    return found


def other_versions(then: Mapping[str, str]) -> tuple[str, ...]:
    """Return in words which libraries have another version now."""
    here = versions_here()
    pairs = [(name, version, here.get(name, "not there")) for name, version in then.items()]
    return tuple(f"{name} was {version} and is {now}" for name, version, now in pairs if version != now)
