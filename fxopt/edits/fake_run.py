"""A lazy run of the present graph on fake tensors, and of calls that differ from it."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import Node

from fxopt.core import GraphIndex, TensorInfo, Unmet
from fxopt.edits.draft import Step
from fxopt.edits.kernels import missing_kernel, numel_of
from fxopt.edits.sizes import Assignment
from fxopt.graph.module_table import modules_of
from fxopt.graph.nodes import attribute_of, info_of, inputs_of
from fxopt.graph.operator_table import ROW_MAJOR
from fxopt.process.fake_tensors import fake_mode, quiet
from fxopt.tracing.hygiene import preserved

ROOM = 16
"""The largest result of the edited graph over the largest of the present one, at most."""

ALWAYS_FITS = 2**24
"""The count of numbers up to which a result is always accepted."""

_DENSE = modules_of(ROW_MAJOR)
"""Modules whose result is dense in memory for every input, so that its shape determines its layout."""


class UnknownError(Exception):
    """The present result of a node is unknown."""


class StepFailedError(Exception):
    """An inner step failed; the cause says why."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.name)
        self.step = step


class FakeRun:
    """A lazy run of the present graph on fake tensors of one assignment of sizes."""

    def __init__(self, index: GraphIndex, sizes: Assignment) -> None:
        self.index, self.sizes = index, sizes
        self._mode = fake_mode()
        self.failed: set[Node] = set()
        """Nodes that fail on fake tensors; the metadata of capture stands for their results."""
        self._values: dict[Node, Any] = {}
        self._limit = max([ALWAYS_FITS, *(ROOM * size for node in index.nodes.values() if (size := self._size(node)))])

    @contextmanager
    def mode_on(self) -> Iterator[None]:
        """Make tensors fake for the duration; random generators and global modes are preserved."""
        with preserved(nn.Module()), quiet(), self._mode, enable_python_dispatcher(), torch.no_grad():
            yield

    def old(self, node: Node) -> Any:
        """Return the present result of a node."""
        self._prepare((node,))
        return self._values[node]

    def value(self, step: Step, new: dict[Node | Step, Any]) -> Any:
        """Return the result of a call, where `new` replaces some results; inner steps add theirs."""

        def value_of(part: Node | Step) -> Any:
            if part not in new and isinstance(part, Step):
                try:
                    new[part] = part.run(value_of)
                except Exception as error:
                    raise StepFailedError(part) from error
            return new[part] if part in new else self.old(part)  # type: ignore[arg-type]

        with self._without_trace(step) as spared:
            return spared.run(value_of)

    @contextmanager
    def _without_trace(self, step: Step) -> Iterator[Step]:
        """Yield the call in a form that leaves its module as it was: free of fake tensors and batch counts."""
        module = step.function
        if not isinstance(module, nn.Module):
            yield step
        elif type(module).__module__.startswith("torch.nn") and not module._forward_hooks | module._forward_pre_hooks:
            yield replace(step, function=self._with_fake_buffers(module)) if module.training else step
        else:
            with unset_fake_temporarily(), preserved(module), self._mode:
                yield step

    def _with_fake_buffers(self, module: nn.Module) -> nn.Module:
        if not any(buffer is not None for buffer in module._buffers.values()):
            return module
        twin = copy.copy(module)
        fake = {name: None if b is None else self._mode.from_tensor(b) for name, b in module._buffers.items()}
        twin.__dict__["_buffers"] = fake
        return twin

    def lacks_kernel(self, step: Step, new: Mapping[Node | Step, Any]) -> Unmet | None:
        """Return the reason if torch has no kernel for a call on these dtypes, which fake tensors hide."""
        if isinstance(step.function, nn.Module) and self.index.paths_of(step.function):
            return None
        told = missing_kernel(step, lambda part: new[part] if part in new else self.old(part))  # type: ignore[arg-type]
        remedy = "give it a node of another dtype"
        return Unmet(f"{step.name} would fail: {told}", remedy, told, "a dtype that it takes") if told else None

    def misfit(self, node: Node, old: Any, value: Any) -> Unmet | None:
        """Return the reason where a result is out of bounds, though torch would compute it."""
        if isinstance(old, torch.Tensor) and not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            return Unmet(f"{node.name} would return a {kind}", "choose a call that returns a tensor", kind, "a tensor")
        size = numel_of(value)
        return Unmet(
            f"{node.name} would return {size:,} numbers, more than {ROOM} times the largest present result",
            "choose a smaller value",
            actual=f"{size:,} numbers",
            needed=f"{self._limit:,} at most",
        ) if size > self._limit else None  # fmt: skip

    def _prepare(self, wanted: Iterable[Node]) -> None:
        todo, needed = list(wanted), set[Node]()
        while todo:
            node = todo.pop()
            if node not in self._values and node not in needed:
                needed.add(node)
                if self._dense(node) is None:
                    todo.extend(inputs_of(node))
        for node in sorted(needed):
            self._values[node] = self._computed(node)

    def _computed(self, node: Node) -> Any:
        dense = self._dense(node)
        if dense is not None:
            return self._fake(dense)
        if node.op == "placeholder":
            raise UnknownError(f"the shape of the input {node.name} is unknown")
        if node.op == "get_attr":
            value = attribute_of(self.index.gm, str(node.target))
            return self._mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
        try:
            return self.value(Step.of(node, self.index), {})
        except Exception as error:
            self.failed.add(node)
            info = info_of(node)
            if info is None:
                raise UnknownError(f"the result of {node.name} is unknown: {first_line(error)}") from error
            return self._fake(info)

    def _dense(self, node: Node) -> TensorInfo | None:
        """Return the metadata of a node where it determines the result completely."""
        known = node.op == "placeholder" or type(self.index.module_of(node)) in _DENSE
        return info_of(node) if known else None

    def _fake(self, info: TensorInfo) -> torch.Tensor:
        try:
            shape = self.sizes.shape(info)
        except ValueError as error:
            raise UnknownError(str(error)) from None
        return torch.empty(shape, dtype=info.dtype, device=info.device)

    def _size(self, node: Node) -> int:
        info = info_of(node)
        try:
            return math.prod(self.sizes.shape(info)) if info is not None else 0
        except ValueError:
            return 0


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
