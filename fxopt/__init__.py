"""Reversible torch.fx graph transformations, explained, and a page to explore them."""

import importlib as _importlib
import typing as _typing

from fxopt import errors as _errors

if _typing.TYPE_CHECKING:
    from fxopt.public import *  # noqa: F403 - each of them is named there
    from fxopt.public import __all__ as __all__
else:

    def __getattr__(name):
        """Import all public names at the first that is asked for: the page is on screen while torch is imported."""
        if name.startswith("__") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        public = _importlib.import_module("fxopt.public")  # `from` would ask here for `public` first
        here = globals()
        here["__all__"] = public.__all__
        here.update({one: getattr(public, one) for one in public.__all__})
        return here[name] if name in here else _errors.renamed(__name__, name, {"bytes_kept": "bytes_retained"})

    def __dir__():
        return sorted({*globals(), *__getattr__("__all__")})
