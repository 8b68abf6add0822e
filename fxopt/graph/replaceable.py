"""Conditions for letting the users of a node read another one that is there already, such as the input of `x * 1`.

With the same numbers the difference may still show: to a writer in place to one of the two, to the caller, who gets a
tensor of his own back in place of a copy, and to a ``view`` that rejects the strides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from torch import nn
from torch.fx import Node

from fxopt.graph.conditions import Condition, Conditions, Unmet, decide
from fxopt.graph.effects import is_pointwise
from fxopt.graph.guards import unaltered_conditions
from fxopt.graph.index import GraphIndex
from fxopt.graph.metadata import readers_of
from fxopt.graph.module_table import modules_of
from fxopt.graph.nodes import info_of, input_of, operation_name
from fxopt.graph.operator_table import DROPOUTS, MOVING, POINTWISE, VIEWS
from fxopt.graph.operators import calls_torchs_own
from fxopt.graph.site import NEEDS_SHAPES
from fxopt.graph.strides import is_row_major, needs_contiguous
from fxopt.graph.writes import unwritten_condition

_POINTWISE_MODULES = modules_of(POINTWISE)
_NOTHING: tuple[type[nn.Module], ...] = (nn.Identity, *modules_of(DROPOUTS))


def read_instead_conditions(old: Node, new: Node, index: GraphIndex, going: Collection[Node] = ()) -> Conditions[None]:
    """Require that `new` in place of `old`, by ``rewriter.replace(old, new)``, goes unnoticed.

    That the two hold the same numbers is for the pass to know; that they have the same shape and dtype is a condition.

    Args:
        going: nodes that are taken out together with `old`, so that their reads are harmless.
    """
    before, after = info_of(old), info_of(new)
    yield (before is not None and after is not None) or Unmet(
        f"the shape and dtype of {old.name if before is None else new.name} are unknown",
        remedy=NEEDS_SHAPES,
        actual="unknown",
        needed="known",
    )
    yield before == after or Unmet(
        f"{old.name} is {before}, but {new.name} is {after}", actual=str(after), needed=str(before)
    )
    yield from shared_memory_conditions(old, (new,), index, going)
    yield strides_condition(old, new, index)


def shared_memory_conditions(
    old: Node, sources: Sequence[Node], index: GraphIndex, going: Collection[Node] = ()
) -> Conditions[None]:
    """Require that memory shared by the replacement of `old` and `sources` goes unnoticed, by writes and by returns.

    For `going` see `read_instead_conditions`.
    """
    gone = {old, *going}
    for source in sources:
        alone = index.is_fresh(source) and all(user in gone for user in source.users)
        if alone or _is_view_of(old, source, index):
            continue
        end = index.gm.graph.output_node()
        for tensor in (old, source):
            when = f"later, which {old.name} and {source.name} then share"
            yield unwritten_condition(tensor, old, end, index, when, may=True)
        yield returned_condition(old, source, index)


def kept_apart_conditions(old: Node, substitute: str, index: GraphIndex, *, returned: bool = True) -> Conditions[None]:
    """Require that a replacement of `old`, which is `substitute`, goes unnoticed by writes and by returns.

    Args:
        substitute: the replacement in words.
        returned: whether it matters that `old`, or a view of it, is returned.
    """
    end = index.gm.graph.output_node()
    yield unwritten_condition(old, old, end, index, f"later, which would then be {substitute}", may=True)
    yield (
        not returned
        or not is_returned(old, index)
        or Unmet(
            f"{old.name} is returned, and would then be {substitute}",
            actual=f"an output that is {substitute}",
            needed="an output with memory of its own",
        )
    )


def is_returned(node: Node, index: GraphIndex) -> bool:
    """Return whether the caller may get `node`, or a view of it."""
    return index.gm.graph.output_node() in _held_by_it(node, index)


def strides_condition(old: Node, new: Node | None, index: GraphIndex, *, turned: bool = True) -> Condition:
    """Require that `new` lies in memory as `old`, or all consumers accept another layout. For None, it is unknown.

    Args:
        turned: whether dimensions of the replacement may lie in another order, or only with gaps.
    """
    in_order = new is not None and _is_pointwise_of(old, new)  # it may have gaps alone, which `old` is free of
    same = new is not None and (
        _is_view_of(old, new, index) or (index.is_fresh(new) and (is_row_major(new, index) or in_order))
    )
    other = new.name if new is not None else "its replacement"
    adds = None if same or new is None else _adds_up(old, index)  # new numbers are rounded anew anyway
    if adds is not None:
        return Unmet(
            f"{adds.name} may add up the numbers of {old.name} in the order of memory, and {other} may lie otherwise",
            remedy="copy the tensor that stands for it by .contiguous()",
            actual="unknown strides",
            needed="those of a new tensor",
        )
    return (
        same
        or not needs_contiguous(old, index, turned=turned and not in_order)
        or Unmet(
            f"a view of {old.name}, or whoever gets it, may rely on how it lies in memory, and {other} may lie "
            "otherwise",
            remedy="copy the tensor that stands for it by .contiguous()",
            actual="unknown strides",
            needed="those of a new tensor",
        )
    )


def returned_condition(old: Node, source: Node, index: GraphIndex) -> Condition:
    """Require that the caller gets by way of `old` a tensor that he has not got already."""
    held = _held_by_it(old, index)
    end = index.gm.graph.output_node()
    if end not in held:
        return True
    for owner in index.origins(source):
        if owner.op in ("placeholder", "get_attr"):
            whose = "the caller's own" if owner.op == "placeholder" else "the model's own"
            return Unmet(
                f"{old.name} is returned, and would be {whose} {owner.target} where it is a tensor of its own",
                actual=f"an output that shares memory with {owner.name}",
                needed="an output with memory of its own",
            )
    for output in end.all_input_nodes:
        if output not in held and index.may_share_memory(output, source):
            return Unmet(
                f"{old.name} and {output.name} are both returned, and would share memory",
                actual=f"an output that shares memory with {output.name}",
                needed="an output with memory of its own",
            )
    return True


def _held_by_it(old: Node, index: GraphIndex) -> set[Node]:
    """Return `old`, and all that may be it or a view of it, with the output node if it is returned."""
    found = {old}
    todo = [old]
    while todo:
        for user in readers_of(todo.pop()):
            if user not in found and not index.is_fresh(user):
                found.add(user)
                todo.append(user)
    return found


def _adds_up(old: Node, index: GraphIndex) -> Node | None:
    """Return a reader of `old` whose result depends, in its last bits, on the memory layout of `old`."""
    for node in _held_by_it(old, index):
        for user in readers_of(node):
            module = index.module_of(user)
            moves = is_pointwise(user) or operation_name(user) in MOVING or isinstance(module, _POINTWISE_MODULES)
            if index.is_fresh(user) and not moves:
                return user
    return None


def _is_pointwise_of(node: Node, source: Node) -> bool:
    """Return whether `node` is `source` put through operations that work element by element, and so keep its order."""
    while node is not source:
        if not is_pointwise(node) or len(node.all_input_nodes) != 1:
            return False
        node = node.all_input_nodes[0]
    return True


def _is_view_of(node: Node, source: Node, index: GraphIndex) -> bool:
    """Return whether `node` is known to be `source` itself or a view of it, as it is."""
    while node is not source:
        if not _is_view(node, index):
            return False
        x = input_of(node) if node.op == "call_module" else node.args[0] if node.args else None
        if not isinstance(x, Node):
            return False
        node = x
    return True


def _is_view(node: Node, index: GraphIndex) -> bool:
    return does_nothing(node, index) or _calls_one_of(VIEWS, node)


def does_nothing(node: Node, index: GraphIndex) -> bool:
    """Return whether `node` returns its input itself: a call of an identity, or of a dropout in evaluation mode."""
    if node.op == "call_module":
        module = index.module_of(node)
        same = module is not None and decide(node, unaltered_conditions(module, str(node.target), _NOTHING)) is None
        return same and (isinstance(module, nn.Identity) or not getattr(module, "training", True))
    return _calls_one_of(DROPOUTS, node) and _is_off(node)


def _calls_one_of(names: Collection[str], node: Node) -> bool:
    is_call = node.op in ("call_function", "call_method")
    return is_call and operation_name(node) in names and calls_torchs_own(node)


def _is_off(node: Node) -> bool:
    """Return whether a dropout by function is in evaluation mode."""
    if "training" in node.kwargs or "train" in node.kwargs:
        return node.kwargs.get("training", node.kwargs.get("train")) is False
    return len(node.args) > 2 and node.args[2] is False
