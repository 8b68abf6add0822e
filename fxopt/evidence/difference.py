"""Distance of two tensors: in bits, in units in the last place, absolute and relative."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fxopt.graph.tensor_state import same_bytes

_BITS = {
    torch.float16: torch.int16,
    torch.bfloat16: torch.int16,
    torch.float32: torch.int32,
    torch.float64: torch.int64,
}


@dataclass(frozen=True)
class Difference:
    """Distance of two tensors of one shape.

    `max_ulp` counts the representable numbers from one to the other, None for dtypes without them. `max_rel` is
    relative to the nonzero elements of the first. `unlike` counts elements that are NaN or infinite in one only; the
    other figures leave them out. `scale` is the largest finite magnitude in the first.
    """

    identical: bool
    elements: int
    differing: int
    max_ulp: int | None
    max_abs: float
    max_rel: float
    unlike: int
    scale: float

    def merged(self, other: Difference) -> Difference:
        """Merge two differences into one, over all the elements of both."""
        ulps = (self.max_ulp, other.max_ulp)
        return Difference(
            self.identical and other.identical,
            self.elements + other.elements,
            self.differing + other.differing,
            None if None in ulps else max(ulp for ulp in ulps if ulp is not None),
            max(self.max_abs, other.max_abs),
            max(self.max_rel, other.max_rel),
            self.unlike + other.unlike,
            max(self.scale, other.scale),
        )


def difference(one: Tensor, other: Tensor) -> Difference:
    """Compare two tensors of one shape. Two NaNs are alike, as are two infinities of one sign.

    >>> found = difference(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 2**-22]))
    >>> found.differing, found.max_ulp, found.max_abs == 2**-22
    (1, 1, True)
    """
    one, other = _plain(one), _plain(other).to(one.device)
    a, b = one.double(), other.double()
    alike = (one == other) | (a.isnan() & b.isnan())
    both = a.isfinite() & b.isfinite()
    error = torch.where(both & ~alike, (a - b).abs(), 0.0)
    return Difference(
        identical=one.dtype == other.dtype and same_bits(one, other),
        elements=one.numel(),
        differing=int((~alike).sum()),
        max_ulp=_max_ulp(one, other, both),
        max_abs=_largest(error),
        max_rel=_largest(torch.where(a != 0, error / a.abs(), 0.0).nan_to_num(0.0)),
        unlike=int((~alike & ~both).sum()),
        scale=_largest(torch.where(a.isfinite(), a.abs(), 0.0)),
    )


def largest_error(found: Tensor, reference: Tensor) -> float:
    """Return the largest distance from `reference`, where both are finite."""
    found, reference = _plain(found).double(), _plain(reference).double().to(found.device)
    return _largest(torch.where(found.isfinite() & reference.isfinite(), (found - reference).abs(), 0.0))


def same_bits(one: Tensor, other: Tensor) -> bool:
    """Check that two tensors hold the same bytes: unlike in `torch.equal`, -0.0 differs from 0.0, and NaN is itself."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one = _plain(one)
    return same_bytes(one, _plain(other).to(one.device))


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Check that two tensors hold the same bits, signs of zeros included, with NaN at the same places.

    IEEE 754 leaves the payload of a NaN to the processor: torch's arithmetic on bfloat16 has a single one.
    """
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one = _plain(one)
    other = _plain(other).to(one.device)
    if not one.is_floating_point():
        return same_bytes(one, other)
    nans, others = one.isnan(), other.isnan()
    return torch.equal(nans, others) and same_bytes(one.masked_fill(nans, 0), other.masked_fill(others, 0))


def _plain(tensor: Tensor) -> Tensor:
    """Return a dense tensor of real numbers with the same content."""
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _largest(values: Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _max_ulp(one: Tensor, other: Tensor, both: Tensor) -> int | None:
    bits = _BITS.get(one.dtype)
    if bits is None or one.dtype != other.dtype:
        return None
    lowest = torch.iinfo(bits).min
    places = []
    for tensor in (one, other):
        place = tensor.contiguous().view(bits).long()
        place = torch.where(place < 0, lowest - place, place)  # in the order of the numbers, both zeros at 0
        places.append(place.clamp(-(2**62), 2**62 - 1))  # or the distance of two float64 could overflow
    distance = torch.where(both, (places[0] - places[1]).abs(), 0)
    return int(distance.max()) if distance.numel() else 0
