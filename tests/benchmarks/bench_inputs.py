"""Which model types of transformers get example inputs: `python -m tests.benchmarks.bench_inputs`.

Each type of `MODEL_MAPPING` is built from its own config class, shrunk. A type counts as built where one of the
attempts gives a model of at most 100 million parameters; as having inputs where the model runs on what `example_inputs`
makes; as captured where `fxopt.capture` takes them. A line for each type that lacks one says why, on standard error.
Names of types limit it to these; `--capture` captures, too.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fxopt.capture import CaptureError, InputError, capture, example_inputs

_MOST_PARAMETERS = 100_000_000
_SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "embed_dim": 64, "dim": 64, "embedding_size": 64,
    "projection_dim": 32,
    "num_attention_heads": 4, "n_head": 4, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "num_heads": 4,
    "attention_heads": 4, "n_heads": 4, "head_dim": 16, "intermediate_size": 96, "encoder_ffn_dim": 96,
    "decoder_ffn_dim": 96, "ffn_dim": 96, "d_ff": 96, "d_kv": 16, "n_inner": 96, "mlp_dim": 96,
    "moe_intermediate_size": 48,
    "shared_expert_intermediate_size": 48, "num_hidden_layers": 2, "n_layer": 2, "n_layers": 2, "num_layers": 2,
    "encoder_layers": 2, "decoder_layers": 2, "num_decoder_layers": 2, "depth": 2, "vocab_size": 300,
    "num_experts": 4,
    "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "num_queries": 8, "q_lora_rank": 16,
    "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, "decoder_hidden_size": 64,
    "max_position_embeddings": 512, "num_query_tokens": 4, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
}  # fmt: skip
"""What a config of this setting gets, where it has more."""


@dataclass(frozen=True)
class Result:
    """What became of one model type."""

    name: str
    stage: str  # "not built", "no inputs", "does not run", "not captured", "captured" or "has inputs"
    reason: str = ""
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--capture", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    for name, kinds in model_types():
        if options.names and name not in options.names:
            continue
        result = measured(name, kinds, options.capture)
        counts[result.stage] += 1
        if result.reason or options.names:
            sys.stderr.write(f"{result.stage} | {name} | {result.seconds:.1f} s | {result.reason}\n")
        gc.collect()
    print(", ".join(f"{stage}: {count}" for stage, count in counts.most_common()))


def model_types() -> Iterator[tuple[str, tuple[Any, Any]]]:
    import transformers
    from transformers.utils import logging

    logging.set_verbosity_error()
    for config_kind in transformers.MODEL_MAPPING:
        kind = transformers.MODEL_MAPPING[config_kind]
        yield config_kind.model_type, (config_kind, kind[0] if isinstance(kind, tuple) else kind)


def measured(name: str, kinds: tuple[Any, Any], captures: bool) -> Result:
    """The result of the attempt that comes furthest."""
    best = Result(name, "not built")
    for shrink in (shrunk, with_few_layers):
        try:
            model = built(*kinds, shrink)
        except Exception as error:  # noqa: BLE001  each config has checks of its own
            best = Result(name, best.stage, best.reason or told(error))
            continue
        result = tried(name, model, captures)
        if result.stage in ("captured", "has inputs"):
            return result
        if best.stage == "not built":
            best = result
    return best


def built(config_kind: Any, kind: Any, shrink: Any) -> nn.Module:
    config = shrink(config_kind())
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(config).parameters())
    if count > _MOST_PARAMETERS:
        raise ValueError(f"{count:,} parameters are too many for this script")
    torch.manual_seed(0)
    model: nn.Module = kind(shrink(config_kind())).eval()
    return model


def tried(name: str, model: nn.Module, captures: bool) -> Result:
    begun = time.process_time()
    try:
        inputs = example_inputs(model)
    except InputError as error:
        return Result(name, "no inputs", told(error))
    except Exception as error:  # noqa: BLE001  whatever it is, it is told
        return Result(name, "no inputs", f"RAW {told(error)}")
    try:
        with torch.no_grad():
            model(**inputs)
    except Exception as error:  # noqa: BLE001
        return Result(name, "does not run", f"{shapes(inputs)}: {told(error)}")
    if not captures:
        return Result(name, "has inputs")
    try:
        report = capture(model, (), inputs).meta["fxopt"]
    except CaptureError as error:
        return Result(name, "not captured", str(error).replace("\n", " ")[:700], time.process_time() - begun)
    except Exception as error:  # noqa: BLE001
        return Result(name, "not captured", f"RAW {told(error)}", time.process_time() - begun)
    tries = "; ".join(map(str, report.tried))[:300]
    lower = f"rung {report.rung}: {tries}" if report.rung == "fixed" else ""
    return Result(name, "captured", lower, time.process_time() - begun)


def shapes(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value.shape) if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def told(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


# ------------------------------------------------------------ configs
def parts_of(config: Any) -> list[Any]:
    """The config and those of its parts."""
    inner = [value for value in vars(config).values() if hasattr(value, "model_type") and hasattr(value, "to_dict")]
    return [config, *(part for each in inner for part in parts_of(each))]


def with_few_layers(config: Any) -> Any:
    """The config with two layers of each kind, else as its class has it."""
    layers = {name: value for name, value in _SMALL.items() if "layer" in name or name == "depth"}
    for part in parts_of(config):
        _set(part, layers)
    return config


def shrunk(config: Any) -> Any:
    for part in parts_of(config):
        before = dict(vars(part))
        _set(part, _SMALL)
        _set_heads(part, before)
        _set_image_size(part)
    for part in parts_of(config):
        _set_special_tokens(part)
    return config


def _set(config: Any, small: dict[str, int]) -> None:
    for name, value in small.items():
        now = getattr(config, name, None)
        if type(now) is int and now > value:
            setattr(config, name, value)
    layers = next((getattr(config, name) for name in ("num_hidden_layers", "n_layer") if hasattr(config, name)), None)
    for name, value in vars(config).items():
        if name in ("layer_types", "mlp_layer_types", "layers_block_type") and isinstance(value, list) and layers:
            kinds = list(dict.fromkeys(value))
            setattr(config, name, (kinds * layers)[:layers])
        elif name == "depths" and isinstance(value, (list, tuple)):
            setattr(config, name, type(value)(min(depth, 1) for depth in value))


def _set_heads(config: Any, before: dict[str, Any]) -> None:
    heads = getattr(config, "num_attention_heads", None)
    if type(getattr(config, "num_key_value_heads", None)) is int and type(heads) is int:
        was = before.get("num_attention_heads")
        config.num_key_value_heads = heads if before.get("num_key_value_heads") == was else 2
    for name in ("encoder_num_attention_heads", "decoder_num_attention_heads"):
        if type(getattr(config, name, None)) is int:
            setattr(config, name, 4)


def _set_special_tokens(config: Any) -> None:
    size = getattr(config, "vocab_size", None) or getattr(getattr(config, "text_config", None), "vocab_size", None)
    if type(size) is not int:
        return
    taken = 0
    for name, value in list(vars(config).items()):
        if name.endswith(("_token_id", "_token_index")) and type(value) is int and value >= size:
            taken += 1
            setattr(config, name, size - taken)


def _set_image_size(config: Any) -> None:
    patch, image = getattr(config, "patch_size", None), getattr(config, "image_size", None)
    if type(patch) is int and type(image) is int and image > 4 * patch:
        config.image_size = 4 * patch


if __name__ == "__main__":
    main()
