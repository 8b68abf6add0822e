"""Torch's default dtype is one for all threads: a run that may have seen another one is repeated."""

import threading

import pytest
import torch
from torch import nn

from fxopt.evidence.running import run
from fxopt.process.defaults import changing_defaults, with_steady_defaults


class WaitsForABuild(nn.Module):
    """A model that makes a tensor of the default dtype, while another thread builds; and notes each run."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: list[torch.dtype] = []
        self.ready, self.changed, self.seen = (threading.Event() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.ready.set()
        assert self.changed.wait(30)
        made = torch.ones(2)
        self.seen.set()
        self.runs.append(made.dtype)
        return x + made


def build(model: WaitsForABuild) -> None:
    with changing_defaults():
        assert model.ready.wait(30)
        torch.set_default_dtype(torch.bfloat16)
        model.changed.set()
        assert model.seen.wait(30)
        torch.set_default_dtype(torch.float32)


def test_a_run_during_a_build_gives_the_numbers_of_one_without() -> None:
    model = WaitsForABuild()
    other = threading.Thread(target=build, args=(model,))
    other.start()
    out = run(model, (torch.ones(2),), {})
    other.join()
    assert model.runs == [torch.bfloat16, torch.float32]
    assert out.dtype == torch.float32


def test_a_run_that_fails_because_of_a_build_is_repeated() -> None:
    attempts: list[int] = []

    def attempt() -> str:
        attempts.append(1)
        if len(attempts) == 1:
            with changing_defaults():
                raise ValueError("two dtypes")
        return "done"

    assert with_steady_defaults(attempt) == "done"
    assert len(attempts) == 2


def test_a_run_without_a_build_is_done_once_and_its_error_is_its_own() -> None:
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        with_steady_defaults(attempt)
    assert len(attempts) == 1
