from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fxopt.evidence.latency import measure
from fxopt.evidence.running import copied, leaves_of, left_as_it_was, run

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Result:
    logits: Tensor
    states: tuple[Tensor, ...] | None = None


class Counter(nn.Module):
    """Changes a buffer in place and puts another in the place of one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("last", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        self.last = x.sum()[None]
        x.mul_(2)
        return x + self.calls + torch.rand(1)


def test_leaves_are_found_in_all_that_models_return() -> None:
    x = torch.ones(1)
    value: Any = {
        "first": [x, (x,)],
        "pair": Pair(x, 3),
        "result": Result(x, (x, x)),
        "ordered": OrderedDict(a=x),
        7: None,
        "not a name": [],
    }
    assert [path for path, _ in leaves_of(value)] == [
        "first[0]", "first[1][0]", "pair.left", "pair.right", "result.logits", "result.states[0]",
        "result.states[1]", "ordered.a", "[7]",
    ]  # fmt: skip


def test_a_tensor_alone_has_no_path() -> None:
    x = torch.ones(1)
    assert [(path, leaf is x) for path, leaf in leaves_of(x)] == [("", True)]
    assert [path for path, _ in leaves_of((x, x))] == ["[0]", "[1]"]


def test_a_copy_shares_no_tensor_wherever_it_lies() -> None:
    x = torch.ones(3, requires_grad=True) * 2  # no leaf, which deepcopy alone refuses
    original = (Result(x, (x,)), {"mask": [x]})
    copy = copied(original)
    tensors = [leaf for _, leaf in leaves_of(copy)]
    assert all(torch.equal(tensor, x) and tensor.data_ptr() != x.data_ptr() for tensor in tensors)
    assert isinstance(copy[0], Result)


def test_a_run_leaves_model_inputs_and_generator_as_they_were() -> None:
    model, x = Counter(), torch.ones(2)
    calls, last, state = model.calls, model.last, torch.get_rng_state()
    first = run(model, (x,), {})
    second = run(model, (), {"x": x})
    assert torch.equal(first, second)
    assert (model.calls is calls, model.last is last) == (True, True)
    assert (calls.item(), last.item(), x.tolist()) == (0, 0, [1, 1])
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()


def test_counts_of_a_batch_norm_in_training_come_back() -> None:
    norm = nn.BatchNorm1d(2)
    run(norm, (torch.randn(4, 2),), {})
    assert norm.num_batches_tracked is not None
    assert norm.num_batches_tracked.item() == 0
    assert torch.equal(norm.running_mean, torch.zeros(2))


class Prototypes(nn.Linear):
    """Writes to its weight in each run, as a model does that normalizes its prototypes."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.mul_(1.5)
        return super().forward(x)


def test_parameters_that_forward_writes_to_come_back() -> None:
    model, x = Prototypes(2, 3), torch.ones(1, 2)
    before, place = model.weight.clone(), model.weight.data_ptr()
    assert torch.equal(run(model, (x,), {}), run(model, (x,), {}))
    measure(model, model, (x,), rounds=1)
    assert torch.equal(model.weight, before)
    assert model.weight.data_ptr() == place


def test_buffers_come_back_after_a_failure_too() -> None:
    model = Counter()
    try:
        with left_as_it_was(model):
            model(torch.ones(1))
            raise KeyError
    except KeyError:
        assert model.calls.item() == 0


def test_copies_made_in_inference_mode_are_tensors_as_a_user_gives_them() -> None:
    given = {"outside": torch.ones(2)}
    with torch.inference_mode():
        given["inside"] = torch.ones(2)
        found = copied(given)
    assert given["inside"].is_inference()
    assert not any(one.is_inference() for one in found.values())
    assert all(map(torch.equal, found.values(), given.values()))
