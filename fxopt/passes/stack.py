"""The weights of several linear layers, one below the other in one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import nn

from fxopt.core import LinearLayer, Rewriter, with_tensors


@dataclass(frozen=True, eq=False)  # equality would compare tensors
class Stack:
    """The weights of `linears` stacked, and their biases if they have any.

    As views, they need no second copy for reversal; two cases differ in the memory they share:

    - If the weights already lie one behind the other in one buffer, as after an earlier reversal, the stacked one is a
      view of that buffer. It shares memory with the linears, and so with the model whose linears they are, and the very
      same linears come back.
    - Otherwise the weights are copied into a new buffer, and linears whose weights are views of it are retained. The
      same bytes, shapes, strides and dtypes come back, in other tensor objects, and only the model holds the memory of
      before.

    In both cases, training the stacked weights in place would change the retained ones as well, and in the first case
    the model. Reversal refuses then, as it does for trained weights always; and in the first case it refuses too after
    the model itself was trained.
    """

    linears: Sequence[LinearLayer]
    tensors: Mapping[str, nn.Parameter]

    @classmethod
    def of(cls, linears: Sequence[LinearLayer], rewriter: Rewriter, *, as_views: bool) -> Stack:
        tensors: dict[str, nn.Parameter] = {}
        for role in linears[0].held:
            parts = [part for linear in linears if (part := linear.tensor(role)) is not None]
            view = _adjacent(parts) if as_views else None
            if as_views:
                tensors[role] = nn.Parameter(_stacked(*parts)[0] if view is None else view, parts[0].requires_grad)
            else:
                (tensors[role],) = rewriter.computed(_stacked, *parts)
        return cls(linears, tensors)

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The row at which each linear begins and ends."""
        sizes = (linear.weight.shape[0] for linear in self.linears)
        return list(pairwise(accumulate(sizes, initial=0)))

    def keep_views(self, rewriter: Rewriter) -> None:
        """Keep views of the stacked tensors for the way back, in place of tensors with memory of their own."""
        for linear, (start, end) in zip(self.linears, self.rows):
            views: dict[str, nn.Parameter] = {}
            for role, whole in self.tensors.items():
                old, view = linear.tensor(role), whole.detach()[start:end]
                if old is None or old.data_ptr() == view.data_ptr() or old.stride() != view.stride():
                    continue  # it is one already, or cannot come back as one
                views[role] = nn.Parameter(view, old.requires_grad)
                if linear.module is None:
                    rewriter.keep_instead(old, views[role] if isinstance(old, nn.Parameter) else view)
            if linear.module is not None and views:
                rewriter.keep_instead(linear.module, with_tensors(linear.module, **views))


def _stacked(*parts: torch.Tensor) -> tuple[torch.Tensor]:
    with torch.no_grad():
        return (torch.cat(parts).requires_grad_(parts[0].requires_grad),)


def _adjacent(parts: list[torch.Tensor]) -> torch.Tensor | None:
    """Return `parts` as one tensor without copying, if each begins in memory where the one before ends."""
    first, place = parts[0], parts[0].data_ptr()
    for part in parts:
        same = part.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not (same and part.is_contiguous() and part.data_ptr() == place):
            return None
        place += part.numel() * part.element_size()
    size = (sum(part.shape[0] for part in parts), *first.shape[1:])
    return first.detach().as_strided(size, first.stride())
