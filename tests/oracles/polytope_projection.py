"""How far a claimed projection on a base polytope is from the true one, in exact numbers.

The solver projects group totals with `kernels.project_base` (Groenevelt's decomposition). The result is not taken on
trust: `certify` bounds its distance from the optimum with Edmonds' greedy algorithm, and shares nothing with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from topdown.arrays import Floats, Ints


@dataclass(frozen=True)
class ProjectionGap:
    """How far a claimed projection can be from the true one, exact.

    Args:
        violation: largest excess of a set over its limit, or of the sum over the total; persons.
        gap: duality gap of 1/2 |x - point|^2 in persons squared.
    """

    violation: Fraction
    gap: Fraction

    @property
    def distance(self) -> float:
        """Bound on the distance to the projection in persons, when `violation` is 0: the square root of the gap."""
        return sqrt(max(0.0, float(self.gap))) * (1 + 1e-15)


def certify(table: Ints, point: Floats, value: Floats) -> ProjectionGap:
    """Check a projection without using how it was made.

    With d = value - point, no y of the polytope has a smaller d.y than the greedy vertex for d; the gap is
    d.value - d.y >= |value - projection|^2. Numbers are read as the exact rationals they are.

    Args:
        table: int64 (2^k,), the most each set can hold (`polytopes.Polytopes.limits` with exact totals).
        point: float64 (k,), what was projected.
        value: float64 (k,), the claim.
    """
    x = [Fraction(float(v)) for v in value]
    d = [a - Fraction(float(p)) for a, p in zip(x, point, strict=True)]
    excess = max(s - int(u) for s, u in zip(subset_sums_exact(x), table, strict=True))
    short = abs(sum(x, Fraction(0)) - int(table[-1]))
    middle = sum(d, Fraction(0)) / len(
        d
    )  # the sum is fixed, so d may be shifted; rounding of the sum drops out
    gap, prefix = Fraction(0), 0
    for j in sorted(range(len(d)), key=d.__getitem__):
        y = int(table[prefix | 1 << j]) - int(table[prefix])
        gap += (d[j] - middle) * (x[j] - y)
        prefix |= 1 << j
    return ProjectionGap(max(excess, short), gap)


def subset_sums_exact(values: Sequence[Fraction]) -> list[Fraction]:
    """Return the sum over every subset, by bit set."""
    sums = [Fraction(0)]
    for v in values:
        sums += [s + v for s in sums]
    return sums
