"""Each module of the table against its operator, called on real tensors."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fxopt
from fxopt.graph.module_table import MODULES, WITH_WEIGHTS, WITHOUT_WEIGHTS, modules_of
from fxopt.graph.operator_table import DROPOUTS, NEW, POINTWISE, ROW_MAJOR
from fxopt.rules.overloads import ARGUMENTS

_GIVEN: dict[str, dict[str, Any]] = {
    "Softmax": {"dim": 1},
    "LogSoftmax": {"dim": 1},
    "GELU": {"approximate": "tanh"},
    "Threshold": {"threshold": 0.5, "value": 0.1},
    "Unflatten": {"dim": 1, "unflattened_size": (2, 2)},
    "Linear": {"in_features": 4, "out_features": 3},
    "LayerNorm": {"normalized_shape": 4},
    "RMSNorm": {"normalized_shape": 4},
    "GroupNorm": {"num_groups": 2, "num_channels": 4},
    "Embedding": {"num_embeddings": 5, "embedding_dim": 3},
    **{f"BatchNorm{n}d": {"num_features": 4} for n in (1, 2, 3)},
    **{f"{kind}{n}d": {"in_channels": 4, "out_channels": 2, "kernel_size": 2}
       for n in (1, 2, 3) for kind in ("Conv", "ConvTranspose")},
}  # fmt: skip
_PUBLIC = [kind for kind in MODULES if kind.__module__.startswith("torch.nn") and not kind.__name__.startswith("_")]


def made(kind: type[nn.Module]) -> nn.Module:
    """A module of this kind in evaluation mode."""
    return kind(**_GIVEN.get(kind.__name__, {})).eval()


def given(kind: type[nn.Module]) -> torch.Tensor:
    """An input for it, whose dimensions lie in another order."""
    if kind is nn.Embedding:
        return torch.tensor([[4, 0, 3], [1, 1, 2]]).t()
    dimensions = next((int(n) for n in kind.__name__ if n in "123"), 0)
    return torch.linspace(-2, 2, 4 ** (2 + dimensions)).reshape([4] * (2 + dimensions)).transpose(0, 1)


def assert_same(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=0, check_stride=True)


@pytest.mark.parametrize("kind", WITHOUT_WEIGHTS, ids=lambda kind: kind.__name__)
def test_a_module_without_weights_is_its_operator_with_its_attributes(kind: type[nn.Module]) -> None:
    module, x = made(kind), given(kind)
    name, attributes = WITHOUT_WEIGHTS[kind]
    assert not [*module.parameters(), *module.buffers()]
    fixed = {"min_val", "max_val"} if kind is nn.ReLU6 else set()
    assert module.__dict__.keys() <= nn.Module().__dict__.keys() | {*attributes, "inplace"} | fixed
    arguments = {ARGUMENTS[attribute] if attribute == "training" else attribute: getattr(module, attribute)
                 for attribute in attributes}  # fmt: skip
    assert_same(module(x), getattr(torch.ops.aten, name)(x, **arguments))


@pytest.mark.parametrize("kind", WITH_WEIGHTS, ids=lambda kind: kind.__name__)
def test_a_module_with_weights_is_its_function_with_them(kind: type[nn.Module]) -> None:
    module, x = made(kind), given(kind)
    function = getattr(F, WITH_WEIGHTS[kind])
    weights = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    weights.pop("num_batches_tracked", None)
    more = {nn.LayerNorm: {"normalized_shape": (4,)}, nn.GroupNorm: {"num_groups": 2}}.get(kind, {})
    assert_same(module(x), function(x, **more, **weights))


@pytest.mark.parametrize("kind", _PUBLIC, ids=lambda kind: kind.__name__)
def test_the_effects_of_a_module_are_those_of_its_operator(kind: type[nn.Module]) -> None:
    module, x = made(kind), given(kind)
    result = module(x)
    assert isinstance(result, torch.Tensor)
    same_memory = result.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert result is x or kind not in modules_of(DROPOUTS)
    assert not same_memory or kind not in modules_of(NEW)
    assert result.is_contiguous() or kind not in modules_of(ROW_MAJOR)
    if kind in modules_of(POINTWISE):
        assert_same(module(x.flip(0)).contiguous(), result.flip(0).contiguous())
        assert result.stride() == x.stride()


def test_a_write_to_the_result_of_a_norm_leaves_its_input_alone() -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.RMSNorm(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.norm(x) * 1).add_(1)

    scan = fxopt.RemoveIdentities().scan(fxopt.capture(Written(), (torch.rand(2, 4),)))
    assert [match.site for match in scan.matches] == ["mul"]
