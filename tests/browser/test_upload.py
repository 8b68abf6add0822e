"""A model that is uploaded in a real browser, and files that are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from tests.browser.visitor import Open

pytestmark = pytest.mark.browser


def test_a_model_is_uploaded_and_a_pickle_is_refused(visit: Open, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    with torch.random.fork_rng():
        transformers.BertModel(config).save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    visitor = visit()
    page = visitor.page
    visitor.pick("Upload a model (safetensors) …")
    page.get_by_role("button", name="Files …").click()
    field = page.locator(".st-key-upload-form input[type=file]")
    field.set_input_files([tmp_path / "config.json", tmp_path / "pytorch_model.bin"])
    visitor.sees("pytorch_model.bin can run code when it is read, so it stays unread")
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/refused-upload.png")
    visitor.rests()  # the form has a new field then, and the one of before has gone
    field.set_input_files([tmp_path / "config.json", tmp_path / "model.safetensors"])
    visitor.wait("view.subject.startsWith('upload:')")
    expect(page.get_by_role("button", name="Other files …")).to_be_visible()
    if folder := os.environ.get("KEEP_PICTURES"):
        page.screenshot(path=f"{folder}/uploaded.png")
    page.keyboard.press("Escape")
    visitor.switch("MergeLinears")
    visitor.sees_badge("1 site on")
