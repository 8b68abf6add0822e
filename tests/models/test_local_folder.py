from __future__ import annotations

import json
import os
import pickle
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from fxopt.errors import FxoptWarning, ModelError, remarks
from fxopt.models import LocalFolder


def change_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    config = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


def change_weights(folder: Path, drop: str = "", **changes: torch.Tensor) -> None:
    file = folder / "model.safetensors"
    weights = {name: tensor.clone() for name, tensor in load_file(file).items() if name != drop}
    save_file({**weights, **changes}, file)


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        LocalFolder(folder).build()
    assert str(folder) in str(caught.value)
    return str(caught.value)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_trained_model_has_all_the_weights_of_its_folder(minilm: Path) -> None:
    source = LocalFolder(minilm)
    before = torch.get_rng_state()
    model = source.build()
    assert torch.equal(torch.get_rng_state(), before)
    stored, state = load_file(minilm / "model.safetensors"), model.state_dict()
    assert set(stored) - set(state) == {"embeddings.position_ids"}  # counted anew by transformers
    assert len(state) == 103
    assert all(torch.equal(tensor, stored[name]) for name, tensor in state.items())
    assert not model.training
    _, inputs = source.inputs(model, 2, 16)
    with torch.no_grad():
        assert model(**inputs).last_hidden_state.shape == (2, 16, 384)


def test_its_sizes_are_those_of_its_config(minilm: Path, tiny_bert: Path) -> None:
    sizes = LocalFolder(minilm).sizes
    assert sizes.sequence is not None
    assert (sizes.sequence.default, sizes.sequence.most) == (32, 512)
    source = LocalFolder(tiny_bert)
    model = source.build()
    assert source.inputs(model)[1]["input_ids"].shape == (1, 20)
    with pytest.raises(ModelError, match="sequence is 21; give a whole number from 1 to 20"):
        source.inputs(model, 1, 21)


def test_positions_before_the_first_token_are_not_offered(tiny_bert: Path) -> None:
    change_config(tiny_bert, model_type="roberta", pad_token_id=1)
    sizes = LocalFolder(tiny_bert).sizes
    assert sizes.sequence is not None
    assert sizes.sequence.most == 18


def test_it_names_itself_by_its_path(tiny_bert: Path) -> None:
    source = LocalFolder(tiny_bert)
    assert (source.key, source.title) == (f"folder:{tiny_bert}", tiny_bert.name)
    assert "bert" in source.description


def test_no_bar_of_transformers_is_drawn_on_standard_error(tiny_bert: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LocalFolder(tiny_bert).build()
    assert capfd.readouterr().err == ""


def test_a_path_may_be_given_as_text(tiny_bert: Path) -> None:
    assert LocalFolder(str(tiny_bert)) == LocalFolder(tiny_bert)  # type: ignore[arg-type]


def test_no_folder(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "nowhere")


def test_no_config(tiny_bert: Path) -> None:
    (tiny_bert / "config.json").unlink()
    assert "no config.json" in refusal(tiny_bert)


@pytest.mark.parametrize("text", ["{", "[1]", "\xff"])
def test_a_config_that_is_no_json_object(tiny_bert: Path, text: str) -> None:
    (tiny_bert / "config.json").write_bytes(text.encode("latin-1"))
    assert "JSON" in refusal(tiny_bert)


def test_a_config_without_model_type(tiny_bert: Path) -> None:
    change_config(tiny_bert, model_type=None)
    assert "no model_type" in refusal(tiny_bert)


def test_a_model_type_that_only_code_of_the_folder_would_know(tiny_bert: Path) -> None:
    change_config(tiny_bert, model_type="mine", auto_map={"AutoModel": "modeling_mine.MyModel"})
    (tiny_bert / "modeling_mine.py").write_text(f"import os; os.mkdir({str(tiny_bert / 'ran')!r})")
    assert "does not know model_type 'mine'" in refusal(tiny_bert)
    assert not (tiny_bert / "ran").exists()


@pytest.mark.parametrize("names", [["NoSuchModel"], ["BertConfig"], ["GPT2LMHeadModel"], ["logging"], "BertModel"])
def test_an_architecture_that_is_no_model_of_that_type(tiny_bert: Path, names: Any) -> None:
    change_config(tiny_bert, architectures=names)
    assert "architectures is" in refusal(tiny_bert)


def test_without_architectures_the_base_model_is_taken(tiny_bert: Path) -> None:
    change_config(tiny_bert, architectures=None)
    assert type(LocalFolder(tiny_bert).build()).__name__ == "BertModel"


def test_a_config_with_senseless_values(tiny_bert: Path) -> None:
    change_config(tiny_bert, hidden_size="wide")
    assert "bert" in refusal(tiny_bert).lower()


def test_quantized_weights(tiny_bert: Path) -> None:
    change_config(tiny_bert, quantization_config={"quant_method": "gptq"})
    assert "quantized" in refusal(tiny_bert)


def test_settings_that_name_code_or_kernels_are_not_followed(tiny_bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: Any) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket.socket, "connect", connect)
    change_config(
        tiny_bert,
        auto_map={"AutoModel": "stranger/model--modeling.Model"},
        attn_implementation="stranger/kernel",
        _attn_implementation="stranger/kernel",
        transformers_weights="adapter_model.bin",
    )
    (tiny_bert / "adapter_config.json").write_text('{"base_model_name_or_path": "stranger/base"}')
    model = LocalFolder(tiny_bert).build()
    assert "stranger" not in str(model.config)


def test_pickled_weights_are_refused_and_never_read(tiny_bert: Path) -> None:
    (tiny_bert / "model.safetensors").unlink()
    mark = tiny_bert / "ran"
    (tiny_bert / "pytorch_model.bin").write_bytes(pickle.dumps(Trap(mark)))
    message = refusal(tiny_bert)
    assert "pytorch_model.bin: such a file can run code" in message
    assert "save_pretrained" in message
    assert not mark.exists()
    pickle.loads((tiny_bert / "pytorch_model.bin").read_bytes())
    assert mark.exists()  # so the trap works


@pytest.mark.parametrize("name", ["pytorch_model.bin", "../weights.safetensors", "/etc/passwd", "sub/x.safetensors"])
def test_an_index_that_names_another_file_is_refused(tiny_bert: Path, name: str) -> None:
    (tiny_bert / "model.safetensors").rename(tiny_bert / "part.safetensors")
    index = {"weight_map": {"a": "part.safetensors", "b": name}}
    (tiny_bert / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "has to name safetensors files of the folder" in refusal(tiny_bert)


def test_weights_in_several_files_are_put_together(tiny_bert: Path) -> None:
    whole = tiny_bert / "model.safetensors"
    weights = load_file(whole)
    parts = {name: f"part-{number % 2}.safetensors" for number, name in enumerate(weights)}
    for part in set(parts.values()):
        save_file({name: weights[name].clone() for name in weights if parts[name] == part}, tiny_bert / part)
    whole.unlink()
    (tiny_bert / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    state = LocalFolder(tiny_bert).build().state_dict()
    (tiny_bert / "part-1.safetensors").unlink()
    assert "part-1.safetensors is missing" in refusal(tiny_bert)
    assert state.keys() >= parts.keys()


def test_no_weights_at_all(tiny_bert: Path) -> None:
    (tiny_bert / "model.safetensors").unlink()
    assert "no model.safetensors or any other weights" in refusal(tiny_bert)


def test_weights_under_another_name(tiny_bert: Path) -> None:
    (tiny_bert / "model.safetensors").rename(tiny_bert / "weights.safetensors")
    assert "only weights.safetensors: rename" in refusal(tiny_bert)


@pytest.mark.parametrize("keep", [0, 4, 100, -50])
def test_weights_that_are_cut_short(tiny_bert: Path, keep: int) -> None:
    file = tiny_bert / "model.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    assert "broken or cut short" in refusal(tiny_bert)


def test_missing_weights_are_not_made_up(tiny_bert: Path) -> None:
    change_weights(tiny_bert, drop="encoder.layer.0.attention.self.query.weight")
    message = refusal(tiny_bert)
    assert "1 weights of BertModel are missing: encoder.layer.0.attention.self.query.weight" in message
    assert "does not make weights up" in message


def test_weights_of_another_shape(tiny_bert: Path) -> None:
    change_config(tiny_bert, vocab_size=60)
    message = refusal(tiny_bert)
    assert "embeddings.word_embeddings.weight (50 x 8 stored, 60 x 8 needed)" in message


def test_weights_that_nothing_uses_are_said(tiny_bert: Path) -> None:
    change_weights(tiny_bert, **{"extra.weight": torch.ones(2)})
    with pytest.warns(FxoptWarning, match=r"BertModel has no place for 1 stored weights: extra\.weight") as warned:
        LocalFolder(tiny_bert).build()
    assert warned[0].filename == __file__
    with remarks() as made:
        LocalFolder(tiny_bert).build()
    assert made == [str(warned[0].message)]


def test_a_model_of_sound_gets_waves(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.Wav2Vec2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        conv_dim=(8,), conv_kernel=(10,), conv_stride=(5,), num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    with torch.random.fork_rng():
        transformers.Wav2Vec2Model(config).save_pretrained(tmp_path)
    source = LocalFolder(tmp_path)
    model = source.build()
    _, inputs = source.inputs(model, batch=3, sequence=4)
    assert {name: tuple(wave.shape) for name, wave in inputs.items()} == {"input_values": (3, 1360)}
    with torch.no_grad():
        model(**inputs)
