"""Conditions that every pass which changes or removes layers must see met, whether modules or functions are called."""

from __future__ import annotations

from torch import nn
from torch.fx import Node
from torch.nn.utils import parametrize

from fxopt.graph.conditions import Condition, Conditions, Unmet, decide, present
from fxopt.graph.hooks import gradient_hook_condition, module_hook_condition
from fxopt.graph.index import GraphIndex
from fxopt.graph.layer import Layer, LinearLayer
from fxopt.graph.nodes import info_of, input_of, operation_name
from fxopt.graph.ownership import held_conditions, sharing_conditions, tensor_conditions
from fxopt.graph.site import NEEDS_SHAPES, Miss

Kinds = type[nn.Module] | tuple[type[nn.Module], ...]


def module_miss(site: Node, node: Node, kind: Kinds, index: GraphIndex) -> Miss | None:
    """Return why the module that `node` calls must stay as it is for a site anchored at `site`; None if it is free."""
    found = decide(site, module_conditions(node, kind, index))
    return found if isinstance(found, Miss) else None


def layer_conditions(layer: Layer, kind: Kinds, index: GraphIndex, *, ties_ok: bool = False) -> Conditions[Node]:
    """Require that `layer` may be changed or removed: that it is plain, and that all else is independent of it.

    Args:
        kind: the module types that it may be called as, exactly. For a function, this is ignored.
        ties_ok: whether its tensors may be tied to others, as where the very tensors stay in use.

    Returns:
        its input.
    """
    if layer.module is not None:
        return module_conditions(layer.node, kind, index, ties_ok=ties_ok)
    return _function_conditions(layer, index, ties_ok=ties_ok)


def _function_conditions(layer: Layer, index: GraphIndex, *, ties_ok: bool) -> Conditions[Node]:
    """Require the same of a layer that is called as a function on tensors."""
    yield autocast_condition(layer.node, index)
    x = yield from present(
        layer.input,
        lambda: Unmet(
            f"{layer.name} is called with arguments other than one input and its tensors", **_given(layer.node)
        ),
    )
    for role, held in layer.held.items():
        yield from held_conditions(layer, role, held, index)
    tensors = [(held.path, held.tensor) for held in layer.held.values()]
    yield gradient_hook_condition(tensors)
    yield from tensor_conditions(layer.name, tensors, index, ties_ok=ties_ok)
    if isinstance(layer, LinearLayer):
        yield layer.weight.dim() == 2 or Unmet(
            f"the weight of {layer.name} has shape {tuple(layer.weight.shape)}",
            actual=f"{layer.weight.dim()} dimensions",
            needed="2 dimensions",
        )
    return x


def decomposed_linear_miss(node: Node) -> Miss | None:
    """Return why an ``addmm`` or ``mm`` that once was a linear layer is left alone; None if it was none."""
    matrix = node.args[-1] if node.args else None
    transposed = isinstance(matrix, Node) and operation_name(matrix) in ("permute", "t", "transpose")
    if not isinstance(matrix, Node) or not transposed or not isinstance(matrix.args[0], Node):
        return None
    if matrix.args[0].op != "get_attr":
        return None
    exported = "val" in node.meta  # torch.export notes the value of each node under this key, unlike a recording
    maker = "run_decompositions()" if exported else "code below Python, such as vmap,"
    unmet = Unmet(
        f"{node.name} is what {maker} made of a linear layer with the weight {matrix.args[0].target}",
        remedy="take the exported program as it is before run_decompositions()"
        if exported
        else "call the layer outside of vmap: it takes any number of leading dimensions",
        actual=str(node.target),
        needed="aten.linear",
    )
    return Miss(node, unmet)


def module_conditions(node: Node, kind: Kinds, index: GraphIndex, *, ties_ok: bool = False) -> Conditions[Node]:
    """Require that the module of `node` may be replaced or removed: exactly of `kind`, called once, by one input.

    For `ties_ok` see `layer_conditions`. Returns its input.
    """
    path = str(node.target)
    module = yield from present(
        index.module_of(node),
        lambda: Unmet(f"{path} is not a module of the graph module", actual="none", needed="a module"),
    )
    yield from unaltered_conditions(module, path, kind)
    yield autocast_condition(node, index)
    yield from sharing_conditions(node, module, path, index)
    tensors = {**module._parameters, **module._buffers}
    named = ((f"{path}.{name}", tensor) for name, tensor in tensors.items())
    yield from tensor_conditions(path, named, index, ties_ok=ties_ok)
    x = yield from present(
        input_of(node),
        lambda: Unmet(f"{node.name} is called with arguments other than one input", **_given(node)),
    )
    return x


def unaltered_conditions(module: nn.Module, path: str, kind: Kinds) -> Conditions[None]:
    """Require that a call of `module` computes the function of its type, and runs without hooks."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    parametrized = "parametrizations" in module._modules and parametrize.is_parametrized(module)
    yield not parametrized or _parametrized(module, path)
    yield type(module) in kinds or _another_type(module, path, kinds)
    yield "forward" not in module.__dict__ or Unmet(
        f"{path} has a forward method of its own, set on the instance",
        actual="a forward of its own",
        needed=f"that of {type(module).__name__}",
    )
    yield module_hook_condition(module, path)
    yield gradient_hook_condition((f"{path}.{name}", tensor) for name, tensor in module._parameters.items())


def autocast_condition(node: Node, index: GraphIndex) -> Condition:
    """Require that `node` computes in the dtype of its tensors, with autocast off."""
    enter = index.autocast_around(node)
    return enter is None or Unmet(
        f"{node.name} runs under autocast ({enter.args[0]}, {enter.args[1]}), which chooses each dtype",
        remedy="capture the model outside of autocast",
        actual=f"inside {enter.name}",
        needed="a call outside of autocast",
    )


def dtype_conditions(layer: Layer, other: Layer) -> Conditions[None]:
    """Require that two layers compute in one dtype on one device. Their tensors have passed `layer_conditions`."""
    mine, theirs = (
        next((f"{t.dtype} on {t.device}" for h in one.held.values() if (t := h.tensor) is not None and t.dim()), "")
        for one in (layer, other)
    )
    yield mine == theirs or Unmet(
        f"{layer.name} is {mine} but {other.name} is {theirs}",
        remedy="bring them to one dtype and device",
        actual=f"{mine} and {theirs}",
        needed="one dtype and device",
    )


def rank_condition(tensor: Node, rank: int, why: str) -> Condition:
    """Require that `tensor` is known to have `rank` dimensions; `why` ends the sentence that says so."""
    info = info_of(tensor)
    if info is None:
        return Unmet(
            f"the shape of {tensor.name} is unknown: {why}",
            remedy=NEEDS_SHAPES,
            actual="unknown",
            needed=f"{rank} dimensions",
        )
    return len(info.shape) == rank or Unmet(
        f"{tensor.name} has shape {tuple(info.shape)}: {why}",
        actual=f"{len(info.shape)} dimensions",
        needed=f"{rank} dimensions",
    )


def _given(node: Node) -> dict[str, str]:
    """Return the arguments of a call against the one that is expected, in words."""
    return {"actual": ", ".join([*map(str, node.args), *node.kwargs]) or "no argument", "needed": "one input"}


def _parametrized(module: nn.Module, path: str) -> Unmet:
    names = list(module.parametrizations)  # type: ignore[arg-type]
    return Unmet(
        f"{path} computes its {', '.join(names)} by a parametrization",
        remedy=f"torch.nn.utils.parametrize.remove_parametrizations(module, {names[0]!r})",
        actual="parametrized",
        needed="a parameter",
    )


def _another_type(module: nn.Module, path: str, kinds: tuple[type[nn.Module], ...]) -> Unmet:
    base = next((kind for kind in kinds if isinstance(module, kind)), None)
    needed = " or ".join(kind.__name__ for kind in kinds)
    kind = f"a subclass of {base.__name__} that may compute something else" if base else f"not a {needed}"
    return Unmet(f"{path} is a {type(module).__name__}, {kind}", actual=type(module).__name__, needed=needed)


def unread_condition(layer: Layer, index: GraphIndex) -> Condition:
    """Require that the shape and dtype of a tensor of `layer`, which are to change, are unread."""
    paths = [layer.path] if layer.module is not None else [held.path for held in layer.held.values()]
    reads = [(read, user) for path in paths for read in index.reads_of(path) for user in read.users]
    read, user = next(((read, user) for read, user in reads if user is not layer.node), (None, None))
    return (
        read is None
        or user is None
        or Unmet(
            f"{user.name} asks for the shape or dtype of {read.target}, a tensor of {layer.name}",
            actual=f"read by {user.name}",
            needed="unread",
        )
    )
