"""Example inputs made from a model's config and signature, and `trace`, which captures with them."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.fx import GraphModule

from fxopt.errors import ArgumentError, expect, expect_model, in_words
from fxopt.tracing.checks import InputError
from fxopt.tracing.documented import documented
from fxopt.tracing.example import CACHES, Example, main_input
from fxopt.tracing.example_any import has_several_kinds
from fxopt.tracing.example_images import companions_of
from fxopt.tracing.example_media import first_taken, is_in_doubt, with_media
from fxopt.tracing.example_rules import RULES
from fxopt.tracing.example_series import SERIES
from fxopt.tracing.ladder import capture
from fxopt.tracing.report import ExampleRefusedError
from fxopt.tracing.shadowed import refuse_shadowed_methods


def trace(
    model: nn.Module,
    input_names: Iterable[str] | None = None,
    disable_check: bool = False,
    tracer_cls: type[fx.Tracer] | None = None,
    *,
    batch: int = 2,
    sequence: int = 16,
    inputs: Mapping[str, Any] | None = None,
    **options: Any,
) -> GraphModule:
    """Capture a transformers model with example inputs of its own making.

    Takes the call of ``transformers.utils.fx.symbolic_trace``; ``disable_check`` is ``verify=False``. Of a
    `tracer_cls`, only ``is_leaf_module`` is asked, for modules that are to stay whole.

    Args:
        batch: the batch of the example; the graph takes others where the model does.
        sequence: its number of tokens.
        inputs: values of your own, by name: tensors in the place of made ones, or others that the model
            takes (``{"use_cache": False}``), nested in lists and dicts or not.
        options: those of `capture`.

    Raises:
        InputError: an input has no rule that makes it, or `input_names` and `inputs` misfit the model.
        ExampleRefusedError: the model raises on the example; the message names the inputs that were made for it.
        CaptureError: see `capture`.
    """
    expect_model(model, "fxopt.trace")
    if isinstance(model, GraphModule) and input_names is None:
        return model
    example = example_inputs(model, input_names, batch=batch, sequence=sequence, inputs=inputs)
    options.setdefault("verify", not disable_check)
    if tracer_cls is not None:
        options.setdefault("leaf", tracer_cls().is_leaf_module)
    try:
        return capture(model, (), example, **options)
    except ExampleRefusedError as error:
        made = ", ".join(f"{name} {_shape(value)}" for name, value in example.items() if name not in (inputs or {}))
        remedy = f"give your own in place of one that was made from the config, {made}: trace(model, inputs={{...}})"
        raise ExampleRefusedError(error.subject, error.rungs, (remedy,) if made else error.remedies) from error


def _shape(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else f"({type(value).__name__})"


def example_inputs(
    model: nn.Module,
    input_names: Iterable[str] | None = None,
    *,
    batch: int = 2,
    sequence: int = 16,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return values for the inputs of a transformers model by name; the same for the same model and sizes.

    Text is random token ids; three of four rows are padded at the end, so that masks matter. Images, waveforms and
    spectrograms are normal noise of the size that the config names. If the names include the model's cache (``cache``,
    ``past_key_values``), it is the cache that the model itself returns for `sequence` tokens, and the other inputs are
    those of the next token.

    Values in `inputs` are taken as they are. Raises `InputError` for a model without a config, and for an input outside
    the rules.
    """
    expect_model(model, "fxopt.example_inputs")
    chosen = _checked_names(input_names)
    expect(inputs, Mapping | None, "fxopt.trace(inputs=...)", "a mapping of values by name")
    if type(model).forward is nn.Module.forward:
        parts = ", ".join(name for name, _ in model.named_children())
        raise InputError(f"{type(model).__name__} has no forward of its own: capture one of its parts, {parts}")
    if getattr(model, "config", None) is None:
        raise InputError(
            f"{type(model).__name__} has no config to make example inputs from: "
            "give an example, as in fxopt.capture(model, args) or fxopt.explore(model, args)"
        )
    given = dict(inputs or {})
    takes = inspect.signature(model.forward).parameters
    names = [*(default_names(model) if chosen is None else chosen), *given]
    names = [_own_name(name, takes) for name in names]
    unknown = [name for name in names if name not in takes and name not in given]
    if unknown:
        raise InputError(f"{type(model).__name__}.forward takes no {', '.join(unknown)}; it takes {', '.join(takes)}")
    refuse_shadowed_methods(model)
    example = with_media(Example(model, batch, sequence, RULES, made=given, given=tuple(given)), names)
    if any(name in CACHES for name in names) and not any(name in CACHES for name in given):
        example = example.after(example_inputs(model, [name for name in names if name not in CACHES], batch=batch,
                                               sequence=sequence, inputs=given))  # fmt: skip
    # in the order of the signature, so that the graph takes them by position as the model does
    ordered = [name for name in itertools.chain(takes, given) if name in names]
    ordered = list(dict.fromkeys(ordered))
    doubtful = next((name for name in ordered if is_in_doubt(example, name)), None)
    if doubtful is not None:
        example, _ = first_taken(example, model, ordered, doubtful)
    return {name: example.value(name) for name in ordered}


def _checked_names(names: Any) -> list[str] | None:
    call, takes = "fxopt.trace(input_names=...)", "a list of names"
    if isinstance(names, str):
        raise ArgumentError(f"{call} takes {takes}; this is {in_words(names)} (write [{names[:40]!r}])")
    expect(names, Iterable | None, call, takes)
    found = None if names is None else list(names)
    for name in found or ():
        if not isinstance(name, str):
            raise ArgumentError(f"{call} takes {takes}; one of these is {in_words(name)}")
    return found


def is_needed(model: nn.Module, name: str) -> bool:
    """Return whether the documentation of forward gives this input a shape, and leaves out "optional"."""
    what = documented(model, name)
    return what is not None and not what.optional


def _own_name(name: str, takes: Mapping[str, Any]) -> str:
    """Return the model's own name for the input: transformers has renamed its cache."""
    if name in CACHES and name not in takes:
        return next((other for other in CACHES if other in takes), name)
    return name


def hears_beside_text(config: Any) -> bool:
    """Return whether a model compares texts with sounds; one whose text has tokens for a sound reads text alone."""
    hears = hasattr(config, "audio_config") or hasattr(config, "speech_config")
    has_token = any(hasattr(config, name) for name in ("audio_token_id", "audio_token_index"))
    return hears and hasattr(config, "text_config") and not has_token


def default_names(model: nn.Module) -> list[str]:
    """Return the inputs that the model needs: its main one, its mask, all modalities, the decoder's."""
    takes = inspect.signature(model.forward).parameters
    config: Any = model.config
    main = main_input(model) or next(iter(takes))
    names = [name for name in ([main] if isinstance(main, str) else main) if name in takes]  # a list in OneFormer
    names = names or [next(iter(takes))]  # the class says none of its own
    sees = any(hasattr(config, name) for name in ("patch_size", "vision_config", "backbone_config"))
    both = sees and (hasattr(config, "text_config") or hasattr(config, "vocab_size"))
    if both and "input_ids" in takes and "pixel_values" in takes:
        names = ["input_ids", "pixel_values"]
    if hears_beside_text(config) and "input_ids" in takes and "input_features" in takes:
        names = ["input_ids", "input_features"]
    if "input_ids" in names and "attention_mask" in takes:
        names.append("attention_mask")
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in takes:
        names.append("decoder_input_ids")
    fixed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [name for name, each in takes.items() if each.default is each.empty and each.kind not in fixed]
    needed += [name for name in ("visual_feats", "visual_pos") if name in takes]
    if "subsampled_output_points" in takes and has_several_kinds(model):
        needed.append("subsampled_output_points")
    if "pixel_values" in names:
        needed += [name for name in companions_of(model) if name in takes and "video" not in name]
    if names[0] == "input_features":
        needed += [name for name in ("input_features_mask",) if name in takes]
    if names[0] == "query_embeds" and "encoder_hidden_states" in takes:  # a Q-former reads an image through them
        needed.append("encoder_hidden_states")
    if names[0] not in ("input_ids", "pixel_values", "input_values", "input_features"):
        needed += [name for name in takes if name != "labels" and is_needed(model, name)]
    on_paper = {"input_ids", "pixel_values"} <= set(names)  # a picture of a page, and where its words are on it
    needed += [name for name in ("bbox",) if name in takes and (on_paper or is_needed(model, name))]
    if "past_values" in names:
        needed += [name for name in SERIES if name in takes and hasattr(config, "num_time_features")]
    return [*names, *(name for name in needed if name not in names)]
