"""The exact samplers: lazy inversion of the distribution function, and its slow twin by rejection.

A draw is X = min{k : u < F(k)} of a uniform u whose bits are revealed only as far as they are needed: 16 for almost
every draw, 48 more for a few, then 8 at a time until decided. The thresholds floor(2^n F(k)) are certified, so the
law is exact on all integers. Distributions too wide for a table are drawn by rejection, as in Canonne, Kamath,
Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1-3. Proofs: PROOF.md, sections 1, 3, 4.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
import numpy.typing as npt

from topdown.errors import InternalError
from topdown.privacy.bits import BitSource
from topdown.privacy.laws import NoiseDistribution


def draw_one(law: NoiseDistribution, bits: BitSource) -> int:
    """Draw one outcome of the law without a table. Cost: about 50 microseconds, whatever the law's width."""
    return law.draw_slowly(bits)


TABLE_CAP = 1 << 20  # outcomes: 0.7 s and 350 MB to build; a wider law is drawn by rejection
WIDTHS = (16, 48)  # bits revealed in the first and in the second stage
UNDECIDED = -(1 << 31)  # no outcome: outcomes satisfy |x| < 2^31
_SPARE_BITS = 32
_MOST_SPARE_BITS = 4096


@lru_cache(maxsize=8)
def certified_thresholds(law: NoiseDistribution, n_bits: int) -> tuple[int, ...]:
    """Return floor(2^n_bits F(k)) for k = -K .. K - 1, where F is the law's distribution function.

    Every floor is certified: an enclosure of 2^n_bits F(k) lies strictly between two integers. K is the
    least k with P(X >= k) < 2^-n_bits, so the tuple starts with 0, ends with 2^n_bits - 1, has length 2 K,
    and every threshold outside it equals the end on its side. For a law of whole weights K is its largest value and
    every floor is exact.

    Raises:
        InternalError: no certificate at 4096 spare bits (a threshold would have to be an exact dyadic).
    """
    exact = law.exact_thresholds(n_bits)
    if exact is not None:
        return exact
    spare = _SPARE_BITS
    while spare <= _MOST_SPARE_BITS:
        lower = _upper_tail_floors(law, n_bits, n_bits + spare)
        if lower is not None:
            top = (1 << n_bits) - 1
            return (*reversed(lower), *(top - floor for floor in lower))
        spare += spare
    raise InternalError(f"The thresholds of {law} could not be certified at {n_bits} bits.", code="X011")


def _upper_tail_floors(law: NoiseDistribution, n_bits: int, floor_bits: int) -> list[int] | None:
    """Return floor(2^n_bits P(X >= k)) for k = 1 .. K, the last one 0; None if the precision is too low."""
    tails = law.tails(floor_bits)
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


def locate(law: NoiseDistribution, prefix: int, n_bits: int) -> int | None:
    """Return the outcome that a uniform number with these leading bits decides, or None if undecided."""
    thresholds = certified_thresholds(law, n_bits)
    rank = bisect_right(thresholds, prefix)
    if rank and thresholds[rank - 1] == prefix and not law.decides(n_bits):
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


def has_table(law: NoiseDistribution) -> bool:
    """Say whether the law is narrow enough for a table of `TABLE_CAP` outcomes."""
    return 2 * law.half_width(sum(WIDTHS)) <= TABLE_CAP


@lru_cache(maxsize=128)
def table_of(law: NoiseDistribution, widths: tuple[int, int] = WIDTHS) -> Table:
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


_INT32_MAX = (1 << 31) - 1
_CHUNK = 1 << 15  # draws; a chunk's indices, outcomes and the lookup stay in a 1 MB cache
_LAST_STAGE_BYTES = 1


@final
class Sampler:
    """Draw independent exact outcomes of one law.

    The law of the output does not depend on `widths`; smaller ones only send more draws to later stages.
    Run time and cache use depend on the outcomes: no constant-time claim is made.

    Args:
        law: a `DiscreteGaussian` of variance <= 2^54, a `TwoSidedGeometric` of scale <= 2^24, or a `WeightedInteger`.
        bits: the source of every random bit used.
        widths: bits revealed in the first (1 .. 16) and second stage (1 .. 48).

    Raises:
        TypeError: not a law or not a bit source.
        ValueError: a law too wide for 32-bit outcomes.
    """

    __slots__ = ("_table", "bits", "law")

    def __init__(self, law: NoiseDistribution, bits: BitSource, *, widths: tuple[int, int] = WIDTHS) -> None:
        if not isinstance(law, NoiseDistribution):
            raise TypeError(
                f"Sampler needs a law, not {type(law).__name__}. Fix: DiscreteGaussian(variance)."
            )
        if not isinstance(bits, BitSource):
            raise TypeError(f"Sampler needs a bit source, not {type(bits).__name__}. Fix: pass AesBits().")
        if law.is_too_wide:
            raise ValueError(f"{law} is too wide for 32-bit outcomes. Fix: variance <= 2^54, scale <= 2^24.")
        self.law = law
        self.bits = bits
        self._table: Table | None = table_of(law, widths) if has_table(law) else None

    def draw(self, n: int) -> npt.NDArray[np.int32]:
        """Draw n >= 0 outcomes as a new int32 array.

        Raises:
            OverflowError: an outcome does not fit in 32 bits (probability below 2^-180 a draw).
            InternalError: the bit source failed; no outcome is returned.
        """
        out = np.empty(operator.index(n), dtype=np.int32)
        self.draw_into(out)
        return out

    def draw_into(self, out: npt.NDArray[np.int32]) -> None:
        """Overwrite every element of `out` with an outcome.

        Extra memory is about 400 KB whatever the size. After an exception the content is unspecified and
        must not be used. Cost: 1 to 3 ns a draw at variances 4 to 10^4, 50 microseconds without a table.

        Args:
            out: int32, C-contiguous, writeable, any shape.

        Raises:
            TypeError: another dtype or layout.
            OverflowError, InternalError: as `draw`.
        """
        if not isinstance(out, np.ndarray) or out.dtype != np.int32 or not out.flags.c_contiguous:
            raise TypeError("draw_into needs a C-contiguous int32 array. Fix: np.empty(shape, np.int32).")
        flat = out.reshape(-1)
        if self._table is None:
            for i in range(flat.size):
                flat[i] = _guarded(draw_one(self.law, self.bits))
            return
        for start in range(0, flat.size, _CHUNK):
            self._fill(flat[start : start + _CHUNK], self._table)

    def _fill(self, out: npt.NDArray[np.int32], table: Table) -> None:
        """First stage: 16 bits decide almost every draw by one lookup."""
        cells = np.frombuffer(self.bits.read(2 * out.size), dtype="<u2")
        np.take(table.lookup, cells, out=out, mode="wrap")  # no index wraps; "raise" would buffer the output
        undecided = np.flatnonzero(out == UNDECIDED)
        if undecided.size:
            out[undecided] = self._search(cells[undecided], table)

    def _search(self, cells: npt.NDArray[np.uint16], table: Table) -> npt.NDArray[np.int32]:
        """Second stage: 48 more bits and a binary search among the thresholds."""
        first, second = table.widths
        drawn = np.frombuffer(self.bits.read(8 * cells.size), dtype="<u8")
        high = (cells >> np.uint16(WIDTHS[0] - first)).astype(np.uint64) << np.uint64(second)
        prefixes = high | (drawn >> np.uint64(64 - second))
        ranks = np.searchsorted(table.thresholds, prefixes, side="right")
        outcomes = (ranks - len(table.thresholds) // 2).astype(np.int32)
        for i in np.flatnonzero(table.thresholds[ranks - 1] == prefixes):
            outcomes[i] = _guarded(self._extend(int(prefixes[i]), first + second))
        return outcomes

    def _extend(self, prefix: int, n_bits: int) -> int:
        """Last stage: eight more bits at a time, in Python integers, until they decide."""
        while True:
            more = int.from_bytes(self.bits.read(_LAST_STAGE_BYTES), "big")
            prefix, n_bits = prefix << (8 * _LAST_STAGE_BYTES) | more, n_bits + 8 * _LAST_STAGE_BYTES
            outcome = locate(self.law, prefix, n_bits)
            if outcome is not None:
                return outcome


def _guarded(outcome: int) -> int:
    """Return the outcome, or raise if it does not fit in 32 bits (never wrap, never clamp)."""
    if abs(outcome) > _INT32_MAX:
        raise OverflowError("A draw does not fit in 32 bits; nothing may be released from this attempt.")
    return outcome
