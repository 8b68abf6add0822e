"""Trials of a captured graph on inputs of which a fact is another than the example's, and in other modes of torch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.graph.nodes import SourceLine
from fxopt.tracing.checks import Check, FactCheck, InputPath, ModeCheck
from fxopt.tracing.facts import FACTS, MODES, Change, changed_by
from fxopt.tracing.inputs import Inputs
from fxopt.tracing.replay import Setting, compare_at


class Trials:
    """Comparisons of graph and model, at `few` sizes; where the model refuses these, at the example's.

    `asked` are the facts and modes that the forward asks for, each with the line that does.
    """

    def __init__(
        self, gm: GraphModule, model: nn.Module, asked: Mapping[str, SourceLine | None], few: Inputs, example: Inputs
    ) -> None:
        self.gm, self.model, self.asked = gm, model, asked
        self._inputs = (few, example)
        self._tensors = {each.path: copy for each, copy in zip(example.tensors, example.copies())}
        self._modes: list[Callable[[], AbstractContextManager[Any]]] = [torch.no_grad]

    def checks(self) -> Iterator[Check]:
        """Yield a check for each mode, and each fact of an input, by which the model goes another way."""
        for name in [name for name in MODES if name in self.asked]:
            yield from self._mode_checks(name)
        for name in [name for name in FACTS if name in self.asked]:
            yield from self._fact_checks(name)

    def _mode_checks(self, name: str) -> Iterator[Check]:
        mode = MODES[name]
        if mode.trial is None:
            yield ModeCheck(name, mode.of(), self.asked[name])
        elif self._differ(Setting(mode=mode.trial)):
            yield ModeCheck(name, "off", self.asked[name])
        elif mode.trial is torch.enable_grad:
            self._modes.append(mode.trial)

    def _fact_checks(self, name: str) -> Iterator[Check]:
        fact = FACTS[name]
        agreed = {path: {fact.of(tensor)} for path, tensor in self._tensors.items()}
        differing: dict[InputPath, set[str]] = {path: set() for path in agreed}
        for other in fact.others:
            answers = self._answers(name, other)
            guilty = self._guilty(other, answers)
            for path, answer in answers.items():
                (differing if path in guilty else agreed)[path].add(answer)
        for path, answers_to_refuse in differing.items():
            if answers_to_refuse:
                yield FactCheck(path, name, tuple(sorted(agreed[path] - answers_to_refuse)), self.asked[name])

    def _answers(self, name: str, other: Change) -> dict[InputPath, str]:
        """Return the answers that `other` gives for the inputs of which it changes the fact."""
        of, found = FACTS[name].of, {}
        for path, tensor in self._tensors.items():
            changed = changed_by(other, tensor)
            if changed is not None and of(changed) != of(tensor):
                found[path] = of(changed)
        return found

    def _guilty(self, other: Change, paths: Collection[InputPath]) -> Collection[InputPath]:
        """Return the inputs of which the change makes a difference; all of them if only the changes together do."""
        if not paths or not self._differ_at(other, paths):
            return ()
        return [path for path in paths if self._differ_at(other, [path])] or paths

    def _differ_at(self, other: Change, paths: Collection[InputPath]) -> bool:
        return any(self._differ(Setting(dict.fromkeys(paths, other), mode)) for mode in self._modes)

    def _differ(self, setting: Setting) -> bool:
        for inputs in self._inputs:
            compared = compare_at(self.gm, self.model, inputs, setting)
            if not compared.refused:
                return compared.difference is not None
        return False
