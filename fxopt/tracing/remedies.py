"""Failures of a rung in words, with the remedies for its user."""

from __future__ import annotations

from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.proxy import TraceError

from fxopt.errors import FxoptError
from fxopt.graph.nodes import SourceLine
from fxopt.tracing.budget import BudgetError
from fxopt.tracing.lines import raising_line
from fxopt.tracing.plain import is_plain
from fxopt.tracing.replay import first_line
from fxopt.tracing.report import RecordingError

_READS = ("data-dependent", "FakeTensor.__format__", ".numpy() is not supported for tensor subclasses")
"""torch's message when the data of a fake tensor is read, which has no class of error."""

_ADDRESS = "Cannot access data pointer of Tensor"
"""torch's message when the memory of a fake tensor is asked for."""

_DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


def is_data_dependent(error: BaseException) -> bool:
    text = str(error)
    return isinstance(error, _DATA_DEPENDENT) or any(words in text or words in text.lower() for words in _READS)


def reason_of(error: BaseException) -> str:
    if is_data_dependent(error):
        return "a decision, a number or a text of the model depends on the data in a tensor, not only on sizes"
    if _ADDRESS in str(error):
        return (
            "the model asks for the memory of a tensor (DLPack, data_ptr, a kernel of its own), which no graph records"
        )
    if isinstance(error, TraceError):
        return f"Python control flow meets a tensor ({first_line(error).partition('. ')[0]})"
    if isinstance(error, FxoptError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}"


def line_of(error: BaseException) -> SourceLine | None:
    """Return the line of the model that `error` is about."""
    if isinstance(error, RecordingError) and error.line is not None:
        return error.line
    return raising_line(error)


def remedies_for(
    model: nn.Module, error: BaseException | None, module: str | None, allow_baked: bool
) -> tuple[str, ...]:
    """Return the remedies for `error`, which arose in the submodule at path `module`."""
    keep = [f"keep that module whole with leaf={module!r}"] if module else []
    by_data = error is not None and is_data_dependent(error)
    if by_data and not is_plain(model):
        keep = _against_data(model, module)
    if isinstance(error, RecordingError) and error.remedy:
        return (error.remedy, *keep)
    if error is not None and _ADDRESS in str(error):
        return (
            "make the call an operator with torch.library.custom_op, and register what it returns with register_fake",
        )
    tries = []
    if error is not None and "Inference tensors cannot be saved for backward" in str(error):
        made = [name for name, tensor in (*model.named_buffers(), *model.named_parameters()) if tensor.is_inference()]
        subject = f"{', '.join(made[:3]) or 'a tensor'} was made under inference_mode, so no gradient passes by"
        return (f"{subject}: capture under torch.no_grad(), or put a clone in its place",)
    if isinstance(error, BudgetError):
        tries.append("dynamic='none', or a larger budget")
    if by_data:
        tries.append("write the condition with torch.where, or take it out of forward")
    tries += keep
    if model.training:
        tries.append("model.eval()")
    if getattr(getattr(model, "config", None), "_attn_implementation", "eager") != "eager":
        tries.append('load the model with attn_implementation="eager"')
    if not allow_baked:
        tries.append(
            "fxopt.capture(..., allow_baked=True), which makes the example's values and decisions constants of the "
            "graph (the page and the command take such a graph from a function)"
        )
    if not by_data:
        tries.append("an example of other sizes")
    return tuple(tries)


def _against_data(model: nn.Module, module: str | None) -> list[str]:
    """Return the remedies for a model that decides by data, and that torch.fx itself cannot trace.

    The ways left to it run a leaf on tensors without data, except for the way with real values: there a leaf that
    decides is one node, and decides anew at each call.
    """
    if module:
        return [f"keep that module whole with leaf={module!r} and allow_baked=True: it then decides anew at each call"]
    parts = [name for name, child in model.named_children() if list(child.children())]
    return [f"capture its parts by themselves, {', '.join(parts[:4])}"] if parts else []
