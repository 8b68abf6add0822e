"""The laws, each a function whose name is the sentence."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.fx import GraphModule

from fxopt.core import (
    FxoptWarning,
    GraphIndex,
    Ledger,
    Match,
    Pass,
    RewriteError,
    fingerprint,
    shared_copy,
)
from fxopt.evidence.difference import same_bits
from fxopt.evidence.running import run
from fxopt.testing.breach import LawBroken, demand
from fxopt.testing.case import Case, copied
from fxopt.testing.outputs import compare_outputs
from fxopt.testing.probes import failing, pickled, world

Law = Callable[[Pass[Any], Case], None]

_SITES_TRIED = 6
"""The number of sites of one model that are switched one by one."""


def scan_changes_nothing_and_says_what_apply_does(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = fingerprint(gm)
    scan = pass_.scan(gm)
    sites = [match.site for match in scan.matches]
    demand(fingerprint(gm) == before, "scan changed the graph")
    demand([match.site for match in pass_.scan(gm).matches] == sites, "a second scan finds other sites")
    pass_(gm)
    done = [entry.site for entry in Ledger.entries_of(gm)]
    demand([site for site in done if site in sites] == sites, f"scan finds {sites}, but apply rewrites {done}")
    index = GraphIndex(case.graph())
    for site in set(done) - {found.site for found in (*scan.matches, *scan.misses)}:
        # the additional sites are those that one site made possible at another
        at_first = pass_.match(index.nodes[site], index) if site in index.nodes else None
        demand(not isinstance(at_first, Match), f"scan is silent about {site}, but apply rewrites it: {done}")


def outputs_are_as_exact_as_declared(pass_: Pass[Any], case: Case) -> None:
    after = case.graph()
    declared = {pass_.exactness(match) for match in pass_.scan(after).matches}
    pass_(after)
    after.graph.lint()
    claims = {entry.exactness for entry in Ledger.entries_of(after)}
    demand(declared <= claims, f"the scan declares {declared}, the sites in force {claims}")
    compare_outputs(case, after, claims)


def reverse_restores_everything_to_the_bit(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before, keys, code = fingerprint(gm), list(gm.state_dict()), gm.code
    pass_(gm)
    demand(_reverse(pass_, gm) is gm, "reverse returns another graph module")
    demand(list(gm.state_dict()) == keys, f"the state_dict had the keys {keys}, and has {list(gm.state_dict())}")
    demand(gm.code == code, f"the code was\n{code}\nand is\n{gm.code}")
    demand(fingerprint(gm) == before, "the graph module has changed")


def a_second_run_finds_nothing(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    pass_(gm)
    once = fingerprint(gm)
    found = [match.site for match in pass_.scan(gm).matches]
    demand(not found, f"a scan after the first run finds {found}")
    pass_(gm)
    demand(fingerprint(gm) == once, "a second run changed the graph")


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
    demand(now == modules, "its modules have changed")
    tensors = _held(model)
    demand(list(tensors) == list(kept), "its parameters and buffers are others than before")
    for name, tensor in tensors.items():
        identity, numbers = kept[name]
        demand(id(tensor) == identity and same_bits(tensor.detach(), numbers), f"{name} was changed")


def a_failure_leaves_the_graph_as_it_was(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = fingerprint(gm)
    pass_(gm)
    changes = sum(len(entry.patch.changes) for entry in Ledger.entries_of(gm))
    for last in sorted({1, changes // 2, changes - 1} & set(range(1, changes + 1))):
        gm = case.graph()
        try:
            failing(pass_, last)(gm)
        except RewriteError as error:
            demand("on purpose" in str(error), f"a failure in change {last} of {changes} is told as: {error}")
        else:
            raise LawBroken(f"an exception in change {last} of {changes} was swallowed")
        demand(fingerprint(gm) == before, f"an exception in change {last} of {changes} left the graph changed")


def the_way_back_survives_copies_and_files(pass_: Pass[Any], case: Case) -> None:
    for travel, how in ((copied, "copy.deepcopy"), (pickled, "pickle")):
        twin = travel(pass_)
        demand(twin.signature == pass_.signature, f"the pass has another signature after {how}")
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
        demand(list(gone.state_dict()) == list(pristine.state_dict()), f"after {how}, reverse gives other parameters")
        demand(all(same_bits(t, tensors[name]) for name, t in _stored(gone).items()), f"{how} changed numbers")
        names = [node.name for node in gone.graph.nodes]
        demand(names == [node.name for node in pristine.graph.nodes], f"after {how}, reverse gives the nodes {names}")
        demand(gone.code == pristine.code, f"after {how}, reverse gives other code:\n{gone.code}")


def there_are_no_hidden_effects(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    before = world()
    signature = pass_.signature
    for match in pass_.scan(gm).matches:
        pass_.explain(match)
    pass_(gm)
    pass_.undo(gm)
    for name, value in world().items():
        demand(value == before[name], f"it changed {name}")
    demand(pass_.signature == signature, "its signature changed in the course of running")


def every_site_can_be_switched_alone(pass_: Pass[Any], case: Case) -> None:
    gm = case.graph()
    start = fingerprint(gm)
    sites = [match.site for match in pass_.scan(gm).matches][:_SITES_TRIED]
    for site in sites:
        pass_.turn_on(gm, site)
        demand(pass_.sites_on(gm) == (site,), f"{site} was turned on alone, and {pass_.sites_on(gm)} are on")
        compare_outputs(case, gm, {entry.exactness for entry in Ledger.entries_of(gm)})
        pass_.turn_off(gm, site)
        demand(fingerprint(gm) == start, f"turning {site} on and off again left the graph changed")
    for site in sites:
        pass_.turn_on(gm, site)
    for site in sites:
        if site in pass_.sites_on(gm):
            pass_.turn_off(gm, site)
        built = case.graph()
        for on in pass_.sites_on(gm):
            pass_.turn_on(built, on)
        demand(
            fingerprint(gm) == fingerprint(built),
            f"after turning {site} off, the graph differs from one of the sites that are on",
        )
    demand(fingerprint(gm) == start, "turning all sites off left the graph changed")


def every_site_is_explained_and_every_miss_has_a_reason(pass_: Pass[Any], case: Case) -> None:
    scan = pass_.scan(case.graph())
    for match in scan.matches:
        text = pass_.explain(match)
        demand(any(node.name in text for node in match.nodes), f"the explanation of {match.site} names no node: {text}")
    for miss in scan.misses:
        demand(bool(miss.reason.strip()), f"the miss at {miss.site} has no reason")
        demand(str(miss).startswith(miss.site), f"the miss at {miss.site} does not name it: {miss}")


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


def _reverse(pass_: Pass[Any], gm: GraphModule) -> GraphModule:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*nothing was reversed", FxoptWarning)
        return pass_(gm, reverse=True)


def _held(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers themselves, under every name."""
    return {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }


def _stored(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Return the tensors of the state dict, which for quantized layers has tuples and dtypes as well."""
    return {name: value for name, value in gm.state_dict().items() if isinstance(value, torch.Tensor)}
