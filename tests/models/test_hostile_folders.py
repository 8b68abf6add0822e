"""Folders whose config and weights do not belong together, or hold no numbers: said before they are read."""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from fxopt.errors import CancelledError, FxoptWarning, ModelError
from fxopt.models import LocalFolder, local_folder
from fxopt.models.child import fit_in_child
from fxopt.models.seeded import seeded_model
from fxopt.process import memory
from fxopt.process.memory import in_words
from fxopt.process.news import news_to
from fxopt.tracing import InputError
from tests.models.test_local_folder import change_config, change_weights, refusal

QUERY = "encoder.layer.0.attention.self.query.weight"


def peak_bytes() -> int:
    """Peak of the resident memory of this process."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def write_header(folder: Path, shape: list[int], dtype: str = "F32", size: int = 4) -> None:
    """A safetensors file with one tensor, as sparse as the file system can."""
    count = size
    for each in shape:
        count *= each
    header = json.dumps(
        {"embeddings.word_embeddings.weight": {"dtype": dtype, "shape": shape, "data_offsets": [0, count]}}
    )
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header.encode())
        file.truncate(8 + len(header) + count)


@pytest.mark.parametrize("layers", [10**6, 10**12])
def test_more_layers_than_the_weights_can_have_are_refused_at_once(tiny_bert: Path, layers: int) -> None:
    change_config(tiny_bert, num_hidden_layers=layers)
    message = refusal(tiny_bert)
    assert f"num_hidden_layers = {layers:,}" in message
    assert "there are only 23 stored weights" in message


def test_layers_under_a_name_that_nobody_knows_end_where_the_weights_would(tiny_bert: Path) -> None:
    change_config(tiny_bert, num_hidden_layers=1200)
    began = time.process_time()
    assert "describes a model of more than 5,460 tensors" in refusal(tiny_bert)
    assert time.process_time() - began < 20


@pytest.mark.parametrize("change", [{"hidden_size": 80_000}, {"vocab_size": 10**9}, {"intermediate_size": 10**6}])
def test_sizes_beyond_the_weights_are_said_by_name_before_anything_is_allocated(tiny_bert: Path, change: Any) -> None:
    change_config(tiny_bert, **change)
    before = peak_bytes()
    message = refusal(tiny_bert)
    assert "weights of BertModel are of other shapes" in message
    assert f"{next(iter(change.values()))}" in message
    assert peak_bytes() - before < 200 * 2**20


def test_a_config_that_memory_does_not_hold_is_told_in_words(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of labels is a table of their names already in the config."""
    transformers = pytest.importorskip("transformers")

    def too_large(config: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(transformers.BertConfig, "from_dict", too_large)
    assert "config.json does not fit bert: it asks for sizes that no memory holds" in refusal(tiny_bert)


@pytest.mark.slow  # the child imports transformers once more
def test_sizes_that_are_not_ordinary_are_measured_in_a_child(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(local_folder, "fit_in_child", lambda folder: asked.append(folder) or fit_in_child(folder))
    change_config(tiny_bert, hidden_size=2 * 10**9, intermediate_size=8)
    message = refusal(tiny_bert)
    assert "shapes" in message or "sizes that no memory holds" in message
    assert "alloc" not in message
    assert asked == [tiny_bert]


@pytest.mark.slow  # a second import of transformers
def test_the_child_says_the_same_as_this_process(tiny_bert: Path) -> None:
    change_weights(tiny_bert, drop=QUERY, **{"extra.weight": torch.ones(2), "pooler.dense.bias": torch.ones(5)})
    fit = LocalFolder(tiny_bert).fit()
    assert fit_in_child(tiny_bert) == fit
    assert (fit.missing, fit.unexpected) == ((QUERY,), ("extra.weight",))
    assert fit.mismatched == (("pooler.dense.bias", (5,), (8,)),)


def test_a_cancelled_child_is_gone(tiny_bert: Path) -> None:
    before = children()
    alive: set[int] = set()

    def listener(stage: str) -> bool:
        alive.update(children() - before)
        return not alive

    with news_to(listener), pytest.raises(CancelledError):
        fit_in_child(tiny_bert)
    assert len(alive) == 1
    assert not alive & children()


def children() -> set[int]:
    """Processes begun by this one."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        found |= {int(each) for each in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return found


def test_a_build_ends_where_it_is_cancelled_and_lets_the_next_one_in(tiny_bert: Path) -> None:
    change_config(tiny_bert, num_hidden_layers=1200)
    stages: list[str] = []
    errors: list[BaseException] = []

    def listener(stage: str) -> bool:
        stages.append(stage)
        return stage != "building it"

    def build() -> None:
        with news_to(listener):
            try:
                LocalFolder(tiny_bert).build()
            except CancelledError as error:
                errors.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    thread.join(120)
    assert [type(error) for error in errors] == [CancelledError]
    assert stages.count("building it") == 1
    change_config(tiny_bert, num_hidden_layers=1)
    LocalFolder(tiny_bert).build()


def test_a_file_larger_than_memory_is_refused_by_its_header(tiny_bert: Path) -> None:
    change_config(tiny_bert, vocab_size=3_125_000_000)
    write_header(tiny_bert, [3_125_000_000, 8])
    assert "its weights take 100 GB; " in refusal(tiny_bert)


def test_free_memory_is_asked_of_the_machine(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10**8 < memory.available_bytes() < 2**63
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    assert "1.0 kB of memory are free here" in refusal(tiny_bert)


@pytest.mark.parametrize(("stored", "held"), [(torch.float32, 0), (torch.bfloat16, 4)])
def test_a_build_is_refused_with_the_memory_that_it_takes(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch, stored: torch.dtype, held: int
) -> None:
    """Weights that are cast while they are loaded lie in memory in both forms."""
    weights = {name: each.to(stored) for name, each in load_file(tiny_bert / "model.safetensors").items()}
    save_file(weights, tiny_bert / "model.safetensors")
    change_config(tiny_bert, dtype="float32")
    fit = LocalFolder(tiny_bert).fit()
    assert fit.building_bytes - fit.parameters * (stored.itemsize + held) < 1000, "position numbers beside the weights"
    needed = max(fit.building_bytes, (tiny_bert / "model.safetensors").stat().st_size)
    monkeypatch.setattr(memory, "available_bytes", lambda: needed)
    assert f"{in_words(needed)}; {in_words(needed)} of memory are free here" in refusal(tiny_bert)
    monkeypatch.setattr(memory, "available_bytes", lambda: needed * 10 // 9 + 10)
    LocalFolder(tiny_bert).build()


def test_a_table_that_python_computes_is_measured_in_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pegasus computes positions in lists of Python, which the meta device does not hold off."""
    transformers = pytest.importorskip("transformers")
    few = {"encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16}
    config = transformers.PegasusConfig(vocab_size=50, d_model=64, max_position_embeddings=64, **few)
    transformers.PegasusModel(config).save_pretrained(tmp_path)
    change_config(tmp_path, max_position_embeddings=1_000_000)

    def refusing(folder: Path) -> None:
        raise ModelError(f"{folder}: a child would measure it")

    monkeypatch.setattr(local_folder, "fit_in_child", refusing)
    before = peak_bytes()
    assert "a child would measure it" in refusal(tmp_path)
    assert peak_bytes() - before < 50 * 2**20


def test_a_tensor_that_memory_does_not_hold_is_not_made(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stored weight tells of a table that the architecture computes from its config."""
    transformers = pytest.importorskip("transformers")
    kind = transformers.BertModel
    init = kind.__init__

    def with_table(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.table = torch.ones(2**40, dtype=torch.int8, device="cpu")

    monkeypatch.setattr(kind, "__init__", with_table)
    told = "a tensor of 1099511627776, and to compute with it takes 2,199 GB"
    assert told in refusal(tiny_bert)
    config = transformers.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(ModelError, match=told):
        seeded_model(lambda: kind(config), 0)


def test_a_sparse_file_of_another_shape_is_refused_by_its_header(tiny_bert: Path) -> None:
    write_header(tiny_bert, [5_000_000, 8])
    assert "(5000000 x 8 stored, 50 x 8 needed)" in refusal(tiny_bert)


def test_an_image_larger_than_memory_is_refused_before_it_is_made(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1], "layer_type": "basic"}
    transformers.ResNetModel(transformers.ResNetConfig(**sizes)).save_pretrained(tmp_path)
    change_config(tmp_path, image_size=500_000)
    model = LocalFolder(tmp_path).build()
    before = peak_bytes()
    with pytest.raises(InputError, match=r"pixel_values of ResNetModel is 1 x 3 x 500,000 x 500,000 .* takes 3,000 GB"):
        LocalFolder(tmp_path).inputs(model)
    assert peak_bytes() - before < 100 * 2**20


def test_names_of_any_length_are_said_in_short(tiny_bert: Path) -> None:
    change_weights(tiny_bert, **{"w" * 100_000: torch.ones(2)})
    with pytest.warns(FxoptWarning, match=r"w … \(100,000 characters\)"):
        LocalFolder(tiny_bert).build()
    (tiny_bert / "model.safetensors").unlink()
    index = {"weight_map": {"a": "w" * 5000 + ".safetensors"}}
    (tiny_bert / "model.safetensors.index.json").write_text(json.dumps(index))
    message = refusal(tiny_bert)
    assert "has to name safetensors files of the folder" in message
    assert len(message) < 500


@pytest.mark.parametrize("depth", [900, 200_000])
def test_a_config_nested_deeply(tiny_bert: Path, depth: int) -> None:
    (tiny_bert / "config.json").write_text('{"model_type": "bert", "a": ' + "[" * depth + "]" * depth + "}")
    assert "nested too deeply" in refusal(tiny_bert)


def test_complex_weights_are_refused(tiny_bert: Path) -> None:
    change_weights(tiny_bert, **{QUERY: torch.ones(8, 8, dtype=torch.complex64)})
    assert f"{QUERY} holds complex numbers" in refusal(tiny_bert)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_weights_of_a_type_that_is_not_computed_with_are_said(tiny_bert: Path, dtype: torch.dtype) -> None:
    change_weights(tiny_bert, **{QUERY: torch.ones(8, 8).to(dtype)})
    with pytest.warns(FxoptWarning, match=rf"1 weights of BertModel are stored as integers or in 8 bits.*: {QUERY}"):
        model = LocalFolder(tiny_bert).build()
    assert model.state_dict()[QUERY].dtype is torch.float32


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_weights_that_are_no_numbers_are_said(tiny_bert: Path, value: float) -> None:
    change_weights(tiny_bert, **{QUERY: torch.full((8, 8), value)})
    with pytest.warns(FxoptWarning, match=f"1 stored weights hold NaN or infinite numbers.*: {QUERY}"):
        LocalFolder(tiny_bert).build()
