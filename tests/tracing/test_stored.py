"""A capture kept on disk is the very one that would be made again, or it is made again."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from fxopt import fingerprint
from fxopt.models import ZOO
from fxopt.tracing import CaptureCancelledError, CaptureStore, InputSizeError, stored
from tests.quick import quick


class Scaled(nn.Module):
    """A layer and a constant: a tensor of the model, and one that capture makes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("scale", torch.tensor(2.0), persistent=False)

    def forward(self, x: torch.Tensor, factor: int = 1) -> torch.Tensor:
        return self.layer(x) * self.scale * factor + torch.tensor([1.0, 2.0, 3.0, 4.0])


X = torch.ones(2, 4)


@pytest.fixture
def store(tmp_path: Path) -> CaptureStore:
    return CaptureStore(tmp_path / "captures")


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that are really captured."""
    made: list[str] = []
    real = stored.capture

    def counted(model: nn.Module, *args: object, **kwargs: object) -> object:
        made.append(type(model).__name__)
        return real(model, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(stored, "capture", counted)
    return made


def files(store: CaptureStore) -> list[Path]:
    return sorted(store.folder.glob("*"))


@pytest.mark.parametrize("source", quick(ZOO, *ZOO[:2]), ids=lambda source: source.key)
def test_a_kept_capture_is_the_one_that_was_made(store: CaptureStore, captures: list[str], source: object) -> None:
    first, again = source.build(), source.build()  # type: ignore[attr-defined]
    args, kwargs = source.inputs(first)  # type: ignore[attr-defined]
    made = store.capture("it", first, args, kwargs)
    kept = store.capture("it", again, args, kwargs)
    assert len(captures) == 1
    assert fingerprint(kept) == fingerprint(made)
    assert (kept.meta.keys(), kept.meta["fxopt"]) == (made.meta.keys(), made.meta["fxopt"])
    assert set(map(id, kept.parameters())) <= set(map(id, again.parameters()))


def test_a_kept_capture_checks_its_inputs_and_has_the_constants(store: CaptureStore, captures: list[str]) -> None:
    model = Scaled().eval()
    made, kept = (store.capture("it", model, [X]) for _ in range(2))
    assert len(captures) == 1
    assert torch.equal(kept(X), model(X))
    assert kept.state_dict().keys() == made.state_dict().keys()
    with pytest.raises(InputSizeError, match="captured for inputs"):
        kept(torch.ones(2, 5))


OTHERS: dict[str, Callable[[CaptureStore], object]] = {
    "another example": lambda store: store.capture("it", Scaled().eval(), [torch.ones(3, 4)]),
    "other numbers in the example": lambda store: store.capture("it", Scaled().eval(), [X * 2]),
    "another argument": lambda store: store.capture("it", Scaled().eval(), [X], {"factor": 2}),
    "another name": lambda store: store.capture("other", Scaled().eval(), [X]),
    "training": lambda store: store.capture("it", Scaled(), [X]),
    "a frozen weight": lambda store: store.capture("it", Scaled().eval().requires_grad_(False), [X]),
}


@pytest.mark.parametrize("ask", OTHERS.values(), ids=OTHERS)
def test_something_else_is_captured_anew(
    store: CaptureStore, captures: list[str], ask: Callable[[CaptureStore], object]
) -> None:
    store.capture("it", Scaled().eval(), [X])
    ask(store)
    assert len(captures) == 2
    store.capture("it", Scaled().eval(), [X])
    assert len(captures) == 2


def test_other_code_captures_anew(store: CaptureStore, captures: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    store.capture("it", Scaled().eval(), [X])
    monkeypatch.setattr(stored, "code_version", lambda: "another version of torch")
    store.capture("it", Scaled().eval(), [X])
    assert len(captures) == 2


def test_a_damaged_file_is_passed_over_and_replaced(
    store: CaptureStore, captures: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = Scaled().eval()
    store.capture("it", model, [X])
    (file,) = files(store)
    file.write_bytes(file.read_bytes()[:-7])
    with caplog.at_level(logging.WARNING):
        store.capture("it", model, [X])
    assert "passed over: it is damaged" in caplog.text
    store.capture("it", model, [X])
    assert len(captures) == 2


@pytest.mark.skipif(os.name == "nt", reason="permissions are those of POSIX")
def test_a_folder_that_others_may_write_to_is_never_read(
    store: CaptureStore, captures: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    model = Scaled().eval()
    store.capture("it", model, [X])
    assert store.folder.stat().st_mode & 0o777 == 0o700
    store.folder.chmod(0o777)
    with caplog.at_level(logging.WARNING):
        store.capture("it", model, [X])
    assert len(captures) == 2
    assert f"others may write to {store.folder}" in caplog.text


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(
    tmp_path: Path, captures: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        gm = CaptureStore(tmp_path / "file" / "captures").capture("it", Scaled().eval(), [X])
    assert gm(X).shape == X.shape
    assert "is not kept" in caplog.text


def test_a_cancelled_capture_is_not_kept(store: CaptureStore) -> None:
    with pytest.raises(CaptureCancelledError):
        store.capture("it", Scaled().eval(), [X], progress=lambda stage: False)
    assert files(store) == []


def test_the_oldest_capture_goes_first(store: CaptureStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_FILES", 2)
    for number in range(4):
        store.capture(f"it {number}", Scaled().eval(), [X])
        for age, file in enumerate(reversed(files(store))):
            os.utime(file, (1e9 - age, 1e9 - age))
    assert [file.name.rpartition(" ")[0] for file in files(store)] == ["it 2", "it 3"]


def test_a_name_that_leads_elsewhere_is_refused(store: CaptureStore) -> None:
    with pytest.raises(ValueError, match=r"'\.\./it' cannot begin the name of a file"):
        store.capture("../it", Scaled().eval(), [X])


def test_the_folder_of_a_user_is_that_of_the_environment_or_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_CACHE", str(tmp_path))
    assert CaptureStore.of_this_user().folder == tmp_path / "captures"
    monkeypatch.delenv("FXOPT_CACHE")
    assert CaptureStore.of_this_user().folder.is_relative_to(Path.home())
