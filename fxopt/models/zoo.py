"""The models that the picker offers, in its order."""

from __future__ import annotations

from fxopt.errors import ModelError
from fxopt.models.architectures import ARCHITECTURES
from fxopt.models.source import ModelSource
from fxopt.models.teaching import TEACHING
from fxopt.models.trained import TRAINED

ZOO: tuple[ModelSource, ...] = (*TRAINED, *ARCHITECTURES, *TEACHING)


def model_source(key: str) -> ModelSource:
    """Return the model of the zoo with this key, as a recipe or a URL names it."""
    for source in ZOO:
        if source.key == key:
            return source
    raise ModelError(f"no model is called {key!r}; there are {', '.join(source.key for source in ZOO)}")
