"""Configs of transformers made small: the sizes of a model go down together, so that it still runs."""

from __future__ import annotations

from typing import Any

_SMALL = {
    "hidden_size": 64, "d_model": 64, "n_embd": 64, "embed_dim": 64, "dim": 64, "embedding_size": 64,
    "projection_dim": 64, "projection_size": 64, "out_hidden_size": 64, "encoder_hidden_size": 64,
    "vision_output_dim": 64, "projector_input_dim": 64, "projector_output_dim": 64, "rotary_dim": 16,
    "mm_tokens_per_image": 4, "word_embed_proj_dim": 64,
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
"""The most that a config gets for this setting."""


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
        _set_rotation(part)
        _set_image_size(part)
    _set_special_tokens(config)
    return config


def _set(config: Any, small: dict[str, int]) -> None:
    stages = hasattr(config, "depths") or hasattr(config, "stage_names")
    for name, value in small.items():
        now = getattr(config, name, None)
        if type(now) is int and now > value and not (stages and name.endswith("layers")):
            setattr(config, name, value)
    layers = next((getattr(config, name) for name in ("num_hidden_layers", "n_layer") if hasattr(config, name)), None)
    for name, value in vars(config).items():
        if name in ("layer_types", "mlp_layer_types", "layers_block_type") and isinstance(value, list) and layers:
            kinds = list(dict.fromkeys(reversed(value)))
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
    if type(getattr(config, "qk_rope_head_dim", None)) is int and "head_dim" in before:
        config.head_dim = config.qk_rope_head_dim  # of these, the part of a head that is rotated
    if type(getattr(config, "attn_layer_period", None)) is int:  # every second layer of Jamba attends
        config.attn_layer_period, config.attn_layer_offset = 2, 1
    for name in ("attn_layer_indices", "cross_attention_layers", "intermediate_layers_indices"):
        if hasattr(config, name):
            setattr(config, name, [1])
    if hasattr(config, "intermediate_layers_indices"):  # Mllama reads these layers beside the last
        config.vision_output_dim = 2 * config.hidden_size
    if hasattr(config, "patch_embeds_hidden_size"):  # CLAP's width doubles at each stage
        config.hidden_size = config.patch_embeds_hidden_size * 2 ** (len(config.depths) - 1)
    if hasattr(config, "vision_feature_layers"):
        config.vision_feature_layers = [-1, -2]
    if hasattr(config, "cross_attention_hidden_size"):
        config.cross_attention_hidden_size = config.hidden_size
    if type(getattr(config, "num_heads", None)) is int and hasattr(config, "expand"):  # Mamba 2
        config.head_dim = int(config.expand * config.hidden_size) // config.num_heads


def _set_rotation(config: Any) -> None:
    """Share the rotated part of a head among time, height and width."""
    rope = getattr(config, "rope_parameters", None)
    if not isinstance(rope, dict) or not rope or any(isinstance(value, dict) for value in rope.values()):
        return
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rotated = int(width * (rope.get("partial_rotary_factor") or 1)) // 2
    rope["mrope_section"] = [rotated - 2 * (3 * rotated // 8), 3 * rotated // 8, 3 * rotated // 8]


def _set_special_tokens(config: Any) -> None:
    """Give each special token beyond the vocabulary one of its own, the same in all parts."""
    parts = parts_of(config)
    sizes = [part.vocab_size for part in parts if type(getattr(part, "vocab_size", None)) is int]
    names = [(part, name, value) for part in parts for name, value in list(vars(part).items())]
    moved: dict[str, int] = {}
    for part, name, value in names:
        if name in ("image_token_id", "image_token_index") and value is None and sizes:
            setattr(part, name, moved.setdefault(name, min(sizes) - 1 - len(moved)))
        if name.endswith(("_token_id", "_token_index")) and type(value) is int and sizes and value >= min(sizes):
            setattr(part, name, moved.setdefault(name, min(sizes) - 1 - len(moved)))


def _set_image_size(config: Any) -> None:
    patch, image = getattr(config, "patch_size", None), getattr(config, "image_size", None)
    if type(patch) is int and type(image) is int and image > 4 * patch:
        config.image_size = max(4 * patch, 32)
    if hasattr(config, "image_grid_pinpoints"):
        size = config.vision_config.image_size
        config.image_grid_pinpoints = [[size, 2 * size], [2 * size, size]]
