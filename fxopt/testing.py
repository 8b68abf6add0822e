"""The laws that every pass obeys, for your own passes as well: one call, `check_pass`.

>>> import torch, fxopt
>>> from fxopt.testing import check_pass
>>> class Scale(torch.nn.Module):
...     def forward(self, scores):
...         return scores / 8
>>> print(check_pass(fxopt.ChangeTrueDivToMulByInverse(), [(Scale(), (torch.rand(2, 3),))]))
ChangeTrueDivToMulByInverse obeys 10 laws on 1 model (1 site: Scale 1)
"""

from __future__ import annotations

import contextlib
import copy
import pickle
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from fxopt.core import (
    Exactness,
    FxoptWarning,
    GraphIndex,
    Ledger,
    Match,
    Pass,
    RewriteError,
    Rewriter,
    fingerprint,
    shared_copy,
)
from fxopt.evidence.float64 import in_float64, run_in_float64
from fxopt.evidence.running import run
from fxopt.tracing import capture

Model = tuple[nn.Module, tuple[Any, ...]]
Law = Callable[[Pass[Any], "Case"], None]

_SITES_TRIED = 6
"""The number of sites of one model that are switched one by one."""


class LawBroken(AssertionError):  # noqa: N818 - the fault is in the pass, not in the program that raises it
    """A pass breaks a law; the message names the pass, the model, the law and the fact."""


@dataclass(frozen=True, eq=False)
class Case:
    """A model that laws are checked on."""

    name: str
    model: nn.Module
    inputs: tuple[tuple[Any, ...], ...]
    """One or more tuples of positional arguments."""
    captured: GraphModule = field(repr=False)
    """Its graph, which shares modules and weights with the model."""
    pristine: GraphModule = field(repr=False)
    """A copy with memory of its own."""
    skipped: list[str] = field(default_factory=list)
    """The checks left out for this model, with the reasons."""

    @classmethod
    def of(cls, name: str, model: nn.Module, *inputs: tuple[Any, ...]) -> Case:
        """Return the case of a model, which is captured, or of a graph module, which is taken as it is."""
        gm = model if isinstance(model, GraphModule) else capture(model, inputs[0])
        return cls(name, model, inputs, gm, _copied(gm))

    def graph(self) -> GraphModule:
        """Return a fresh copy of the graph, free to be changed."""
        return _copied(self.pristine)

    @cached_property
    def expected(self) -> list[tuple[list[torch.Tensor], list[torch.Tensor] | None]]:
        """For each of the inputs, the outputs before any pass, and the outputs without rounding.

        The latter are None where the model cannot run in float64, and `skipped` says so.
        """
        old = [_tensors(run(self.graph(), x, {})) for x in self.inputs]
        narrow: dict[str, None] = {}
        try:
            with _torch_may_copy():
                wide = in_float64(self.pristine)
            exact = [_tensors(run_in_float64(wide, x, {}, narrow)) for x in self.inputs]
        except Exception as error:  # noqa: BLE001 - a model may fail in any way in another precision than its own
            why = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
            self.skipped.append(f"{self.name}: no float64 reference ({why}); outputs are compared with those before")
            return [(before, None) for before in old]
        if narrow:
            self.skipped.append(f"{self.name}: {', '.join(narrow)} runs in its own precision in the reference as well")
        return list(zip(old, exact, strict=True))


@dataclass(frozen=True)
class LawReport:
    """The result of `check_pass`: the laws, models and sites that it has checked."""

    pass_name: str
    laws: tuple[str, ...]
    sites_of: dict[str, int]
    """The number of sites by the name of the model."""
    skipped: tuple[str, ...]
    """The checks left out, with the reasons."""

    @property
    def sites(self) -> int:
        return sum(self.sites_of.values())

    def __str__(self) -> str:
        found = ", ".join(f"{name} {count}" for name, count in self.sites_of.items())
        models, sites = _count(len(self.sites_of), "model"), _count(self.sites, "site")
        return f"{self.pass_name} obeys {len(self.laws)} laws on {models} ({sites}: {found})"


def check_pass(pass_: Pass[Any], models: Iterable[Model | Case], *, needs_sites: bool = True) -> LawReport:
    """Check every law of passes on every model.

    Args:
        pass_: an instance of a pass, or a rule made by `fxopt.rewrite`.
        models: pairs of a model, or of a graph module, and a tuple of its positional arguments. A model is captured.
        needs_sites: whether there must be a site in at least one model. A check on no site can never fail.

    Raises:
        LawBroken: a law does not hold, or no model has a site.
        TypeError: `pass_` is something else than an instance of a pass.
    """
    given: object = pass_
    if not isinstance(given, Pass):
        hint = "; call it to make an instance" if isinstance(given, type) else ""
        raise TypeError(f"check_pass checks an instance of fxopt.Pass, not {given!r}{hint}")
    cases = _cases(models)
    for case in cases:
        for law in LAWS:
            check(law, pass_, case)
    sites = {case.name: len(pass_.scan(case.graph()).matches) for case in cases}
    report = LawReport(pass_.name, tuple(map(title, LAWS)), sites, tuple(s for case in cases for s in case.skipped))
    if needs_sites and not report.sites:
        raise LawBroken(
            f"{pass_.name} has no site in any of {_count(len(cases), 'model')}, so nothing was checked: "
            "give a model in which it applies, or needs_sites=False"
        )
    return report


def check(law: Law, pass_: Pass[Any], case: Case) -> None:
    """Check one law of `LAWS` on one model.

    Raises:
        LawBroken: the pass breaks it.
    """
    try:
        law(pass_, case)
    except Exception as error:
        reason = str(error) if isinstance(error, LawBroken) else f"{type(error).__name__}: {error}"
        raise LawBroken(f"{pass_.name} on {case.name}, law: {title(law)}: {reason}") from error


def title(law: Law) -> str:
    """Return the law as a sentence."""
    return getattr(law, "__name__", "law").replace("_", " ")


# ---- the laws


def scan_changes_nothing_and_says_what_apply_does(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = fingerprint(gm)
    scan = pass_.scan(gm)
    sites = [match.site for match in scan.matches]
    _demand(fingerprint(gm) == before, "scan changed the graph")
    _demand([match.site for match in pass_.scan(gm).matches] == sites, "a second scan finds other sites")
    pass_(gm)
    done = [entry.site for entry in Ledger.entries_of(gm)]
    _demand([site for site in done if site in sites] == sites, f"scan finds {sites}, but apply rewrites {done}")
    index = GraphIndex(case.graph())
    for site in set(done) - {found.site for found in (*scan.matches, *scan.misses)}:
        # the additional sites are those that one site made possible at another
        at_first = pass_.match(index.nodes[site], index) if site in index.nodes else None
        _demand(not isinstance(at_first, Match), f"scan is silent about {site}, but apply rewrites it: {done}")


def outputs_are_as_exact_as_declared(pass_: Pass[Any], case: Case) -> None:
    after = case.graph()
    declared = {pass_.exactness(match) for match in pass_.scan(after).matches}
    pass_(after)
    after.graph.lint()
    claims = {entry.exactness for entry in Ledger.entries_of(after)}
    _demand(declared <= claims, f"the scan declares {declared}, the sites in force {claims}")
    _compare_outputs(case, after, claims)


def reverse_restores_everything_to_the_bit(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before, keys, code = fingerprint(gm), list(gm.state_dict()), gm.code
    pass_(gm)
    _demand(_reverse(pass_, gm) is gm, "reverse returns another graph module")
    _demand(list(gm.state_dict()) == keys, f"the state_dict had the keys {keys}, and has {list(gm.state_dict())}")
    _demand(gm.code == code, f"the code was\n{code}\nand is\n{gm.code}")
    _demand(fingerprint(gm) == before, "the graph module is not what it was")


def a_second_run_finds_nothing(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    pass_(gm)
    once = fingerprint(gm)
    found = [match.site for match in pass_.scan(gm).matches]
    _demand(not found, f"a scan after the first run finds {found}")
    pass_(gm)
    _demand(fingerprint(gm) == once, "a second run changed the graph")


def the_users_model_is_never_touched(pass_: Pass[Any], case: Case) -> None:
    model = case.model
    modules = {path: (id(m), m.training, len(vars(m))) for path, m in model.named_modules(remove_duplicate=False)}
    tensors = _held(model)
    kept = {name: (id(t), t.detach().clone()) for name, t in tensors.items()}
    gm = shared_copy(case.captured)
    pass_(gm)
    run(gm, case.inputs[0], {})
    pass_.undo(gm)
    now = {path: (id(m), m.training, len(vars(m))) for path, m in model.named_modules(remove_duplicate=False)}
    _demand(now == modules, "its modules are not what they were")
    tensors = _held(model)
    _demand(list(tensors) == list(kept), "its parameters and buffers are not those that there were")
    for name, tensor in tensors.items():
        identity, numbers = kept[name]
        _demand(id(tensor) == identity and _same_bits(tensor.detach(), numbers), f"{name} was changed")


def a_failure_leaves_the_graph_as_it_was(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = fingerprint(gm)
    pass_(gm)
    changes = sum(len(entry.patch.changes) for entry in Ledger.entries_of(gm))
    for last in sorted({1, changes // 2, changes - 1} & set(range(1, changes + 1))):
        gm = case.graph()
        try:
            _failing(pass_, last)(gm)
        except RewriteError as error:
            _demand("on purpose" in str(error), f"a failure in change {last} of {changes} is told as: {error}")
        else:
            raise LawBroken(f"an exception in change {last} of {changes} was swallowed")
        _demand(fingerprint(gm) == before, f"an exception in change {last} of {changes} left the graph changed")


def the_way_back_survives_copies_and_files(pass_: Pass[Any], case: Case) -> None:
    for travel, how in ((_copied, "copy.deepcopy"), (_pickled, "pickle")):
        twin = travel(pass_)
        _demand(twin.signature == pass_.signature, f"the pass has another signature after {how}")
        try:
            pristine = travel(case.graph())
            same = [node.name for node in pristine.graph.nodes] == [node.name for node in case.pristine.graph.nodes]
        except (RuntimeError, TypeError, AttributeError, NameError, ValueError, pickle.PicklingError) as error:
            case.skipped.append(f"{case.name}: torch cannot take the graph through {how} ({type(error).__name__})")
            continue
        if not same:
            case.skipped.append(f"{case.name}: {how} changes the graph even without a pass")
            continue
        gm = case.graph()
        tensors = {name: t.detach().clone() for name, t in _stored(gm).items()}
        pass_(gm)
        gone = travel(gm)
        if Ledger.entries_of(gm):
            twin(gone, reverse=True)
        _demand(list(gone.state_dict()) == list(pristine.state_dict()), f"after {how}, reverse gives other parameters")
        _demand(all(_same_bits(t, tensors[name]) for name, t in _stored(gone).items()), f"{how} changed numbers")
        names = [node.name for node in gone.graph.nodes]
        _demand(names == [node.name for node in pristine.graph.nodes], f"after {how}, reverse gives the nodes {names}")
        _demand(gone.code == pristine.code, f"after {how}, reverse gives other code:\n{gone.code}")


def there_are_no_hidden_effects(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = _world()
    signature = pass_.signature
    for match in pass_.scan(gm).matches:
        pass_.explain(match)
    pass_(gm)
    pass_.undo(gm)
    for name, value in _world().items():
        _demand(value == before[name], f"it changed {name}")
    _demand(pass_.signature == signature, "its signature changed in the course of running")


def every_site_can_be_switched_alone(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    start = fingerprint(gm)
    sites = [match.site for match in pass_.scan(gm).matches][:_SITES_TRIED]
    for site in sites:
        pass_.turn_on(gm, site)
        _demand(pass_.sites_on(gm) == (site,), f"{site} was turned on alone, and {pass_.sites_on(gm)} are on")
        _compare_outputs(case, gm, {entry.exactness for entry in Ledger.entries_of(gm)})
        pass_.turn_off(gm, site)
        _demand(fingerprint(gm) == start, f"turning {site} on and off again left the graph changed")
    for site in sites:
        pass_.turn_on(gm, site)
    for site in sites:
        if site in pass_.sites_on(gm):
            pass_.turn_off(gm, site)
        built = case.graph()
        for on in pass_.sites_on(gm):
            pass_.turn_on(built, on)
        _demand(fingerprint(gm) == fingerprint(built), f"after turning {site} off, the graph is not that of what is on")
    _demand(fingerprint(gm) == start, "turning all sites off left the graph changed")


def every_site_is_explained_and_every_miss_has_a_reason(pass_: Pass[Any], case: Case) -> None:
    scan = pass_.scan(case.graph())
    for match in scan.matches:
        text = pass_.explain(match)
        _demand(
            any(node.name in text for node in match.nodes), f"the explanation of {match.site} names no node: {text}"
        )
    for miss in scan.misses:
        _demand(bool(miss.reason.strip()), f"the miss at {miss.site} has no reason")
        _demand(str(miss).startswith(miss.site), f"the miss at {miss.site} does not name it: {miss}")


LAWS: tuple[Law, ...] = (
    scan_changes_nothing_and_says_what_apply_does,
    outputs_are_as_exact_as_declared,
    reverse_restores_everything_to_the_bit,
    a_second_run_finds_nothing,
    the_users_model_is_never_touched,
    a_failure_leaves_the_graph_as_it_was,
    the_way_back_survives_copies_and_files,
    there_are_no_hidden_effects,
    every_site_can_be_switched_alone,
    every_site_is_explained_and_every_miss_has_a_reason,
)


# ---- how they are checked


def _cases(models: Iterable[Model | Case]) -> list[Case]:
    cases: list[Case] = []
    for given in models:
        if isinstance(given, Case):
            cases.append(given)
            continue
        model, args = given
        name = type(model).__name__
        taken = sum(case.name == name or case.name.startswith(f"{name} #") for case in cases)
        cases.append(Case.of(f"{name} #{taken + 1}" if taken else name, model, args))
    return cases


def _demand(holds: bool, fact: str) -> None:
    if not holds:
        raise LawBroken(fact)


def _reverse(pass_: Pass[Any], gm: GraphModule) -> GraphModule:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*nothing was reversed", FxoptWarning)
        return pass_(gm, reverse=True)


def _compare_outputs(case: Case, after: GraphModule, claims: set[Exactness]) -> None:
    for args, (old, exact) in zip(case.inputs, case.expected):
        new = _tensors(run(after, args, {}))
        _demand(len(old) == len(new), f"there were {len(old)} outputs and are {len(new)}")
        for i, (a, b, reference) in enumerate(zip(old, new, exact or repeat(None))):
            _compare_output(f"output {i}", a, b, reference, claims)


def _compare_output(
    name: str, old: torch.Tensor, new: torch.Tensor, reference: torch.Tensor | None, claims: set[Exactness]
) -> None:
    if Exactness.CHANGES in claims:
        return
    _demand(old.shape == new.shape, f"{name} had shape {tuple(old.shape)}, and has {tuple(new.shape)}")
    _demand(old.dtype == new.dtype, f"{name} was {old.dtype}, and is {new.dtype}")
    if claims <= {Exactness.BITWISE} or not (old.is_floating_point() or old.is_complex()):
        _demand(_same_bits(old, new), f"{name} is declared to have the same bits, and differs by {_distance(old, new)}")
        return
    exact = old if reference is None else reference
    finite = exact.isfinite() & old.isfinite()
    _demand(bool((finite == (finite & new.isfinite())).all()), f"{name} is not finite where it was")
    scale = float(exact[finite].abs().max()) if finite.any() else 0.0
    old_error, new_error = _distance(old[finite], exact[finite]), _distance(new[finite], exact[finite])
    # if the reference is missing, the error before is unknown, and the difference holds both errors
    steps = 32 if reference is not None else 160
    bound = 4 * old_error + steps * torch.finfo(old.dtype).eps * max(scale, 1.0)
    if Exactness.APPROXIMATE in claims:
        bound = max(bound, scale / 8)
    _demand(new_error <= bound, f"{name} is off the exact value by {new_error:.3g}; it was {old_error:.3g} before")


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return float((a.to(wide) - b.to(wide)).abs().max()) if a.numel() else 0.0


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Return whether two tensors hold the same numbers, with NaN at the same places."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return bool(torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))


def _tensors(result: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _held(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers themselves, under every name."""
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def _stored(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors of the state dict, which for quantized layers has tuples and dtypes as well."""
    return {name: value for name, value in gm.state_dict().items() if isinstance(value, torch.Tensor)}


@contextlib.contextmanager
def _torch_may_copy() -> Iterator[None]:
    """Silence torch's warning about the way in which it copies exported programs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".isinstance.treespec, LeafSpec", FutureWarning)
        yield


def _copied(thing: Any) -> Any:
    with _torch_may_copy():
        return copy.deepcopy(thing)


def _pickled(thing: Any) -> Any:
    with warnings.catch_warnings():
        # torch tells of the way in which it pickles quantized tensors itself
        warnings.filterwarnings("ignore", "TypedStorage is deprecated", UserWarning)
        return pickle.loads(pickle.dumps(thing))


def _failing(pass_: Pass[Any], last: int) -> Pass[Any]:
    """Return a twin of `pass_` that raises in the middle of a rewrite, at the edit number `last`."""
    kind, signature, made = type(pass_), pass_.signature, 0

    class Failing(kind):  # type: ignore[misc,valid-type]
        @property
        def signature(self) -> str:
            return signature

        def rewrite(self, match: Any, rewriter: Rewriter) -> None:
            do = rewriter._do

            def count(change: Any) -> None:
                nonlocal made
                made += 1
                do(change)
                if made == last:
                    raise ZeroDivisionError("on purpose")

            rewriter._do = count  # type: ignore[method-assign]
            kind.rewrite(self, match, rewriter)

    twin: Pass[Any] = object.__new__(Failing)
    twin.__dict__.update(vars(pass_))
    return twin


def _world() -> dict[str, object]:
    """Return the state outside the graph, which a pass must leave alone."""
    state: Any = np.random.get_state(legacy=True)
    return {
        "the random numbers of torch": torch.get_rng_state().tolist(),
        "the random numbers of Python": random.getstate(),
        "the random numbers of numpy": [part.tolist() if isinstance(part, np.ndarray) else part for part in state],
        "the default dtype": torch.get_default_dtype(),
        "the number of threads": torch.get_num_threads(),
        "the grad mode": torch.is_grad_enabled(),
        "the warnings filters": list(warnings.filters),
        "the way modules are called": nn.Module.__call__,
    }


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
