"""`check_pass` finds passes that do not obey the laws."""

import math
import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule, Node

import fxopt
from fxopt import Exactness, Match, Miss, Pass, Rewriter
from fxopt.core import GraphIndex, Unmet
from fxopt.testing import LAWS, Case, Law, LawBroken, check, check_pass, laws, title
from tests.passes.asserts import Net
from tests.quick import third

X = torch.linspace(-1, 1, 12).view(3, 4)


@dataclass(frozen=True, eq=False)
class Product(Match):
    pass


class DoubleNegation(Pass[Product]):
    """Replace `x * 4` with `x * 2 * 2`: a pass that obeys every law."""

    targets = (operator.mul,)

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        return Product(node) if node.args[1] == 4 else Miss(node, Unmet(f"{node.name} is not by 4"))

    def explain(self, match: Product) -> str:
        return f"{match.anchor.name} is two products"

    def exactness(self, match: Product) -> Exactness:
        return Exactness.BITWISE

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        first = rewriter.call_function(operator.mul, (match.anchor.args[0], 2), made_from=(match.anchor,))
        rewriter.set_call(match.anchor, "call_function", operator.mul, (first, 2), {})


class Wrong(DoubleNegation):
    """Replace `x * 4` with `x * 2`."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        rewriter.set_call(match.anchor, "call_function", operator.mul, (match.anchor.args[0], 2), {})


class NotTheSameBits(DoubleNegation):
    """Replace `x * 4` with `x * 4.0000001`."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        x = rewriter.call_function(operator.mul, (match.anchor.args[0], 1.0000001), made_from=(match.anchor,))
        rewriter.set_call(match.anchor, "call_function", operator.mul, (x, 4.0), {})


class LosesTheSignOfZero(DoubleNegation):
    """Replace `x * 4` with `x * 4 + 0`."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        product = rewriter.call_function(operator.mul, match.anchor.args, made_from=(match.anchor,))
        rewriter.set_call(match.anchor, "call_function", operator.add, (product, 0), {})


class LosesInfinity(DoubleNegation):
    """Replace `x * 4` with a product of finite numbers."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        x = rewriter.call_function(torch.clamp, (match.anchor.args[0], -1e30, 1e30), made_from=(match.anchor,))
        rewriter.set_call(match.anchor, "call_function", operator.mul, (x, 4), {})


class LosesNaN(DoubleNegation):
    """Replace `x * 4` with a product of numbers."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        x = rewriter.call_function(torch.nan_to_num, (match.anchor.args[0], 1, math.inf, -math.inf), made_from=())
        rewriter.set_call(match.anchor, "call_function", operator.mul, (x, 4), {})


class Underflows(DoubleNegation):
    """Replace `x * 4` with `x / 2**100 * 2**102`."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        x = rewriter.call_function(operator.truediv, (match.anchor.args[0], 2.0**100), made_from=(match.anchor,))
        rewriter.set_call(match.anchor, "call_function", operator.mul, (x, 2.0**102), {})


class BehindTheBack(DoubleNegation):
    """Replace `x * 4` by hand."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        match.anchor.args = (match.anchor.args[0], 4.0)


class ChangesWhenLooking(DoubleNegation):
    """Rename the node that it looks at."""

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        node.meta["seen"] = True
        return super().match(node, index)


class SaysOtherwise(DoubleNegation):
    """Find more than it does."""

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        return super().match(node, index) if list(node.users) else None

    def scan(self, gm: Any) -> Any:
        found = super().scan(gm)
        return type(found)(found.matches[:1], found.misses)


class WritesToTheModel(DoubleNegation):
    """Write to the weights of the model."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        super().rewrite(match, rewriter)
        with torch.no_grad():
            for parameter in rewriter.index.gm.parameters():
                parameter.mul_(1.0000002)


class Draws(DoubleNegation):
    """Draw a number."""

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        torch.rand(1)
        return super().match(node, index)


class DrawsInPython(DoubleNegation):
    """Draw a number, in Python."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        random.random()
        super().rewrite(match, rewriter)


class Swallows(DoubleNegation):
    """Ignore an error."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        try:
            super().rewrite(match, rewriter)
        except ZeroDivisionError:
            return


class Forgetful(DoubleNegation):
    """Give another signature each time."""

    def __init__(self) -> None:
        self.seen = 0

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        self.seen += 1
        super().rewrite(match, rewriter)


class Nameless(DoubleNegation):
    """Have another name in each copy."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Pass[Any]:
        return Forgetful()


class Restless(DoubleNegation):
    """Leave something to do behind."""

    def transform(self, graph_module: GraphModule) -> GraphModule:
        for node in graph_module.graph.nodes:
            if node.target is operator.mul and node.args[1] == 3:
                node.args = (node.args[0], 4)
        return graph_module


class Silent(DoubleNegation):
    """Explain nothing."""

    def explain(self, match: Product) -> str:
        return "it is better"


class NoReason(DoubleNegation):
    """Give no reason."""

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        return super().match(node, index) if node.args[1] == 4 else Miss(node, Unmet(""))


class AtOnce(DoubleNegation):
    """Rewrite other sites too."""

    def rewrite(self, match: Product, rewriter: Rewriter) -> None:
        for node in list(rewriter.index.nodes.values()):
            if node.target is operator.mul and node.args[1] == 4:
                super().rewrite(Product(node), rewriter)


class OffByOne(DoubleNegation):
    """Raise in the middle."""

    def match(self, node: Node, index: GraphIndex) -> Product | Miss | None:
        raise IndexError("list index out of range")


def model(forward: Callable[..., Any] = lambda m, x: (m.a(x * 4) * 3, (x * 4).neg())) -> nn.Module:
    return Net(forward, a=nn.Linear(4, 4)).eval()


def test_a_good_pass_gets_a_report() -> None:
    report = check_pass(DoubleNegation(), [(model(), (X,)), (model(lambda m, x: x.relu()), (X,))])
    assert report.sites_of == {"Net": 2, "Net #2": 0}
    assert report.sites == 2
    assert len(report.laws) == len(LAWS)
    assert str(report).startswith(f"DoubleNegation obeys {len(LAWS)} laws on 2 models (2 sites")


def test_graph_modules_are_taken_as_they_are() -> None:
    gm = fxopt.capture(model(), (X,))
    before = fxopt.fingerprint(gm)
    assert check_pass(DoubleNegation(), [(gm, (X,))]).sites == 2
    assert fxopt.fingerprint(gm) == before


BROKEN: list[tuple[type[Pass[Any]], Law, str]] = [
    (ChangesWhenLooking, laws.scan_changes_nothing_and_says_what_apply_does, "scan changed the graph"),
    (SaysOtherwise, laws.scan_changes_nothing_and_says_what_apply_does, "scan is silent about mul_2"),
    (OffByOne, laws.scan_changes_nothing_and_says_what_apply_does, "IndexError: list index out of range"),
    (Wrong, laws.outputs_are_as_exact_as_declared, "differs by"),
    (NotTheSameBits, laws.outputs_are_as_exact_as_declared, "is declared to have the same bits"),
    (LosesTheSignOfZero, laws.outputs_are_as_exact_as_declared, "for signed zeros is declared to have the same bits"),
    (LosesInfinity, laws.outputs_are_as_exact_as_declared, "and differs by"),
    (LosesNaN, laws.outputs_are_as_exact_as_declared, "for NaN is declared to have the same bits"),
    (Underflows, laws.outputs_are_as_exact_as_declared, "for the largest and smallest numbers is declared"),
    (BehindTheBack, laws.reverse_restores_everything_to_the_bit, "the code was"),
    (Restless, laws.a_second_run_finds_nothing, "a scan after the first run finds"),
    (WritesToTheModel, laws.the_users_model_is_never_touched, "a.weight was changed"),
    (Swallows, laws.a_failure_leaves_the_graph_as_it_was, "was swallowed"),
    (WritesToTheModel, laws.a_failure_leaves_the_graph_as_it_was, "left the graph changed"),
    (Nameless, laws.the_way_back_survives_copies_and_files, "another signature after copy.deepcopy"),
    (Draws, laws.there_are_no_hidden_effects, "the random numbers of torch"),
    (DrawsInPython, laws.there_are_no_hidden_effects, "the random numbers of Python"),
    (Forgetful, laws.there_are_no_hidden_effects, "signature"),
    (AtOnce, laws.every_site_can_be_switched_alone, ""),
    (Silent, laws.every_site_is_explained_and_every_miss_has_a_reason, "names no node"),
    (NoReason, laws.every_site_is_explained_and_every_miss_has_a_reason, "has no reason"),
]


@pytest.mark.parametrize("broken", third(BROKEN), ids=lambda broken: f"{broken[0].__name__}-{broken[1].__name__}")
def test_a_broken_law_is_named_with_the_pass_the_model_and_the_fact(broken: tuple[type[Pass[Any]], Law, str]) -> None:
    kind, law, fact = broken
    check(law, DoubleNegation(), Case.of("net", model(), (X,)))
    with pytest.raises(LawBroken) as raised:
        check(law, kind(), Case.of("net", model(), (X,)))
    assert str(raised.value).startswith(f"{kind.__name__} on net, law: {title(law)}: ")
    assert fact in str(raised.value)
    with pytest.raises(LawBroken):
        check_pass(kind(), [(model(), (X,))])


def test_every_law_is_broken_by_one_of_the_passes_here() -> None:
    assert {law for _, law, _ in BROKEN} == set(LAWS)


def test_a_check_without_a_site_fails_unless_told_otherwise() -> None:
    nothing = [(model(lambda m, x: x.relu()), (X,))]
    with pytest.raises(LawBroken, match="has no site in any of 1 model, so nothing was checked"):
        check_pass(DoubleNegation(), nothing)
    assert check_pass(DoubleNegation(), nothing, needs_sites=False).sites == 0


def test_a_class_is_not_an_instance() -> None:
    with pytest.raises(TypeError, match="call it to make an instance"):
        check_pass(DoubleNegation, [])  # type: ignore[arg-type]


@pytest.mark.parametrize("pass_", [kind() for kind in fxopt.ALL_PASSES], ids=lambda p: p.name)
def test_it_takes_every_registered_pass(pass_: Pass[Any]) -> None:
    assert check_pass(pass_, [(model(), (X,))], needs_sites=False).laws
