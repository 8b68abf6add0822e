"""Source of models: a folder with the config.json and the safetensors of a transformers model.

The folder may come from a stranger, so none of its contents is run or unpickled. The weights are read here, by
safetensors, from files whose names are checked, and transformers gets tensors and a config from which every setting
that names code, files or adapters has been taken out. It never sees the folder.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.errors import CancelledError, ModelError, warn
from fxopt.models.child import fit_in_child
from fxopt.models.dry_run import BuildGuard, Fit, described, is_about_size, most_elements, most_tensors
from fxopt.models.hugging_face import (
    cached_folder,
    example_call,
    longest_sequence,
    parts_in,
    transformers_module,
    without_bars,
)
from fxopt.models.plausible import check_layers, is_deep, is_ordinary
from fxopt.models.source import Inputs, SizeRange, Sizes
from fxopt.models.stored_weights import PRECISE, StoredTensor, headers_of, short, tensors_of
from fxopt.process.defaults import changing_defaults
from fxopt.process.memory import check_memory
from fxopt.process.news import tell
from fxopt.process.one_at_a_time import one_at_a_time
from fxopt.tracing.documented import parts_of

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_MOST_JSON = 64 * 2**20
"""Bytes of a JSON file: the index of the largest released models has some."""
_MOST_NAME = 255
"""Bytes of the name of a file, on every file system in use."""
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_NAMES_CODE_OR_FILES = {"auto_map", "custom_pipelines", "transformers_weights", "fusion_config"}

_HEADS_THAT_LOOK = ("ForImageClassification", "ForOpticalFlow")
"""Heads of models that have no sequence, even if their config has other counts."""


@dataclass(frozen=True)
class LocalFolder:
    """A model of a known transformers architecture in a local folder, with the weights that lie there."""

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))

    @property
    def key(self) -> str:
        return f"folder:{self.path}"

    @property
    def title(self) -> str:
        return self.path.name

    @property
    def description(self) -> str:
        kind = self._config().get("model_type")
        return f"A {kind} model with the weights of {self.path}, read as safetensors; no code of it is run."

    @property
    def sizes(self) -> Sizes:
        config = self._config()
        looks = any(head in str(config.get("architectures")) for head in _HEADS_THAT_LOOK)
        longest = None if looks else longest_sequence(config)
        if longest is None:
            sees = looks or "image_size" in config or "num_channels" in config
            return Sizes(SizeRange(1, most=32), None if sees else SizeRange(32, most=512))
        return Sizes(SizeRange(1, most=32), SizeRange(min(32, longest), most=min(longest, 4096)))

    def build(self, fit: Fit | None = None) -> nn.Module:
        """Return the model in eval mode.

        Every fault in names, shapes and types is reported before a number is read, where `checked_fit` has not done so.

        Raises:
            ModelError: a weight is missing in the folder, or differs from its description in the config, or the memory
                that building takes is not free.
            CancelledError: the listener to the news asked for the end.
        """
        fit = fit or self.checked_fit()
        files = self._weight_files()
        stored = self._stored(self._config(), files)
        with one_at_a_time():  # another build would take the memory that is found free here
            check_memory(f"{self.path}: to build it takes", fit.building_bytes)
            weights = tensors_of(files)
            model, found = self._loaded(weights, BuildGuard(most_tensors(stored)))
        fit = Fit.of(model, found, stored)
        self._check_fit(fit)
        self._warn_of(fit, weights)
        return model.eval()

    @property
    def is_ordinary(self) -> bool:
        """Whether all sizes of the config are small enough to read it and to build from it in a moment."""
        return is_ordinary(self._config())

    def checked_fit(self) -> Fit:
        """Return how config and weights fit, which takes no memory for weights, and can be cancelled at any tensor.

        Raises:
            ModelError: a weight is missing in the folder, or differs from its description in the config.
            CancelledError: the listener to the news asked for the end.
        """
        fit = self.fit() if self.is_ordinary else fit_in_child(self.path)
        self._check_fit(fit)
        return fit

    def fit(self) -> Fit:
        """Return how config and weights fit, by a dry run on torch's meta device, which allocates no weight."""
        stored = self._stored(self._config(), self._weight_files())
        guard = BuildGuard(most_tensors(stored), dry=True)
        try:
            model, found = self._loaded(described(stored), guard)
        except ModelError:
            if not guard.is_done or guard.elements > most_elements(stored):
                raise
            # The architecture itself was built, and is no larger than its weights: its computations on their numbers
            # need them.
            size = sum(each.bytes for each in stored.values())
            return Fit("", 0, size, 2 * size)
        return Fit.of(model, found, stored)

    def _stored(self, config: dict[str, Any], files: list[Path]) -> dict[str, StoredTensor]:
        stored = headers_of(files)
        try:
            check_layers(config, len(stored))
        except ModelError as error:
            raise ModelError(f"{self.path}: {error}") from None
        return stored

    def _loaded(self, weights: dict[str, Tensor], guard: BuildGuard) -> tuple[nn.Module, dict[str, Any]]:
        """Return the model that transformers makes of `weights`, and its report on the loading."""
        kind, settings = self._architecture(transformers_module(), self._config())
        try:
            # a weight that the folder lacks is drawn before that is reported
            with changing_defaults(), without_bars(), torch.random.fork_rng(devices=[]), guard:
                model, found = kind.from_pretrained(
                    None,
                    config=settings,
                    state_dict=weights,
                    ignore_mismatched_sizes=True,
                    output_loading_info=True,
                )
        except CancelledError:
            raise
        except Exception as error:  # each architecture has checks and errors of its own
            reason = "its config.json asks for sizes that no memory holds" if is_about_size(error) else str(error)
            raise ModelError(f"{self.path}: {kind.__name__} cannot be built from it: {reason}") from error
        return model, found

    def inputs(self, model: nn.Module, batch: int | None = None, sequence: int | None = None) -> Inputs:
        return example_call(model, *self.sizes.checked(self.title, batch, sequence))

    def _config(self) -> dict[str, Any]:
        file = self.path / "config.json"
        try:
            is_folder, has_config = self.path.is_dir(), file.is_file()
        except OSError as error:
            raise ModelError(f"{self.path}: it cannot be read ({error.strerror}); give another folder") from error
        if not is_folder:
            raise ModelError(f"{self.path}: there is no such folder; give one with config.json and *.safetensors")
        if not has_config:
            raise ModelError(f"{self.path}: it has no config.json, which names the architecture")
        config = _json(file)
        if not isinstance(config.get("model_type"), str):
            raise ModelError(f"{file}: it has no model_type; fxopt needs one that transformers knows, as 'bert'")
        if is_deep(config):
            raise ModelError(f"{file}: its lists and objects are nested too deeply")
        if config.get("quantization_config") or any(part.get("quantization_config") for part in parts_in(config)):
            raise ModelError(f"{file}: its weights are quantized; give a folder with plain ones")
        return config

    def _architecture(self, transformers: Any, config: dict[str, Any]) -> tuple[Any, Any]:
        """Return the model class that the config names, and its settings as an object."""
        known = transformers.CONFIG_MAPPING
        model_type = config["model_type"]
        if model_type not in known:
            raise ModelError(
                f"{self.path}: transformers {transformers.__version__} does not know model_type {model_type!r}; "
                "fxopt runs no code from a folder, so only architectures of transformers can be loaded"
            )
        try:
            settings = known[model_type].from_dict(_harmless(config))
        except Exception as error:  # each architecture has checks and errors of its own
            reason = "it asks for sizes that no memory holds" if is_about_size(error) else error
            raise ModelError(f"{self.path}/config.json does not fit {model_type}: {reason}") from error
        for each in (settings, *(part for part in parts_of(settings).values() if hasattr(part, "use_cache"))):
            each.use_cache = False  # its outputs are tensors rather than objects that hold keys and values
        names = config.get("architectures")
        if not names:
            kind = transformers.MODEL_MAPPING.get(type(settings), None)
            kind = kind[0] if isinstance(kind, tuple) else kind
            if kind is None:  # a pair of encoder and decoder has one class
                kind = getattr(transformers, type(settings).__name__.removesuffix("Config") + "Model", None)
        else:
            kind = getattr(transformers, str(names[0]), None) if isinstance(names, list) else None
        is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
        if not is_model or not isinstance(settings, kind.config_class or ()):
            raise ModelError(
                f"{self.path}/config.json: architectures is {names!r}, and has to be a {model_type} model of "
                f"transformers {transformers.__version__}"
            )
        return kind, settings

    def _weight_files(self) -> list[Path]:
        if (self.path / _WEIGHTS).is_file():
            return [self.path / _WEIGHTS]
        if not (self.path / _INDEX).is_file():
            raise ModelError(f"{self.path}: it has no {_WEIGHTS}" + self._instead())
        index = _json(self.path / _INDEX).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise ModelError(f"{self.path / _INDEX}: it has no weight_map, which says which file has which weight")
        names = sorted({str(name) for name in index.values()})
        for name in names:
            if Path(name).name != name or not name.endswith(".safetensors") or len(name.encode()) > _MOST_NAME:
                raise ModelError(
                    f"{self.path / _INDEX}: it names {short(name)!r}, and has to name safetensors files of the folder"
                )
            if not (self.path / name).is_file():
                raise ModelError(f"{self.path}: {name} is missing, which {_INDEX} names; fetch it again")
        return [self.path / name for name in names]

    def _instead(self) -> str:
        pickles = sorted(file.name for pattern in _PICKLES for file in self.path.glob(pattern))
        if pickles:
            return (
                f", only {', '.join(pickles)}: such a file can run code when it is read, so fxopt does not; "
                "save the model again with model.save_pretrained(folder), which writes safetensors"
            )
        if (self.path / "adapter_config.json").is_file():
            return ", only an adapter: merge it into its base model and save that"
        others = sorted(file.name for file in self.path.glob("*.safetensors"))
        return f", only {', '.join(others)}: rename the one to load" if others else " or any other weights"

    def _check_fit(self, fit: Fit) -> None:
        mismatched = [
            f"{short(name)} ({_sizes(stored)} stored, {_sizes(needed)} needed)"
            for name, stored, needed in fit.mismatched
        ]
        for fault, names in (("are of other shapes", mismatched), ("are missing", [*map(short, fit.missing)])):
            if names:
                raise ModelError(
                    f"{self.path}: {len(names)} weights of {fit.kind} {fault}: {_some(names)}; "
                    "fxopt does not make weights up. Do config.json and the weights belong together?"
                )

    def _warn_of(self, fit: Fit, weights: dict[str, Tensor]) -> None:
        broken = sorted(name for name, each in weights.items() if each.dtype in PRECISE and not _is_finite(each))
        for fault, names in (
            (f"{fit.kind} has no place for {len(fit.unexpected)} stored weights", fit.unexpected),
            (
                f"{len(fit.quantized)} weights of {fit.kind} are stored as integers or in 8 bits, and are taken as "
                "the numbers that they say",
                fit.quantized,
            ),
            (f"{len(broken)} stored weights hold NaN or infinite numbers, and so will its answers", broken),
        ):
            if names:
                warn(f"{self.path}: {fault}: {_some([*map(short, names)])}")


def _is_finite(weight: Tensor) -> bool:
    tell("looking at its numbers")
    return bool(weight.isfinite().all())


@dataclass(frozen=True)
class CachedModel(LocalFolder):
    """A model of the Hugging Face hub that lies in the cache on this machine; nothing is fetched."""

    model_id: str = ""

    @classmethod
    def of(cls, model_id: str) -> CachedModel:
        """Return the model of an id, ``owner/name``.

        Raises:
            ModelError: it is not in the cache.
        """
        return cls(cached_folder(model_id), model_id)

    @property
    def title(self) -> str:
        return self.model_id


def name_of(source: LocalFolder) -> str:
    """Return the id of a model in the cache of Hugging Face; the path of any other folder."""
    return source.model_id if isinstance(source, CachedModel) else str(source.path)


def _json(file: Path) -> dict[str, Any]:
    try:
        size = file.stat().st_size
        content = json.loads(file.read_text(encoding="utf-8")) if size <= _MOST_JSON else None
    except RecursionError as error:
        raise ModelError(f"{file}: its lists and objects are nested too deeply to be read") from error
    except (ValueError, OSError) as error:  # bad UTF-8 and bad JSON are ValueErrors
        raise ModelError(f"{file}: it cannot be read as JSON ({error})") from error
    if size > _MOST_JSON:
        raise ModelError(f"{file}: it has {size:,} bytes, more than the {_MOST_JSON:,} that such a file may have")
    if not isinstance(content, dict):
        raise ModelError(f"{file}: it is JSON, and has to be an object with names and values")
    return content


def _harmless(config: Any) -> Any:
    """Return the config without settings that name code, files or kernels to fetch, at any depth."""
    if isinstance(config, list):
        return [_harmless(value) for value in config]
    if not isinstance(config, dict):
        return config
    return {
        name: _harmless(value)
        for name, value in config.items()
        if name not in _NAMES_CODE_OR_FILES and not name.endswith(("_implementation", "_implementation_internal"))
    }


def _sizes(shape: Any) -> str:
    return " x ".join(map(str, shape))


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
