"""`fxopt.explore`: the page on models that a script, a REPL or a notebook holds."""

from __future__ import annotations

import sys
import threading
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from torch import nn
from torch.fx import GraphModule

from fxopt.core import Ledger, Log
from fxopt.errors import FxoptError, ModelError, RewriteError, warn
from fxopt.models import as_inputs
from fxopt.tracing import example_inputs
from fxopt.tracing.recalled import recalled_inputs
from fxopt.ui.own_models import OwnModel, offer_also, withdraw
from fxopt.ui.own_server import Keeper, OwnServer, has_display

_lock = threading.Lock()
_server: OwnServer | None = None
_keeper: Keeper | None = None
_open: list[Exploration] = []


@dataclass(frozen=True, eq=False)
class Exploration:
    """A model that the page is open on."""

    name: str
    """Its name in the picker of models."""
    url: str
    """The address of the page, for this machine alone; it has a token, without which nobody is let in."""
    model: OwnModel
    others: tuple[OwnModel, ...] = ()
    """Of the further steps of a pipeline."""

    def close(self) -> None:
        """Take the model off the page. A script may end once all are closed; no browser window is closed by it."""
        global _keeper
        with _lock:
            for model in (self.model, *self.others):
                withdraw(model)
            if self in _open:
                _open.remove(self)
            if not _open and _keeper is not None:
                _keeper.end()
                _keeper = None

    def __repr__(self) -> str:
        return f"fxopt.explore: {self.name} is at {self.url}"


@overload
def explore(
    model: nn.Module,
    /,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    open_browser: bool = True,
) -> Exploration: ...


@overload
def explore(
    log: Log,
    /,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    open_browser: bool = True,
) -> Exploration: ...


@overload
def explore(
    before: nn.Module,
    after: nn.Module,
    /,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    open_browser: bool = True,
) -> Exploration: ...


def explore(
    *given: Any,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    open_browser: bool = True,
) -> Exploration:
    """Open the page on a model, in the browser, and return: ``explore(model, inputs)`` or ``explore(before, after)``.

    ``explore(log)`` opens it on a pipeline that `fxopt.record` has recorded: the picker of models has its steps that
    changed something, in order, each as the graph before and after.

    The page is served by a thread of this process, on loopback and behind a token: it looks at the very model and
    pickles nothing. Each call adds a model to the same page; one of the same name takes the place of the one before. A
    script that has come to its end stays for the page, until Ctrl+C; a REPL or a notebook goes on.

    Two models are compared: the second one was made of the first by code of your own. Where their nodes, modules and
    numbers differ is a pass, which is on, with a site for each difference that does not touch another one.

    Args:
        given: the model, in evaluation mode; it is captured here and never changed. Or a graph module, captured or
            traced before. Then the model to compare it with, if any, and the inputs.
        inputs: an example: a tuple of positional arguments, a mapping of keyword arguments, or one tensor. If not
            given, of a captured graph like those it was captured with, and otherwise made from the config of the model
            (`fxopt.example_inputs`).
        kwargs: keyword arguments beside positional `inputs`.
        name: in the picker of models; the name of the class if not given.
        open_browser: whether the page is opened in a browser; the address is printed in any case.

    Raises:
        fxopt.CaptureError: the model cannot be captured. The page shows the reason too, with the graph so far.
        FxoptError: no example can be made, an argument is of another kind, or the page cannot be served: Streamlit
            is missing (``pip install 'fxopt[app]'``), or serves another page in this process.

    Warns:
        FxoptWarning: the model is in training mode, or its capture has a remark.
    """
    if given and isinstance(given[0], Log):
        return _explore_steps(given[0], given[1:], inputs, kwargs, name, open_browser)
    model, after, example = _arguments(given, inputs)
    if example is not None:
        args, named = as_inputs(example)
    elif isinstance(model, GraphModule):
        args, named = (), recalled_inputs(model)
    else:
        args, named = (), {} if kwargs else example_inputs(model)
    return _shown(
        [OwnModel.of(name or type(model).__name__, model, args, {**named, **(kwargs or {})}, after)], open_browser
    )


def _explore_steps(
    log: Log, rest: tuple[Any, ...], inputs: Any, kwargs: Mapping[str, Any] | None, name: str, open_browser: bool
) -> Exploration:
    """Open the page on the steps of a pipeline that changed something."""
    if len(rest) > 1 or (rest and inputs is not None):
        raise ModelError("fxopt.explore takes a log and the inputs of its graphs; this is more")
    example = rest[0] if rest else inputs
    args, named = ((), {}) if example is None else as_inputs(example)
    named = {**named, **(kwargs or {})}
    models = []
    for i, step in enumerate(log.steps, 1):
        if step.is_changed:
            given = (step.inputs, {}) if step.inputs else (args, named)
            found = given if given[0] or given[1] else ((), recalled_inputs(step.before))
            title = f"{name + ': ' if name else ''}{i}. {step.title}, {step.seconds * 1000:.1f} ms"
            models.append(OwnModel.of(title, step.before, *found, step.after))
    if not models:
        raise ModelError(f"no step of this log has changed a graph, so there is nothing to step through: {log!r}")
    return _shown(models, open_browser)


def _shown(models: Sequence[OwnModel], open_browser: bool) -> Exploration:
    """Open the page on the first of these models; all are in the picker, in this order."""
    for own in models:
        for remark in own.remarks:
            warn(f"{own.title}: {remark}")
        if own.model.training and not isinstance(own.model, GraphModule):
            warn(f"{own.title} is in training mode, where most passes leave it alone; for inference: model.eval()")
    opened = _opened(models)
    sys.stdout.write(f"{opened}\n")
    sys.stdout.flush()
    if open_browser and has_display():
        webbrowser.open(opened.url)
    for own in models:
        if isinstance(own.captured, FxoptError):
            raise own.captured
    return opened


def _arguments(given: tuple[Any, ...], inputs: Any) -> tuple[nn.Module, nn.Module | None, Any]:
    models = [one for one in given[:2] if isinstance(one, nn.Module)]
    rest = given[len(models) :]
    if not models or not isinstance(given[0], nn.Module):
        kind = type(given[0]).__name__ if given else "nothing"
        raise ModelError(f"fxopt.explore opens a torch.nn.Module; this is {kind}")
    if len(rest) > 1 or (rest and inputs is not None):
        raise ModelError("fxopt.explore takes a model and its inputs, or two models and their inputs; this is more")
    model = models[0]
    if isinstance(model, GraphModule) and Ledger.entries_of(model):
        raise RewriteError("this graph module has passes in force; reverse them, or give explore(before, after)")
    return model, models[1] if len(models) > 1 else None, rest[0] if rest else inputs


def _opened(models: Sequence[OwnModel]) -> Exploration:
    global _server, _keeper
    with _lock:
        if _server is None:
            _server = OwnServer()
        for own in reversed(models):
            offer_also(own)
        if _keeper is None:
            _keeper = Keeper()
        own, *others = models
        _open[:] = [one for one in _open if one.name != own.title]
        opened = Exploration(own.title, _server.address(model=own.key), own, tuple(others))
        _open.append(opened)
        return opened
