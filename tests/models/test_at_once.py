"""Models that are built at the same time, and beside captures: each is as if it were alone, and so is the process."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fxopt.errors import CancelledError, FxoptWarning
from fxopt.models import LocalFolder, model_source
from fxopt.process.news import news_to
from fxopt.process.one_at_a_time import one_at_a_time
from fxopt.tracing import capture

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Very small language models, with and without tied embeddings, in two precisions."""
    root = tmp_path_factory.mktemp("folders")
    sizes = {
        "vocab_size": 200,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    with torch.random.fork_rng():
        for tied in (True, False):
            for dtype in (torch.bfloat16, torch.float32):
                config = transformers.LlamaConfig(**sizes, tie_word_embeddings=tied, dtype=dtype)
                folder = root / f"{'tied' if tied else 'untied'} {dtype}".replace("torch.", "")
                transformers.LlamaForCausalLM(config).to(dtype).save_pretrained(folder)
    return {folder.name: folder for folder in root.iterdir()}


def facts_of(model: nn.Module) -> tuple[int, set[torch.dtype]]:
    return sum(parameter.numel() for parameter in model.parameters()), {each.dtype for each in model.parameters()}


def run_at_once(acts: list[Callable[[], Any]]) -> list[Any]:
    """The results of `acts`, begun at the same moment in threads of their own; an error is a result."""
    ready, results = threading.Barrier(len(acts)), [None] * len(acts)

    def run(index: int) -> None:
        ready.wait(60)
        try:
            results[index] = acts[index]()
        except Exception as error:  # noqa: BLE001 - it would end unseen in its thread
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    return results


def everything_patched() -> tuple[Any, ...]:
    return (
        torch.get_default_dtype(),
        transformers.PreTrainedModel.tie_weights,
        transformers.PreTrainedModel.init_weights,
        torch.linspace,
        torch.nn.init.normal_,
        torch.nn.modules.linear.init.kaiming_uniform_,
        nn.Module.__call__,
        torch.is_grad_enabled(),
    )


@pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_builds_and_captures_at_once_are_as_if_alone(folders: dict[str, Path], times: int) -> None:
    before = everything_patched()
    alone = {name: facts_of(LocalFolder(folder).build()) for name, folder in folders.items()}
    assert alone["tied bfloat16"] == (alone["untied bfloat16"][0] - 200 * 32, {torch.bfloat16})
    digits = model_source("digits_transformer")
    model = digits.build()
    args, kwargs = digits.inputs(model)
    nodes = len(capture(model, args, kwargs).graph.nodes)

    def build(folder: Path) -> Callable[[], Any]:
        return lambda: facts_of(LocalFolder(folder).build())

    def capture_digits() -> int:
        return len(capture(model, args, kwargs).graph.nodes)

    for _ in range(times):
        results = run_at_once([*map(build, folders.values()), capture_digits, lambda: facts_of(digits.build())])
        assert results == [*alone.values(), nodes, facts_of(model)]
        assert everything_patched() == before
    tiny = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=11)
    head = transformers.GPT2LMHeadModel(tiny)
    assert head.lm_head.weight is head.transformer.wte.weight


def test_who_waits_for_another_model_is_told_and_may_give_up() -> None:
    entered, done = threading.Event(), threading.Event()

    def hold() -> None:
        with one_at_a_time():
            entered.set()
            assert done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(60)
    told: list[str] = []

    def listener(stage: str) -> bool:
        told.append(stage)
        return len(told) < 3

    try:
        with news_to(listener), pytest.raises(CancelledError, match="waiting for another model"):
            model_source("digits_conv_net").build()
    finally:
        done.set()
        thread.join(60)
    assert told == ["waiting for another model"] * 3
    with one_at_a_time(waiting=lambda: pytest.fail("who gave up has it still")), one_at_a_time():
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_library_leaves_changed_is_brought_back_and_named(fails: bool) -> None:
    before = everything_patched()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with one_at_a_time():
                torch.set_default_dtype(torch.bfloat16)
                torch.set_grad_enabled(False)
                transformers.PreTrainedModel.tie_weights = lambda self: None
                torch.nn.init.normal_ = torch.linspace = print  # type: ignore[assignment]
                if fails:
                    raise RuntimeError("in the middle")
        except RuntimeError:
            assert fails
    assert everything_patched() == before
    (warning,) = caught
    assert warning.category is FxoptWarning
    for name in ("the default dtype", "the grad mode", "PreTrainedModel.tie_weights", "init.normal_", "torch.linspace"):
        assert name in str(warning.message)
