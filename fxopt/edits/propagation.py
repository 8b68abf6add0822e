"""Check of an edit on fake tensors: would the edited graph run, and with which shapes and dtypes?

The check computes no numbers and reads no weights. It runs the inputs of the edited call, and then, node by node, the
calls whose results differ from before. If a result keeps its shape and dtype, its users are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node
from torch.fx.node import map_aggregate

from fxopt.core import GraphIndex, TensorInfo, Unmet
from fxopt.edits.draft import Draft, Step
from fxopt.edits.fake_run import FakeRun, StepFailedError, UnknownError, first_line
from fxopt.edits.sizes import Assignment, Names
from fxopt.graph.nodes import inputs_of
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.tracing.node_values import finished, snapshot


@dataclass(frozen=True, eq=False)
class Outcome:
    """Effect of an edit on the graph."""

    refusal: Unmet | None = None
    """The reason why the edited graph would fail; None if it runs."""
    infos: Mapping[str, Any] = field(default_factory=dict)
    """The new results of nodes whose result differs, in the form of ``tensor_info``."""
    made: Any = None
    """The result of the new node, if the edit makes one."""
    output: str = ""
    """The change of the shape or dtype of the model's output; empty where both stay."""
    at: str = ""
    """The only sizes at which the edit holds; empty where all free sizes stay free."""


def outcome_of(index: GraphIndex, draft: Draft) -> Outcome:
    """Try an edit at the sizes of the example, and at larger ones where sizes are free."""
    if not draft:
        return Outcome()
    sizes = index.cached(Assignment, lambda: Assignment.of(index.gm))
    first = _tried(index, draft, sizes)
    if first.refusal is not None or not sizes.numbers:
        return _said(index, first, first.infos, first.made)
    second = _tried(index, draft, sizes.larger)
    if second.refusal is not None:
        holds_before = second.refusal.actual != _UNKNOWN
        return _said(index, first, first.infos, first.made, at=str(sizes) if holds_before else "")
    names = Names.of(index.gm, sizes, sizes.larger)
    infos = {}
    for name in dict.fromkeys((*first.infos, *second.infos)):
        one, other = (
            tried.infos[name] if name in tried.infos else _info_now(index, name, at)
            for tried, at in ((first, sizes), (second, sizes.larger))
        )
        infos[name] = names.info(index.nodes[name], one, other)
    return _said(index, first, infos, names.info(next(iter(draft)), first.made, second.made))


def _said(index: GraphIndex, tried: Outcome, infos: Mapping[str, Any], made: Any, at: str = "") -> Outcome:
    output = next(iter(reversed(index.gm.graph.nodes)))
    told = ""
    if output.name in infos:
        told = f"{_text(infos[output.name])} instead of {_text(output.meta.get('tensor_info'))}"
    return Outcome(tried.refusal, infos, made, told, at)


def _info_now(index: GraphIndex, name: str, sizes: Assignment) -> Any:
    """Return the present result of a node at the given sizes."""
    run = _run(index, sizes)
    with run.mode_on():
        return _info(run.old(index.nodes[name]))


def _run(index: GraphIndex, sizes: Assignment) -> FakeRun:
    return index.cached((FakeRun, str(sizes)), lambda: FakeRun(index, sizes))


def _tried(index: GraphIndex, draft: Draft, sizes: Assignment) -> Outcome:
    run = _run(index, sizes)
    with run.mode_on():
        return _follow(index, draft, run)


def _follow(index: GraphIndex, draft: Draft, run: FakeRun) -> Outcome:
    new: dict[Node | Step, Any] = {}
    infos: dict[str, Any] = {}
    reached, node = set(draft), min(draft)
    while reached:
        if node in reached:
            reached.discard(node)
            step = draft.get(node) or Step.of(node, index)
            tried = _result(node, step, run, new)
            if isinstance(tried, Unmet):
                return Outcome(tried)
            old, value = tried
            if not _is_alike(old, value):
                new[node] = value
                reached.update(node.users)
                if (info := _info(value)) != _info(old):
                    infos[node.name] = info
        node = node.next
    made = [_info(value) for key, value in new.items() if isinstance(key, Step)]
    return Outcome(infos=infos, made=made[0] if made else None)


def _result(node: Node, step: Step, run: FakeRun, new: dict[Node | Step, Any]) -> tuple[Any, Any] | Unmet:
    """Return the present and the edited result of a node, or the reason why the edited call fails."""
    try:
        old = run.old(node)
        value = run.value(step, new)
    except UnknownError as unknown:
        return _unknown(str(unknown))
    except StepFailedError as failed:
        return _fails(failed.step, failed.__cause__ or failed, run, new)
    except Exception as error:  # noqa: BLE001 - the error of torch is the reason for the refusal
        if node in run.failed:
            return _unknown(f"{node.name} cannot be followed as it is: {first_line(error)}")
        return _fails(step, error, run, new)
    inner = [part for part in new if isinstance(part, Step)]
    refusals = (run.misfit(node, old, value), *(run.lacks_kernel(one, new) for one in (*inner, step)))
    return next(filter(None, refusals), None) or (old, value)


# ---- words


_UNKNOWN = "unknown"


def _unknown(fact: str) -> Unmet:
    remedy = NEEDS_SHAPES
    return Unmet(f"{fact}, so the edit cannot be checked", remedy, actual=_UNKNOWN, needed="known shapes")


def _fails(step: Step, error: BaseException, run: FakeRun, new: Mapping[Node | Step, Any]) -> Unmet:
    """Report the first call that fails, with its new inputs against its present ones."""
    values: list[Any] = []

    def note(part: Any) -> Any:
        if isinstance(part, Node | Step) and part in new:
            values.append(new[part])
        elif isinstance(part, Node):
            values.append(run.old(part))
        return part

    map_aggregate((step.args, dict(step.kwargs)), note)
    node = run.index.nodes.get(step.name)
    before = [run.old(part) for part in inputs_of(node)] if node is not None else []
    given, now = (", ".join(_text(_info(value)) for value in some) for some in (values, before))
    told = f"{step.name} would fail: {first_line(error).rstrip('.')}"
    if given == now or not now:
        return Unmet(told, "choose another value")
    return Unmet(told, f"choose what leaves {step.name} the shapes that it reads now", actual=given, needed=now)


def _text(info: Any) -> str:
    if isinstance(info, TensorInfo):
        return str(info)
    if isinstance(info, tuple | list):
        return f"({', '.join(map(_text, info))})"
    if isinstance(info, dict):
        return f"{{{', '.join(f'{key}: {_text(part)}' for key, part in info.items())}}}"
    return "no tensor"


# ---- values


def _info(value: Any) -> Any:
    return finished(snapshot(value), int)


def _is_alike(one: Any, other: Any) -> bool:
    """Return whether later calls see two fake results as the same."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return (one.shape, one.dtype, one.device, _strides(one)) == (other.shape, other.dtype, other.device, _strides(other))  # noqa: E501  # fmt: skip
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_alike(one[key], other[key]) for key in one)
    return one is other or (type(one) is type(other) and isinstance(one, _COMPARED) and one == other)


_COMPARED = (bool, int, float, complex, str, torch.dtype, torch.device)


def _strides(tensor: torch.Tensor) -> tuple[int, ...] | None:
    return tensor.stride() if tensor.layout == torch.strided else None
