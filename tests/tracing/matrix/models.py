"""The models of the matrix: architectures of transformers 5, as small as their configs allow, with random weights.

One row is one capture; `ROWS` has them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.tracing import capture, example_inputs
from fxopt.tracing.examples import default_names

_TEXT = {
    "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 60,
    "max_position_embeddings": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
_GROUPED = {**_TEXT, "num_key_value_heads": 1, "head_dim": 16}
_TWO_SIDED = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 60,
    "max_position_embeddings": 96, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 2, "forced_eos_token_id": 2,
}  # fmt: skip
_VISION = {
    "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
_EXPERTS = {**_GROUPED, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
_WAVES = {
    "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48,
    "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "vocab_size": 32,
}  # fmt: skip
_TEXT_TOWER = dict(_TEXT, projection_dim=16)
_VISION_TOWER = dict(_VISION, projection_dim=16)
_WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
_STAGES = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "image_size": 32}


@dataclass(frozen=True)
class Row:
    """A model class of transformers, the settings of its config, and how it is called."""

    architecture: str
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    variant: str = ""
    """The words that tell this row from others of the same class."""
    cache: str = ""
    """For models that keep one: ``none``, or ``filled`` for the step of one token more."""
    rung: str = "symbolic"

    @property
    def name(self) -> str:
        return f"{self.model}, {self.variant}" if self.variant else self.model

    def build(self) -> nn.Module:
        import transformers

        kind = getattr(transformers, self.model)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            model: nn.Module = kind(kind.config_class(**self.settings)).eval()
        return model

    def inputs(self, model: nn.Module, batch: int = 2, sequence: int = 16) -> dict[str, Any]:
        names = default_names(model)
        if self.cache == "filled":
            return example_inputs(model, [*names, "cache"], batch=batch, sequence=sequence)
        given = {"use_cache": False} if self.cache == "none" else {}
        return example_inputs(model, names, batch=batch, sequence=sequence, inputs=given)

    def capture(self, model: nn.Module) -> GraphModule:
        return capture(model, kwargs=self.inputs(model), allow_baked=self.rung == "real")


def _without_cache(*rows: Row) -> tuple[Row, ...]:
    return tuple(replace(row, cache="none") for row in rows)


ENCODERS = (
    Row("bert", "BertModel", _TEXT),
    Row("distilbert", "DistilBertModel", {**_TEXT, "dim": 32, "n_layers": 2, "n_heads": 2, "hidden_dim": 48}),
    Row("roberta", "RobertaModel", _TEXT),
    Row("xlm-roberta", "XLMRobertaModel", _TEXT),
    Row("electra", "ElectraModel", {**_TEXT, "embedding_size": 16}),
    Row("albert", "AlbertModel", {**_TEXT, "embedding_size": 16}),
    Row("mpnet", "MPNetModel", _TEXT),
    Row("deberta-v2", "DebertaV2Model", _TEXT),
    Row("deberta-v2", "DebertaV2Model", {**_TEXT, "relative_attention": True, "position_buckets": 8,
        "pos_att_type": ["c2p", "p2c"], "norm_rel_ebd": "layer_norm", "share_att_key": True}, "relative positions"),
    Row("modernbert", "ModernBertModel", {**_TEXT, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2,
        "layer_types": ["full_attention", "sliding_attention"]}),
    Row("funnel", "FunnelModel", {"block_sizes": [1, 1], "d_model": 32, "n_head": 2, "d_head": 16, "d_inner": 48,
        "vocab_size": 60, "num_decoder_layers": 1}),
    Row("longformer", "LongformerModel", {**_TEXT, "attention_window": 4}, rung="real"),
    Row("lxmert", "LxmertModel", {**_TEXT, "l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 24}),
)  # fmt: skip

DECODERS = _without_cache(
    Row("gpt2", "GPT2Model", {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 60, "n_positions": 96,
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    Row("gpt-neo", "GPTNeoModel", {**_TEXT, "num_layers": 2, "num_heads": 2, "attention_types": [[["global",
        "local"], 1]], "window_size": 8}),
    Row("gpt-j", "GPTJModel", {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 60, "n_positions": 96,
        "rotary_dim": 8, "bos_token_id": 1, "eos_token_id": 2}),
    Row("gpt-neox", "GPTNeoXModel", _TEXT),
    Row("opt", "OPTModel", {**_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    Row("llama", "LlamaModel", _GROUPED),
    Row("mistral", "MistralModel", {**_GROUPED, "sliding_window": 8}),
    Row("qwen2", "Qwen2Model", _GROUPED),
    Row("qwen3", "Qwen3Model", _GROUPED),
    Row("gemma2", "Gemma2Model", {**_GROUPED, "sliding_window": 8, "query_pre_attn_scalar": 16}),
    Row("gemma3", "Gemma3TextModel", {**_GROUPED, "sliding_window": 8, "query_pre_attn_scalar": 16, "layer_types":
        ["sliding_attention", "full_attention"]}),
    Row("phi3", "Phi3Model", {**_GROUPED, "original_max_position_embeddings": 96}),
    Row("falcon", "FalconModel", _TEXT),
    Row("bloom", "BloomModel", {"hidden_size": 32, "n_layer": 2, "n_head": 2, "vocab_size": 60}),
    Row("cohere", "CohereModel", _GROUPED),
    Row("mixtral", "MixtralModel", {**_EXPERTS, "num_local_experts": 4}),
    Row("qwen2-moe", "Qwen2MoeModel", {**_EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 24}),
    Row("mamba", "MambaModel", {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": 60, "state_size": 4,
        "time_step_rank": 4}),
)  # fmt: skip

TWO_SIDED = _without_cache(
    Row("t5", "T5ForConditionalGeneration", {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_heads":
        2, "vocab_size": 60, "decoder_start_token_id": 0}),
    Row("bart", "BartModel", _TWO_SIDED),
    Row("marian", "MarianMTModel", _TWO_SIDED),
    Row("pegasus", "PegasusModel", _TWO_SIDED),
    Row("whisper", "WhisperForConditionalGeneration", {**_TWO_SIDED, "num_mel_bins": 8, "max_source_positions":
        24, "max_target_positions": 96, "suppress_tokens": None, "begin_suppress_tokens": None}),
)  # fmt: skip

VISION = (
    Row("vit", "ViTModel", _VISION),
    Row("deit", "DeiTModel", _VISION),
    Row("beit", "BeitModel", {**_VISION, "use_relative_position_bias": True}),
    Row("dinov2", "Dinov2Model", _VISION),
    Row("swin", "SwinModel", _WINDOWS),
    Row("swinv2", "Swinv2Model", _WINDOWS),
    Row("resnet", "ResNetModel", _STAGES),
    Row("regnet", "RegNetModel", {**_STAGES, "groups_width": 4}),
    Row("convnext", "ConvNextModel", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 32}),
    Row("mobilenet-v2", "MobileNetV2Model", {"image_size": 32, "depth_multiplier": 0.25}),
    Row("mobilevit", "MobileViTModel", {"image_size": 64, "hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8,
        8, 16, 16, 24, 32, 48], "num_attention_heads": 2}),
    Row("segformer", "SegformerModel", {"image_size": 64, "hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1],
        "num_attention_heads": [1, 1, 2, 2], "decoder_hidden_size": 16}),
    Row("levit", "LevitModel", {"image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [1, 2, 3],
        "depths": [1, 1, 1], "key_dim": [8, 8, 8]}),
    Row("poolformer", "PoolFormerModel", {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "image_size": 64}),
    Row("yolos", "YolosModel", {**_VISION, "image_size": [32, 32], "num_detection_tokens": 4}),
    Row("detr", "DetrModel", {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads":
        2, "decoder_attention_heads": 2, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_queries": 4,
        "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config":
        {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "out_features":
        ["stage2"]}}),
    Row("sam", "SamModel", {"vision_config": {**_VISION, "output_channels": 16, "window_size": 2,
        "global_attn_indexes": [1], "num_pos_feats": 8, "mlp_dim": 48}, "prompt_encoder_config": {"hidden_size": 16,
        "image_size": 32, "patch_size": 8, "mask_input_channels": 4, "image_embedding_size": 4},
        "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
        "iou_head_hidden_dim": 16, "iou_head_depth": 2}}),
)  # fmt: skip

MODALITIES = (
    Row("groupvit", "GroupViTModel", {"text_config": _TEXT, "vision_config": {**_VISION, "depths": [2, 2, 2],
        "num_hidden_layers": 6, "num_group_tokens": [8, 4, 0], "num_output_groups": [8, 4, 2]}}),
    Row("clip", "CLIPModel", {"text_config": _TEXT_TOWER, "vision_config": _VISION_TOWER, "projection_dim": 16}),
    Row("siglip", "SiglipModel", {"text_config": _TEXT_TOWER, "vision_config": _VISION_TOWER}),
    Row("blip", "BlipModel", {"text_config": _TEXT_TOWER, "vision_config": _VISION_TOWER, "projection_dim": 16}),
    Row("vilt", "ViltModel", {**_TEXT, **_VISION, "max_image_length": 16, "num_images": 2}, rung="real"),
)  # fmt: skip

AUDIO = (
    Row("wav2vec2", "Wav2Vec2Model", _WAVES),
    Row("hubert", "HubertModel", _WAVES),
    Row("ast", "ASTModel", {**_VISION, "max_length": 32, "num_mel_bins": 16, "frequency_stride": 8, "time_stride": 8}),
)  # fmt: skip

HEADS = {
    "bert": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice"),
    "distilbert": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "roberta": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering", "CausalLM"),
    "electra": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "albert": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "mpnet": ("MaskedLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "modernbert": ("MaskedLM", "SequenceClassification", "TokenClassification"),
    "gpt2": ("SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "llama": ("CausalLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "qwen2": ("CausalLM", "SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "mistral": ("CausalLM", "SequenceClassification"),
    "opt": ("CausalLM", "SequenceClassification", "QuestionAnswering"),
    "bart": ("ConditionalGeneration", "SequenceClassification", "QuestionAnswering"),
    "t5": ("SequenceClassification", "TokenClassification", "QuestionAnswering"),
    "vit": ("ImageClassification",),
    "deit": ("ImageClassification",),
    "swin": ("ImageClassification",),
    "resnet": ("ImageClassification",),
    "convnext": ("ImageClassification",),
    "segformer": ("ImageClassification", "SemanticSegmentation"),
    "yolos": ("ObjectDetection",),
    "wav2vec2": ("CTC", "SequenceClassification"),
}
"""The heads that are captured besides, by architecture; the settings are those of its first row."""


def _with_head(architecture: str, head: str) -> Row:
    bare = next(row for row in BARE if row.architecture == architecture)
    stem = bare.model.removesuffix("Model").partition("For")[0]
    return replace(bare, model=f"{stem}For{head}")


BARE = (*ENCODERS, *DECODERS, *TWO_SIDED, *VISION, *MODALITIES, *AUDIO)
STEPS = tuple(replace(row, variant="next token", cache="filled") for row in (*DECODERS, *TWO_SIDED))
ROWS = (*BARE, *STEPS, *(_with_head(architecture, head) for architecture in HEADS for head in HEADS[architecture]))


def row_of(name: str) -> Row:
    return next(row for row in ROWS if row.name == name)
