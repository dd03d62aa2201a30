"""Certified thresholds floor(2^n F(k)) of a law's distribution function, and the lookup built from them.

Proofs: PROOF.md, sections 1 and 3.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from topdown.errors import InternalError
from topdown.noise.laws import DiscreteGaussian, Formula, Law, law_tails
from topdown.noise.weighted import BITS, WeightedInteger

TABLE_CAP = 1 << 20  # outcomes: 0.7 s and 350 MB to build; a wider law is drawn by rejection
WIDTHS = (16, 48)  # bits revealed in the first and in the second stage
UNDECIDED = -(1 << 31)  # no outcome: outcomes satisfy |x| < 2^31
_SPARE_BITS = 32
_MOST_SPARE_BITS = 4096


@lru_cache(maxsize=8)
def certified_thresholds(law: Law, n_bits: int) -> tuple[int, ...]:
    """Return floor(2^n_bits F(k)) for k = -K .. K - 1, where F is the law's distribution function.

    Every floor is certified: an enclosure of 2^n_bits F(k) lies strictly between two integers. K is the
    least k with P(X >= k) < 2^-n_bits, so the tuple starts with 0, ends with 2^n_bits - 1, has length 2 K,
    and every threshold outside it equals the end on its side. For a law of whole weights K is its largest value and
    every floor is exact.

    Raises:
        InternalError: no certificate at 4096 spare bits (a threshold would have to be an exact dyadic).

    """
    if isinstance(law, WeightedInteger):
        return law.thresholds(n_bits)
    spare = _SPARE_BITS
    while spare <= _MOST_SPARE_BITS:
        lower = _upper_tail_floors(law, n_bits, n_bits + spare)
        if lower is not None:
            top = (1 << n_bits) - 1
            return (*reversed(lower), *(top - floor for floor in lower))
        spare += spare
    raise InternalError(f"The thresholds of {law} could not be certified at {n_bits} bits.", code="X011")


def _upper_tail_floors(law: Formula, n_bits: int, floor_bits: int) -> list[int] | None:
    """Return floor(2^n_bits P(X >= k)) for k = 1 .. K, the last one 0; None if the precision is too low."""
    tails = law_tails(law, floor_bits)
    total_lo, total_hi = tails.total
    floors: list[int] = []
    for lo, hi in zip(tails.lo, tails.hi, strict=True):
        floor, left = divmod(lo << n_bits, total_hi)
        # strictly inside (floor, floor + 1); at floor 0 the lower side is P(X >= k) > 0
        if (floor and not left) or hi << n_bits >= (floor + 1) * total_lo:
            return None
        floors.append(floor)
        if not floor:
            return floors
    return None


def locate(law: Law, prefix: int, n_bits: int) -> int | None:
    """Return the outcome that a uniform number with these leading bits decides, or None if undecided."""
    thresholds = certified_thresholds(law, n_bits)
    rank = bisect_right(thresholds, prefix)
    exact = isinstance(law, WeightedInteger) and n_bits >= BITS  # then a threshold is F(k) itself
    if rank and thresholds[rank - 1] == prefix and not exact:
        return None
    return rank - len(thresholds) // 2


@dataclass(frozen=True, eq=False)
class Table:
    """What the first two stages look up; read-only arrays, shared by every sampler of the law.

    Args:
        thresholds: uint64, `certified_thresholds` at the sum of the widths.
        lookup: int32, for each 16-bit number the outcome its leading bits decide, or `UNDECIDED`.
        widths: bits of the first (1 .. 16) and of the second stage (1 .. 48).

    """

    thresholds: npt.NDArray[np.uint64]
    lookup: npt.NDArray[np.int32]
    widths: tuple[int, int]


def has_table(law: Law) -> bool:
    """Say whether the law is narrow enough for a table of `TABLE_CAP` outcomes."""
    return 2 * law.half_width(sum(WIDTHS)) <= TABLE_CAP


@lru_cache(maxsize=128)
def table_of(law: Law, widths: tuple[int, int] = WIDTHS) -> Table:
    """Build the law's table, or return the one built before.

    Cost: 2 ms and 256 KB for the variances of a census (below 10^4), 0.7 s at the cap.
    """
    first, second = widths
    if not (1 <= first <= WIDTHS[0] and 1 <= second <= WIDTHS[1]):
        raise ValueError(f"Widths are 1..16 and 1..48 bits, not {widths}.")
    exact = certified_thresholds(law, first + second)
    thresholds = np.array(exact, dtype=np.uint64)
    cells = np.arange(1 << first, dtype=np.uint64)
    outcomes = np.searchsorted(thresholds, cells << np.uint64(second), side="right") - len(exact) // 2
    lookup = outcomes.astype(np.int32)
    lookup[(thresholds >> np.uint64(second)).astype(np.int64)] = UNDECIDED
    lookup = np.repeat(lookup, 1 << (WIDTHS[0] - first))
    thresholds.flags.writeable = lookup.flags.writeable = False
    return Table(thresholds, lookup, widths)


def describe(law: Law) -> str:
    """Return the law's name and exact parameter, e.g. `DiscreteGaussian 5/2`, or the SHA-256 of its weights."""
    if isinstance(law, WeightedInteger):
        joined = hashlib.sha256("".join(f"{weight}\n" for weight in law.weights).encode()).hexdigest()
        return f"{type(law).__name__} {joined}"
    parameter = law.variance if isinstance(law, DiscreteGaussian) else law.scale
    return f"{type(law).__name__} {parameter.numerator}/{parameter.denominator}"


def table_fingerprint(law: Law) -> str:
    """Return the SHA-256 (64 hexadecimal digits) of the law's name, parameter and integer thresholds.

    Hashed: the ASCII line `topdown.noise.thresholds 1 <law> <numerator>/<denominator> <bits>` and a newline,
    then each threshold as 8 bytes, most significant first. A law drawn by rejection has no thresholds; the
    line then ends in `rejection` instead of the number of bits.
    """
    if not has_table(law):
        return hashlib.sha256(f"topdown.noise.thresholds 1 {describe(law)} rejection\n".encode()).hexdigest()
    digest = hashlib.sha256(f"topdown.noise.thresholds 1 {describe(law)} {sum(WIDTHS)}\n".encode())
    digest.update(table_of(law).thresholds.astype(">u8").tobytes())
    return digest.hexdigest()
