"""Draw from a law of whole weights over 2^128 by inversion: 16 random bytes a draw, always."""

from __future__ import annotations

import operator
from bisect import bisect_right
from itertools import accumulate
from typing import final

import numpy as np
import numpy.typing as npt

from topdown.optimal_noise.certified_law import OptimalLaw
from topdown.privacy import BitSource

_BYTES = 16
_HALF_BITS = 64
_CHUNK = 1 << 15


@final
class WeightSampler:
    """Draw independent outcomes of an optimal law, exactly with the probabilities weight / 2^128.

    A draw is the number of cumulative weights at or below a uniform 128-bit number, so every draw takes 16 bytes. Run
    time and cache use depend on the outcomes: no constant-time claim is made.

    Args:
        law: of 128 bits.
        bits: the source of every random bit used.

    Raises: TypeError for what is not a bit source, ValueError for weights of another width.
    """

    __slots__ = ("_cumulative", "_high", "bits", "law")

    def __init__(self, law: OptimalLaw, bits: BitSource) -> None:
        if not isinstance(bits, BitSource):
            raise TypeError(
                f"WeightSampler needs a bit source, not {type(bits).__name__}. Fix: pass AesBits()."
            )
        if law.bits != 8 * _BYTES:
            raise ValueError(
                f"The weights of this law add to 2^{law.bits}, not 2^128. Fix: make the law again."
            )
        self.law, self.bits = law, bits
        self._cumulative = tuple(accumulate(law.weights))[:-1]
        self._high = np.array([c >> _HALF_BITS for c in self._cumulative], dtype=np.uint64)

    @property
    def is_release(self) -> bool:
        """Whether the outcomes may be released: False if a seed decides them."""
        return self.bits.is_release

    def draw(self, n: int) -> npt.NDArray[np.int32]:
        """Draw n >= 0 outcomes as a new int32 array.

        Raises: InternalError if the bit source failed; no outcome is returned.
        """
        out = np.empty(operator.index(n), dtype=np.int32)
        for start in range(0, out.size, _CHUNK):
            self._fill(out[start : start + _CHUNK])
        return out

    def _fill(self, out: npt.NDArray[np.int32]) -> None:
        """Let the high 64 bits decide; where they meet a cumulative weight, compare all 128."""
        drawn = np.frombuffer(self.bits.read(_BYTES * out.size), dtype=">u8").reshape(-1, 2)
        high = drawn[:, 0].astype(np.uint64)
        below = np.searchsorted(self._high, high, side="left")
        undecided = np.searchsorted(self._high, high, side="right") != below
        for i in np.flatnonzero(undecided):
            below[i] = bisect_right(self._cumulative, int(high[i]) << _HALF_BITS | int(drawn[i, 1]))
        out[:] = below + self.law.first


def draw_by_inversion(law: OptimalLaw, bits: BitSource) -> int:
    """Draw one outcome by walking along the weights: the slow twin, same bytes, same outcome."""
    left = int.from_bytes(bits.read(_BYTES), "big")
    for k, weight in enumerate(law.weights):
        if left < weight:
            return law.first + k
        left -= weight
    raise ValueError("The weights add to less than 2^128.")
