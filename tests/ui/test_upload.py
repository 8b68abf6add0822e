"""A model that a visitor uploads: opened as a folder is, refused in a sentence, and gone with the visitor."""

from __future__ import annotations

import gc
import io
import json
import pickle
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from fxopt.errors import ModelError
from fxopt.ui import upload_disk, uploaded_files, workshop
from fxopt.ui.command import PAGE
from fxopt.ui.recipe_form import recipe_of
from tests.cli.models import make
from tests.ui.visitor import assert_usable, badge, session, switch, texts

CONFIG = {
    "model_type": "bert", "architectures": ["BertModel"], "vocab_size": 50, "hidden_size": 8, "num_hidden_layers": 1,
    "num_attention_heads": 2, "intermediate_size": 16, "max_position_embeddings": 20,
}  # fmt: skip
File = tuple[str, bytes, str]


@pytest.fixture(scope="module")
def weights() -> bytes:
    transformers = pytest.importorskip("transformers")
    with torch.random.fork_rng():
        model = transformers.BertModel(transformers.BertConfig.from_dict(CONFIG))
    return save(model.state_dict())


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which uploads are kept."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def code_allowed() -> Iterator[None]:
    workshop.code_allowed.set()
    yield
    workshop.code_allowed.clear()


def of_config(**changes: object) -> File:
    return "config.json", json.dumps({**CONFIG, **changes}).encode(), "application/json"


def of_weights(content: bytes, name: str = "model.safetensors") -> File:
    return name, content, "application/octet-stream"


def give(app: AppTest, *files: File) -> AppTest:
    """Choose files in the field."""
    if app.selectbox(key="model").value != "upload":
        app.selectbox(key="model").set_value("upload").run()
    return app.file_uploader[0].set_value(files).run()


def opened_with(app: AppTest, files: Sequence[File]) -> str:
    give(app, *files)
    assert_usable(app)
    return texts(app).replace("\\", "")


def kept(folder: Path) -> list[Path]:
    return list(folder.glob("fxopt-upload-*"))


def test_a_model_is_uploaded_worked_on_and_goes_with_the_visitor(weights: bytes, own_folder: Path) -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=120).run()
    give(app, of_config())
    assert "model.safetensors of the model is still to come." in app.info[0].value
    give(app, of_config(), of_weights(weights, "bert.safetensors"), ("tokenizer.json", b"{}", "application/json"))
    assert_usable(app)
    assert not app.error
    opened = session(app).opened
    assert (opened.source.title, opened.sizes) == ("BertModel", "batch 1, sequence 20")
    assert torch.equal(opened.model.state_dict()["pooler.dense.bias"], torch.zeros(8))
    switch(app, "MergeLinears", True)
    assert "1 site on" in badge(app)
    assert app.query_params["model"] in ("upload", ["upload"])
    assert recipe_of(session(app)).model.name == "BertModel"
    assert app.file_uploader[0].value == [], "the field is free for another model, and the memory of the files too"
    app.number_input[0].set_value(2).run()
    assert session(app).opened.sizes == "batch 2, sequence 20"
    (folder,) = kept(own_folder)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    clear_session_resource_cache("test session id")  # as Streamlit does where a visitor leaves
    assert not kept(own_folder)
    app.number_input[0].set_value(3).run()
    assert session(app).opened.sizes == "batch 3, sequence 20", "who comes back at once goes on"


def header(shape: list[int]) -> bytes:
    """A safetensors file that says it holds a huge tensor, without its numbers."""
    count = 4
    for each in shape:
        count *= each
    text = json.dumps(
        {"embeddings.word_embeddings.weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, count]}}
    )
    return struct.pack("<Q", len(text)) + text.encode()


def test_wrong_uploads_are_refused_in_a_sentence_and_the_page_stays_as_it_was(
    app: AppTest, weights: bytes, own_folder: Path
) -> None:
    other = save({"embeddings.word_embeddings.weight": torch.zeros(7, 8)})
    pickled = pickle.dumps({"weight": [1.0]})
    for files, told in (
        ([of_config(), of_weights(weights[:-100])], "model.safetensors: it is broken or cut short"),
        ([of_config(), of_weights(header([10**9, 10**6]))], "model.safetensors: it is broken or cut short"),
        ([of_config(), of_weights(pickled)], "model.safetensors: it is a pickle, as of torch.save"),
        ([of_config(), of_weights(other)], "weights of BertModel are of other shapes"),
        ([of_config(hidden_size=80_000), of_weights(weights)], "weights of BertModel are of other shapes"),
        ([of_config(model_type="mine"), of_weights(weights)], "does not know model_type 'mine'"),
        ([of_config(num_hidden_layers=10**9), of_weights(weights)], "num_hidden_layers = 1,000,000,000"),
        ([("config.json", b"{" * 100, ""), of_weights(weights)], "config.json: it cannot be read as JSON"),
        ([("config.json", b"[]", ""), of_weights(weights)], "config.json: it is JSON, and has to be an object"),
        ([of_config(), ("pytorch_model.bin", pickled, "")], "pytorch_model.bin can run code when it is read"),
        ([("model.pkl", pickled, "")], "model.pkl can run code when it is read"),
        ([("model.pt2", pickled, "")], "model.pt2 is refused: reading a .pt2 file can run code"),
        ([("model.py", b"print('run')", "")], "model.py is refused: a file of Python is run"),
        ([of_config(), of_config(), of_weights(weights)], "two files are called config.json"),
        ([of_config(), of_weights(weights, "../a b.safetensors")], "a b.safetensors is no name"),
    ):
        said = opened_with(app, files)
        assert told in said, said
        assert told in app.error[0].value.replace("\\", ""), "the open form says it as well"
        assert "Still open:" in said
        assert str(own_folder) not in said
        assert session(app).opened.source.key == "digits_conv_net"
    give(app, of_weights(weights))
    assert "config.json of the model is still to come." in app.info[0].value
    assert not app.error, "the answer to files of before goes"
    assert len(kept(own_folder)) <= 1, "each upload takes the place of the one before"


def test_more_than_an_upload_may_have_is_not_kept(
    app: AppTest, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploaded_files, "most_upload_megabytes", lambda: 1)
    said = opened_with(app, [of_config(), of_weights(bytes(2**20))])
    assert "the files have 1.0 MB, and an upload at most 1.0 MB; open its folder instead" in said
    assert not kept(own_folder)


class InMemory(io.BytesIO):
    """An uploaded file."""

    def __init__(self, file: File) -> None:
        super().__init__(file[1])
        self.name, self.size = file[0], len(file[1])


def test_the_uploads_of_all_visitors_have_a_bound_on_the_disk_and_give_it_back(
    weights: bytes, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # uploads of other tests
    before = upload_disk.taken()
    files = {file[0]: InMemory(file) for file in (of_config(), of_weights(weights))}
    size = sum(file.size for file in files.values())
    monkeypatch.setattr(upload_disk, "most_uploads_megabytes", lambda: (before + 2.5 * size) / 2**20)
    first, second = uploaded_files.kept(files), uploaded_files.kept(files)
    with pytest.raises(ModelError, match=r"visitors have uploaded here take .* try again later"):
        uploaded_files.kept(files)
    assert len(kept(own_folder)) == 2
    first.remove()
    first.remove()
    assert upload_disk.taken() == before + size
    del second
    gc.collect()
    assert upload_disk.taken() == before
    assert not kept(own_folder)
    uploaded_files.kept(files)


def test_uploads_that_come_at_once_are_counted_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()
    before, disk_usage, refused = upload_disk.taken(), shutil.disk_usage, list[ModelError]()
    monkeypatch.setattr(upload_disk, "most_uploads_megabytes", lambda: (before + 1500) / 2**20)

    def slow(folder: str) -> object:
        time.sleep(0.05)  # another one looks at the count meanwhile
        return disk_usage(folder)

    def take() -> None:
        try:
            upload_disk.take(1000)
        except ModelError as error:
            refused.append(error)

    monkeypatch.setattr(upload_disk.shutil, "disk_usage", slow)
    at_once = [threading.Thread(target=take) for _ in range(4)]
    for one in at_once:
        one.start()
    for one in at_once:
        one.join()
    assert upload_disk.taken() == before + 1000
    assert len(refused) == 3
    monkeypatch.setattr(upload_disk, "_taken", before)


def test_a_full_disk_is_told_and_nothing_is_left_on_it(
    app: AppTest, weights: bytes, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage(own_folder)._replace(free=1000)
    monkeypatch.setattr(upload_disk.shutil, "disk_usage", lambda folder: full)
    assert "1.0 kB are free, a tenth of which is kept free" in opened_with(app, [of_config(), of_weights(weights)])
    assert not kept(own_folder)


def test_a_workshop_has_no_upload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(workshop.VARIABLE, "1")
    app = AppTest.from_file(str(PAGE), default_timeout=120).run()
    assert "Upload a model (safetensors) …" not in app.selectbox(key="model").options


def test_an_address_of_an_upload_waits_for_its_files(weights: bytes) -> None:
    app = AppTest.from_file(str(PAGE), default_timeout=120).run()
    give(app, of_config(), of_weights(weights))
    switch(app, "MergeLinears", True)
    held = {name: value if isinstance(value, str) else value[0] for name, value in app.query_params.items()}
    there = AppTest.from_file(str(PAGE), default_timeout=120)
    for name, value in held.items():
        there.query_params[name] = value
    there.run()
    assert "an upload goes with its visitor. Upload its files again" in there.info[0].value
    give(there, of_config(), of_weights(weights))
    assert_usable(there)
    assert "1 site on" in badge(there)


MAKES = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(4, 3), nn.Linear(4, 5)
    def forward(self, x):
        return self.q(x).sum() + self.k(x).sum()

def make_model():
    return Net(), (torch.rand(2, 4),)
"""


@pytest.mark.usefixtures("code_allowed")
def test_code_is_taken_where_it_is_allowed_and_its_faults_are_told(app: AppTest, tmp_path: Path) -> None:
    give(app, ("net.py", MAKES.encode(), ""))
    assert_usable(app)
    assert session(app).opened.source.title == "net.py"
    switch(app, "MergeLinears", True)
    assert "1 site on" in badge(app)
    for text, told in (
        ("def make_model(:", "net.py failed at line 1: SyntaxError"),
        ("x = 1", "net.py needs a function without arguments that makes a model"),
        ("def make():\n    return 3", "net.py made int; it has to make a model"),
        ("def make():\n    raise KeyError('on purpose')", "net.py failed at line 2: KeyError"),
        ("def a(): ...\ndef b(): ...", "several functions (a, b)"),
    ):
        assert told in opened_with(app, [("net.py", text.encode(), "")])
    assert "torch.export cannot read it" in opened_with(app, [("net.pt2", b"no program", "")])


@pytest.mark.slow
@pytest.mark.usefixtures("code_allowed")
def test_a_program_is_taken_where_code_is_allowed(app: AppTest, tmp_path: Path) -> None:
    model, x = make()
    torch.export.save(torch.export.export(model.eval(), (x,)), tmp_path / "net.pt2")
    give(app, ("net.pt2", (tmp_path / "net.pt2").read_bytes(), ""))
    assert_usable(app)
    assert session(app).opened.source.title == "net.pt2"
    assert session(app).opened.view.by_name["linear"].kind
