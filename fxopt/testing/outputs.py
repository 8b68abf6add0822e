"""Outputs before and after a pass, compared by the exactness that it declares."""

from __future__ import annotations

from itertools import repeat

import torch
from torch.fx import GraphModule

from fxopt.core import Exactness
from fxopt.evidence.difference import difference, same_numbers
from fxopt.evidence.running import run
from fxopt.testing.breach import demand
from fxopt.testing.case import Case, tensors


def compare_outputs(case: Case, after: GraphModule, claims: set[Exactness]) -> None:
    for args, (old, exact) in zip(case.inputs, case.expected):
        new = tensors(run(after, args, {}))
        demand(len(old) == len(new), f"there were {len(old)} outputs and are {len(new)}")
        for i, (a, b, reference) in enumerate(zip(old, new, exact or repeat(None))):
            _compare_output(f"output {i}", a, b, reference, claims)
    if claims == {Exactness.BITWISE}:
        for kind, args, old in case.special:
            for i, (a, b) in enumerate(zip(old, tensors(run(after, args, {})), strict=True)):
                _compare_output(f"output {i} for {kind}", a, b, None, claims)


def _compare_output(
    name: str, old: torch.Tensor, new: torch.Tensor, reference: torch.Tensor | None, claims: set[Exactness]
) -> None:
    if Exactness.CHANGES in claims:
        return
    demand(old.shape == new.shape, f"{name} had shape {tuple(old.shape)}, and has {tuple(new.shape)}")
    demand(old.dtype == new.dtype, f"{name} was {old.dtype}, and is {new.dtype}")
    if claims <= {Exactness.BITWISE} or not (old.is_floating_point() or old.is_complex()):
        demand(same_numbers(old, new), f"{name} is declared to have the same bits, and differs by {_told(old, new)}")
        return
    exact = old if reference is None else reference
    finite = exact.isfinite() & old.isfinite()
    demand(bool((finite == (finite & new.isfinite())).all()), f"{name} is not finite where it was")
    scale = float(exact[finite].abs().max()) if finite.any() else 0.0
    old_error, new_error = distance(old[finite], exact[finite]), distance(new[finite], exact[finite])
    # if the reference is missing, the error before is unknown, and the difference holds both errors
    steps = 32 if reference is not None else 160
    bound = 4 * old_error + steps * torch.finfo(old.dtype).eps * max(scale, 1.0)
    if Exactness.APPROXIMATE in claims:
        bound = max(bound, scale / 8)
    demand(new_error <= bound, f"{name} is off the exact value by {new_error:.3g}; it was {old_error:.3g} before")


def _told(old: torch.Tensor, new: torch.Tensor) -> str:
    found = difference(old, new)
    if found.unlike:
        return f"a NaN or infinity in {found.unlike} of {found.elements} numbers"
    return f"{found.max_abs}" if found.differing else "the signs of zeros"


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return float((a.to(wide) - b.to(wide)).abs().max()) if a.numel() else 0.0
