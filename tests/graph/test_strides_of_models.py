"""Models whose attention reads strides, after their linears were merged."""

from typing import Any

import pytest
import torch

import fxopt
from fxopt import MergeLinears

_SIZES = {"vocab_size": 60, "attention_window": 4, "pad_token_id": 1}
_LED = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
        "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64}  # fmt: skip
_LONGFORMER = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
               "max_position_embeddings": 64}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), [("Longformer", _LONGFORMER), ("LED", _LED)])
def test_sliding_windows_are_read_from_slices_as_from_tensors_of_their_own(name: str, settings: Any) -> None:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**_SIZES, **settings)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = getattr(transformers, f"{name}Model")(config).eval()
    ids = torch.arange(16).reshape(2, 8) + 3
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if name == "LED":
        inputs |= {"decoder_input_ids": ids, "use_cache": False}  # type: ignore[dict-item]
    gm = fxopt.capture(model, kwargs=inputs, allow_baked=True)
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(dict(gm(**inputs)))
        MergeLinears()(gm)
        assert MergeLinears().sites_on(gm)
        found = torch.utils._pytree.tree_leaves(dict(gm(**inputs)))
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
