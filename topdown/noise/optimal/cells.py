"""Laws that are even inside cells of one width: solved in floats, then only exact numbers are kept.

A law on cells [first, first + 1), [first + 1, first + 2), .. in cell widths keeps (epsilon, delta) at every real
shift up to the sensitivity if it does so at the whole ones: in between the excess is affine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import final

from topdown.errors import InternalError
from topdown.noise.bits import BitSource
from topdown.noise.optimal.ask import factor_below
from topdown.noise.optimal.compact import CompactLP
from topdown.noise.optimal.highs import solve
from topdown.noise.optimal.multipliers import Multiplier
from topdown.noise.optimal.verify import attained

BITS = 64
_UNIT = 1 << 50  # multipliers are rounded to this many parts: any numbers >= 0 prove something
SPARES = tuple(Fraction(1, 10**n) for n in (9, 7, 5, 3))


@final
@dataclass(frozen=True)
class LatticeLaw:
    """P(cell first + j) = weights[j] / 2^64; `excess` is at least the delta that the law needs."""

    first: int
    weights: tuple[int, ...]
    excess: Fraction

    def mass(self, cell: int) -> Fraction:
        """Return the mass of a cell; 0 outside."""
        inside = 0 <= cell - self.first < len(self.weights)
        return Fraction(self.weights[cell - self.first], 1 << BITS) if inside else Fraction(0)

    @cached_property
    def _sums(self) -> tuple[int, ...]:
        return tuple(accumulate(self.weights))

    def draw(self, bits: BitSource) -> int:
        """Draw the number of a cell, with 8 bytes of the source; the law is exact."""
        return self.first + bisect_right(self._sums, int.from_bytes(bits.read(BITS // 8), "big"))

    def items(self) -> list[tuple[int, Fraction]]:
        """Return the cells that have mass, and their masses."""
        return [(self.first + j, Fraction(w, 1 << BITS)) for j, w in enumerate(self.weights) if w]


@final
@dataclass(frozen=True)
class CellProgram:
    """A program on a line of cells, and where its first cell, a padded one perhaps, stands.

    Args:
        costs: of each cell, padded ones included.
        first: number of the first cell.
        n_shifts: the sensitivity in cell widths.
        epsilon, delta: of the guarantee.
        pad: cells at either end that events do not range over.
        outside: cost of mass that no row sees; None for none.
    """

    costs: tuple[Fraction, ...]
    first: int
    n_shifts: int
    epsilon: Fraction
    delta: Fraction
    pad: int = 0
    outside: Fraction | None = None

    @property
    def mirror(self) -> bool:
        """Whether the costs are their own mirror image, so that half of the shifts are enough."""
        return self.costs == self.costs[::-1]

    def solve(self, spare: Fraction = Fraction(0)) -> tuple[tuple[float, ...], list[Multiplier]]:
        """Return the masses that the solver found, padded ones included, and its multipliers as rationals.

        Args:
            spare: the share of delta that the solver is not told of, so that its tolerance and rounding fit in.

        Raises:
            NoSolutionError: X050, no law on these cells keeps the guarantee.

        """
        limits = ((factor_below(self.epsilon), self.delta * (1 - spare)),)
        unit = max([*self.costs, self.outside or Fraction(0)]) or Fraction(1)
        costs = tuple(cost / unit for cost in self.costs)
        outside = None if self.outside is None else self.outside / unit
        program = CompactLP(costs, self.n_shifts, limits, self.pad, self.mirror, outside=outside)
        solution = solve(program.program)
        n, parts = len(program.inner), _UNIT * (1 + self.mirror)
        found: list[Multiplier] = []
        for k, shift in enumerate(program.shifts):
            scaled = [max(0, round(float(v) * _UNIT)) for v in solution.at_most[k * n : (k + 1) * n]]
            cells = [(self.first + c, v) for c, v in zip(program.inner, scaled, strict=True) if v]
            if not cells:
                continue
            steps = tuple((cell, cell + 1, v * unit / parts) for cell, v in cells)
            one = Multiplier(0, 0, shift, steps, max(scaled) * unit / parts)
            found += [one, one.mirrored(2 * self.first + len(self.costs))] if self.mirror else [one]
        return program.masses(solution.columns.tolist()), found

    def law(self) -> LatticeLaw:
        """Find a law of small cost on unpadded cells, in integer weights that keep the guarantee exactly.

        Raises:
            NoSolutionError: X050.
            InternalError: X055, if a thousandth of delta is not enough to spare.

        """
        for spare in SPARES:
            law = rounded(self.solve(spare)[0], self)
            if law.excess <= self.delta:
                return law
        raise InternalError(
            f"the solver's law does not keep delta = {self.delta}",
            code="X055",
            fix="a larger delta or epsilon, or fewer cells, makes the program easier",
        )


def rounded(masses: Sequence[float], line: CellProgram) -> LatticeLaw:
    """Round masses to weights over 2^64 that add up exactly, mirrored where the line is, and measure their excess.

    Args:
        masses: of the cells of the line.
        line: where they stand, and what is asked of them.

    """
    exact = [Fraction(max(0.0, m)) for m in masses]
    total = sum(exact)
    if line.mirror:
        half = [int((1 << BITS) * m / total) for m in exact[: len(exact) // 2]]
        rest = (1 << BITS) - 2 * sum(half)
        middle = [rest] if len(exact) % 2 else []
        if not middle:
            half[-1] += rest // 2
        weights = [*half, *middle, *reversed(half)]
    else:
        ends = [int((1 << BITS) * s / total) for s in accumulate([Fraction(0), *exact])]
        weights = [b - a for a, b in pairwise(ends)]
    inside = [j for j, w in enumerate(weights) if w]
    kept = tuple(weights[inside[0] : inside[-1] + 1])
    return LatticeLaw(line.first + inside[0], kept, attained(kept, line.n_shifts, line.epsilon))
