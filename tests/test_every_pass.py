"""The laws that every registered pass obeys, on every example model."""

import functools
import random
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fxopt
from fxopt import ALL_PASSES, Exactness, Pass, Workbench, fingerprint
from fxopt.core import Ledger, shared_copy
from fxopt.testing import LAWS, Case, Law, check, laws, title
from fxopt.testing.outputs import compare_outputs
from tests.examples import Example, outputs
from tests.passes.declared import EXAMPLES, file_of_tests
from tests.saving import saved_and_loaded

PASSES = [kind() for kind in ALL_PASSES]
LAWS_WITHOUT_A_SITE = (
    laws.scan_changes_nothing_and_says_what_apply_does,
    laws.there_are_no_hidden_effects,
    laws.every_site_is_explained_and_every_miss_has_a_reason,
)
every_pass = pytest.mark.parametrize("pass_", PASSES, ids=lambda p: p.name)
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)


@every_pass
@pytest.mark.parametrize("law", LAWS, ids=title)
def test_every_pass_obeys_every_law(pass_: Pass[Any], law: Law) -> None:
    for example in examples_with_a_site(pass_):
        check(law, pass_, case_of(example))


@every_example
def test_a_pass_without_a_site_leaves_the_graph_alone_and_says_why(example: Example) -> None:
    for pass_ in PASSES:
        if example not in examples_with_a_site(pass_):
            for law in LAWS_WITHOUT_A_SITE:
                check(law, pass_, case_of(example))


@functools.cache
def case_of(example: Example) -> Case:
    return Case.of(example.name, example.model(), *(example.inputs(seed) for seed in (1, 2, 3)))


@functools.cache
def examples_with_a_site(pass_: Pass[Any]) -> list[Example]:
    return [example for example in EXAMPLES if pass_.scan(case_of(example).captured).matches]


@every_pass
def test_every_pass_has_sites_to_check(pass_: Pass[Any]) -> None:
    assert examples_with_a_site(pass_), (
        f"{pass_.name} has no site in any example, so the laws prove nothing of it. Declare a small model in "
        f"{file_of_tests(type(pass_))}, from a class or function that makes it and the shapes of its inputs: "
        'EXAMPLES = (Example("its name", ItsModel, ((3, 4),)),), with Example from tests.examples'
    )


def test_no_two_examples_have_one_name() -> None:
    names = [example.name for example in EXAMPLES]
    assert len(set(names)) == len(names), "the golden file of an example has its name"


@every_pass
@every_example
def test_apply_does_no_more_than_the_scan_says_except_in_chains(pass_: Pass[Any], example: Example) -> None:
    gm = example.graph()
    sites = [match.site for match in pass_.scan(gm).matches]
    pass_(gm)
    done = [entry.site for entry in Ledger.entries_of(gm)]
    # what comes on top is what one site made possible at another: the second batch norm of a chain
    assert done == sites or (example.name == "chain" and done[: len(sites)] == sites)


@every_pass
@every_example
def test_the_very_tensors_come_back(pass_: Pass[Any], example: Example) -> None:
    gm = shared_copy(case_of(example).captured)
    tensors = {name: id(t) for name, t in gm.state_dict(keep_vars=True).items()}
    pass_(gm)
    if not Ledger.entries_of(gm):
        with pytest.warns(fxopt.FxoptWarning, match="nothing was reversed"):
            type(pass_)()(gm, reverse=True)
    else:
        type(pass_)()(gm, reverse=True)  # any instance of equal signature
    assert {name: id(t) for name, t in gm.state_dict(keep_vars=True).items()} == tensors


@every_pass
def test_what_a_pass_makes_under_inference_mode_can_train_and_its_writes_are_counted(pass_: Pass[Any]) -> None:
    for example in examples_with_a_site(pass_):
        gm = shared_copy(case_of(example).captured)
        with torch.inference_mode():
            pass_(gm)
        assert not [name for name, tensor in gm.state_dict(keep_vars=True).items() if tensor.is_inference()]


@every_pass
@pytest.mark.parametrize("is_on", [False, True], ids=["outside", "inside"])
def test_a_model_that_was_made_under_inference_mode_is_rewritten_or_left_alone(pass_: Pass[Any], is_on: bool) -> None:
    for example in examples_with_a_site(pass_):
        with torch.inference_mode():
            model = example.model()
        gm = fxopt.capture(model, example.inputs())
        before = outputs(gm, example.inputs())
        with torch.inference_mode() if is_on else nullcontext():
            pass_(gm)
        after = outputs(gm, example.inputs())
        for a, b in zip(before, after, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@every_example
def test_all_passes_together_never_touch_the_users_model(example: Example) -> None:
    model = example.model()
    before = outputs(model, example.inputs())
    parts = {name: id(module) for name, module in model.named_modules(remove_duplicate=False)}
    tensors = {name: (id(t), t._version) for name, t in model.state_dict(keep_vars=True).items()}
    gm = fxopt.capture(model, example.inputs())
    for pass_ in PASSES:
        pass_(gm)
    gm(*example.inputs())
    for pass_ in reversed(PASSES):
        pass_.undo(gm)
    gm.recompile()  # of an exported program, it is the model itself
    assert {name: id(module) for name, module in model.named_modules(remove_duplicate=False)} == parts
    assert {name: (id(t), t._version) for name, t in model.state_dict(keep_vars=True).items()} == tensors
    for a, b in zip(before, outputs(model, example.inputs()), strict=True):
        assert torch.equal(a, b)


@every_example
def test_any_order_of_switching_gives_the_graph_of_what_is_on(example: Example) -> None:
    gm = example.graph()
    draw = random.Random(0)
    walked = Workbench(gm)
    for _ in range(25):
        pass_ = draw.choice(walked.passes)
        sites = [site.site for site in walked.state_of(pass_).sites]
        site = draw.choice([None, *sites])
        act = draw.choice([walked.turn_on, walked.turn_off])
        act(pass_, site)
        if draw.random() < 0.3:
            draw.choice([walked.undo, walked.redo])()
        built = Workbench(gm)
        built._go(walked.choices)
        assert fingerprint(walked.current) == fingerprint(built.current)
        assert [state.error for state in walked.states] == [""] * len(PASSES)
    walked.reverse_all()
    assert walked.is_restored
    assert walked.fingerprint == fingerprint(gm)


@every_example
def test_all_passes_together_keep_the_numbers_and_reverse_in_any_order(example: Example) -> None:
    gm = example.graph()
    start = fingerprint(gm)
    draw = random.Random(1)
    for _ in range(6):
        order = draw.sample(PASSES, len(PASSES))
        for pass_ in order:
            pass_(gm)
        compare_outputs(case_of(example), gm, {Exactness.ROUNDING})
        with warnings.catch_warnings():
            # a site that rested on what is reversed is undone with it, which is said in a warning
            warnings.filterwarnings("ignore", ".* rested on ", fxopt.FxoptWarning)
            for pass_ in draw.sample(PASSES, len(PASSES)):
                pass_.undo(gm)
        gm.recompile()
        assert fingerprint(gm) == start


@every_example
def test_the_way_back_survives_a_file_of_torch_save(example: Example) -> None:
    """The law of copies and pickles, for torch's own files, and with graphs that torch traces as they are."""
    if example.name == "in place":
        pytest.skip("torch cannot trace such a graph again: an in-place operation whose result is unused is lost")
    if example.exported:
        pytest.skip("torch cannot pickle the module of an exported program: its hooks are functions without a name")
    for pass_ in PASSES:
        if example in examples_with_a_site(pass_):
            _comes_back_from_a_file(pass_, example)


def _comes_back_from_a_file(pass_: Pass[Any], example: Example) -> None:
    gm = example.graph()
    if saved_and_loaded(gm).code != gm.code:  # torch traces a graph again, and may put reads of weights elsewhere
        gm = fxopt.annotate(torch.fx.symbolic_trace(example.model()), *example.inputs())
    pristine = saved_and_loaded(gm)
    before = {name: t.numpy().tobytes() for name, t in gm.state_dict().items()}
    pass_(gm)
    assert Ledger.entries_of(gm), pass_.name
    gone = saved_and_loaded(gm)
    pass_(gone, reverse=True)
    assert list(gone.state_dict()) == list(pristine.state_dict()), pass_.name
    assert {name: t.numpy().tobytes() for name, t in gone.state_dict().items()} == before, pass_.name
    assert [node.name for node in gone.graph.nodes] == [node.name for node in pristine.graph.nodes], pass_.name
    assert gone.code == pristine.code, pass_.name


@every_pass
def test_it_is_documented_and_tested(pass_: Pass[Any]) -> None:
    doc = type(pass_).__doc__ or ""
    assert pass_.summary.startswith("Replace `"), "the first line is the rewrite itself"
    assert ">>>" in doc, "the docstring shows a before and an after"
    assert (Path(__file__).parent.parent / file_of_tests(type(pass_))).exists(), f"write {file_of_tests(type(pass_))}"


def test_marks_are_those_of_equal_signatures() -> None:
    class Twice(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x / 4

    gm = torch.fx.symbolic_trace(Twice())
    fxopt.ChangeTrueDivToMulByInverse()(gm)
    assert [node.name for node in fxopt.ChangeTrueDivToMulByInverse().get_transformed_nodes(gm)] == ["truediv"]
    assert fxopt.MergeLinears().get_transformed_nodes(gm) == []
