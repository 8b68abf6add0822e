import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

import fxopt
from fxopt.core.weight_cache import WeightCache
from fxopt.graph.copying import shared_copy
from tests.examples import EXAMPLES, Example

ATTENTION = EXAMPLES[0]
calls: list[int] = []


def doubled(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    calls.append(threading.get_ident())
    return (2 * tensor.detach(),)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    calls.clear()


def merged(gm: GraphModule) -> nn.Parameter:
    return gm.get_parameter("q_k_v_merged.weight")


def test_graph_modules_that_use_one_cache_have_the_same_computed_weights() -> None:
    pristine, cache = ATTENTION.graph(), WeightCache()
    first, second = shared_copy(pristine), shared_copy(pristine)
    for gm in (first, second):
        cache.use(gm)
        fxopt.MergeLinears()(gm)
    assert merged(first) is merged(second)
    fxopt.MergeLinears()(first, reverse=True)
    torch.testing.assert_close(second(*ATTENTION.inputs()), pristine(*ATTENTION.inputs()))


def test_graph_modules_that_were_not_told_to_share_never_do() -> None:
    pristine = ATTENTION.graph()
    first, second = shared_copy(pristine), shared_copy(pristine)
    for gm in (first, second):
        fxopt.MergeLinears()(gm)
    assert merged(first).data_ptr() != merged(second).data_ptr()


def test_a_weight_that_was_written_to_is_not_given_to_the_next() -> None:
    pristine, cache = ATTENTION.graph(), WeightCache()
    first, second, third = shared_copy(pristine), shared_copy(pristine), shared_copy(pristine)
    for gm in (first, second, third):
        cache.use(gm)
    fxopt.MergeLinears()(first)
    with torch.no_grad():
        merged(first).zero_()
    fxopt.MergeLinears()(second)
    torch.testing.assert_close(second(*ATTENTION.inputs()), pristine(*ATTENTION.inputs()))
    with torch.no_grad():
        pristine.get_parameter("q.weight").mul_(2)
    fxopt.MergeLinears()(third)
    assert merged(third) is not merged(second)
    torch.testing.assert_close(third(*ATTENTION.inputs()), pristine(*ATTENTION.inputs()))


def test_many_threads_compute_a_weight_once() -> None:
    cache, sources = WeightCache(), [torch.rand(50, 50) for _ in range(20)]
    start = threading.Barrier(8)

    def work(_: int) -> list[int]:
        start.wait()
        return [id(cache.computed(doubled, (source,))[0]) for source in sources]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert len(calls) == len(sources)
    assert len({tuple(ids) for ids in found}) == 1


def test_beyond_its_bound_a_cache_holds_what_was_used_last_and_knows_what_is_in_use() -> None:
    sources = [torch.rand(10) for _ in range(3)]
    cache = WeightCache(most=2 * sources[0].nbytes)
    used = cache.computed(doubled, (sources[0],))[0]
    gone = weakref.ref(cache.computed(doubled, (sources[1],))[0])
    cache.computed(doubled, (sources[2],))
    cache.computed(doubled, (sources[0],))
    assert len(calls) == 3, "the first was in use"
    assert gone() is None
    assert cache.computed(doubled, (sources[0],))[0] is used
    cache.computed(doubled, (sources[1],))
    assert len(calls) == 4


def test_what_was_computed_from_a_tensor_goes_with_it_also_while_another_thread_computes() -> None:
    cache, source, other = WeightCache(), torch.rand(10), torch.rand(10)
    result = weakref.ref(cache.computed(doubled, (source,))[0])
    begun, go_on = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: cache.computed(_slow, (other, begun, go_on)))
    thread.start()
    begun.wait()
    del source  # does not wait for the thread
    go_on.set()
    thread.join()
    cache.computed(doubled, (other,))
    gc.collect()
    assert result() is None


def _slow(tensor: torch.Tensor, begun: threading.Event, go_on: threading.Event) -> tuple[torch.Tensor, ...]:
    begun.set()
    go_on.wait()
    return doubled(tensor)


@pytest.mark.parametrize("example", EXAMPLES[:4], ids=lambda example: example.name)
def test_a_shared_cache_is_not_kept_by_one_graph_module_nor_taken_from_others_by_its_commit(example: Example) -> None:
    pristine, cache = example.graph(), WeightCache()
    first, second = shared_copy(pristine), shared_copy(pristine)
    whole = fxopt.compose(*(kind() for kind in fxopt.ALL_PASSES))
    for gm in (first, second):
        cache.use(gm)
        whole(gm)
        whole(gm, reverse=True)
    assert fxopt.bytes_retained(first) == 0
    fxopt.commit(first)
    again = shared_copy(pristine)
    for gm in (second, again):
        cache.use(gm)
        whole(gm)
    ids = [{id(parameter) for parameter in gm.parameters()} for gm in (second, again)]
    assert ids[0] == ids[1]
