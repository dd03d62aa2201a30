"""The best noise for a real query, enclosed: a law that keeps the guarantee, and a bound that none can beat.

Losses of real noise are exact rationals: means over cells and infima over intervals, tails included. What optimised
noise is compared with are numbers for tables, in floats and never certified.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import final

from topdown.errors import ConfigError, InternalError
from topdown.optimal_noise.certified_law import exp_bounds, worst_delta
from topdown.optimal_noise.linear_programs import CompactLP, Multiplier, lower_bound, solve_linear_program
from topdown.optimal_noise.noise_request import Promise, factor_below
from topdown.privacy import BitSource
from topdown.privacy.accountant.conversions import gaussian_delta
from topdown.privacy.exact_values import significant


@final
@dataclass(frozen=True)
class RealSquare:
    """The loss x^2."""

    name: str = "square"

    def at(self, x: Fraction) -> Fraction:
        """Return the loss at x."""
        return x * x

    def mean(self, lo: Fraction, hi: Fraction) -> Fraction:
        """Return the mean loss of a point that is uniform on [lo, hi], lo < hi."""
        return (lo * lo + lo * hi + hi * hi) / 3

    def infimum(self, lo: Fraction | None, hi: Fraction | None) -> Fraction:
        """Return the least loss on [lo, hi]; None is an end at infinity."""
        if (lo is None or lo <= 0) and (hi is None or hi >= 0):
            return Fraction(0)
        return min(x * x for x in (lo, hi) if x is not None)


@final
@dataclass(frozen=True)
class PiecewiseLinear:
    """A continuous loss that is linear between knots and grows, or stays, beyond them.

    Args:
        knots: (x, loss at x), x increasing, losses >= 0; at least one.
        left, right: slopes beyond the first and the last knot; left <= 0 <= right.
        name: in words, for screens and documents.

    Raises:
        ValueError: knots not increasing, a negative loss, or a loss that falls without end.
    """

    knots: tuple[tuple[Fraction, Fraction], ...]
    left: Fraction
    right: Fraction
    name: str = "piecewise linear"

    def __post_init__(self) -> None:
        if not self.knots or any(a[0] >= b[0] for a, b in pairwise(self.knots)):
            raise ValueError("the knots of a loss are not increasing. Fix: give each x once, from the left.")
        if any(y < 0 for _, y in self.knots) or self.left > 0 or self.right < 0:
            raise ValueError("a loss is negative or falls without end. Fix: losses >= 0, left <= 0 <= right.")

    def at(self, x: Fraction) -> Fraction:
        """Return the loss at x."""
        first, last = self.knots[0], self.knots[-1]
        if x <= first[0]:
            return first[1] + (x - first[0]) * self.left
        if x >= last[0]:
            return last[1] + (x - last[0]) * self.right
        (a, f), (b, g) = next((p, q) for p, q in pairwise(self.knots) if p[0] <= x <= q[0])
        return f + (g - f) * (x - a) / (b - a)

    def mean(self, lo: Fraction, hi: Fraction) -> Fraction:
        """Return the mean loss of a point that is uniform on [lo, hi], lo < hi."""
        ends = [lo, *(x for x, _ in self.knots if lo < x < hi), hi]
        areas = ((b - a) * (self.at(a) + self.at(b)) / 2 for a, b in pairwise(ends))
        return sum(areas, Fraction(0)) / (hi - lo)

    def infimum(self, lo: Fraction | None, hi: Fraction | None) -> Fraction:
        """Return the least loss on [lo, hi]; None is an end at infinity."""
        inside = [y for x, y in self.knots if (lo is None or lo <= x) and (hi is None or x <= hi)]
        return min([*inside, *(self.at(x) for x in (lo, hi) if x is not None)])


RealLoss = RealSquare | PiecewiseLinear
ABSOLUTE = PiecewiseLinear(((Fraction(0), Fraction(0)),), Fraction(-1), Fraction(1), "absolute")
SQUARE = RealSquare()


def truncated_laplace(epsilon: float, delta: float, sensitivity: float) -> tuple[float, float]:
    """Return E|x| and E x^2 of the truncated Laplace law, epsilon > 0.

    Source: Geng, Ding, Guo, Kumar, "Tight analysis of privacy and utility tradeoff" (2020).
    """
    t = math.expm1(epsilon) / (2 * delta)
    a, scale = math.log1p(t), sensitivity / epsilon
    return scale * (1 - a / t), 2 * scale * scale * (1 - (a + a * a / 2) / t)


def geng_lower(epsilon: float, delta: float, sensitivity: float, *, up: bool = True) -> float:
    """Return the lower bound of E|x| of the same source, which asks for a whole n; rounded up it is not proved.

    With u = (delta + (e - 1) / 2) / e and q = 1 / e: 2 u sensitivity times the sum of j q^j, j = 1 .. n - 1,
    where u (1 + q + .. + q^(n - 1)) = 1/2. Rounded up it can be above what private noise costs.

    Args:
        epsilon, delta, sensitivity: of the guarantee.
        up: round n up, else down.
    """
    q = math.exp(-epsilon)
    u = (delta + math.expm1(epsilon) / 2) * q
    n, reached = 0, 0.0
    while reached < 0.5 - 1e-12:
        reached += u * q**n
        n += 1
    n -= not up and reached > 0.5 + 1e-12
    return 2 * u * sensitivity * sum(j * q**j for j in range(1, n))


def classic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classic sigma, sensitivity sqrt(2 ln(1.25 / delta)) / epsilon."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def analytic_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least sigma of Gaussian noise that is (epsilon, delta)-private, to 12 digits.

    Source: Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), Theorem 8.
    """
    low, high = 1e-9 * sensitivity, sensitivity
    while gaussian_delta(sensitivity / high, epsilon) > delta:
        high *= 2
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if gaussian_delta(sensitivity / middle, epsilon) > delta else (low, middle)
    return high


def truncated_laplace_reach(promise: Promise, cells: int) -> int:
    """Return the half support of the truncated Laplace law, in cell widths, rounded up.

    It is (k / epsilon) ln(1 + (e^epsilon - 1) / (2 delta)), and k / (2 delta) for epsilon 0. It chooses a window,
    nothing else, so floats will do.

    Args:
        cells: k, cell widths in the sensitivity.
    """
    epsilon, delta = float(promise.epsilon), float(promise.delta)
    if epsilon < 1e-9:
        return math.ceil(cells / (2 * delta))
    return math.ceil(cells / epsilon * math.log1p(math.expm1(epsilon) / (2 * delta)))


def default_cells(promise: Promise) -> int:
    """Return how many cell widths the sensitivity gets: as many as make a program of some 5,000 rows, 2 to 40."""
    reach = truncated_laplace_reach(promise, 1) + 1
    return min(max(2, math.isqrt(2500 // reach)), 40)


LATTICE_BITS = 64
_UNIT = 1 << 50  # multipliers are rounded to this many parts: any numbers >= 0 prove something
SPARES = tuple(Fraction(1, 10**n) for n in (9, 7, 5, 3))


@final
@dataclass(frozen=True, repr=False)
class LatticeLaw:
    """P(cell first + j) = weights[j] / 2^64; `excess` is at least the delta that the law needs."""

    first: int
    weights: tuple[int, ...]
    excess: Fraction

    def __repr__(self) -> str:
        return f"LatticeLaw(cells {self.first} .. {self.first + len(self.weights) - 1})"

    def mass(self, cell: int) -> Fraction:
        """Return the mass of a cell; 0 outside."""
        inside = 0 <= cell - self.first < len(self.weights)
        return Fraction(self.weights[cell - self.first], 1 << LATTICE_BITS) if inside else Fraction(0)

    @cached_property
    def _sums(self) -> tuple[int, ...]:
        return tuple(accumulate(self.weights))

    def draw(self, bits: BitSource) -> int:
        """Draw the number of a cell, with 8 bytes of the source; the law is exact."""
        return self.first + bisect_right(self._sums, int.from_bytes(bits.read(LATTICE_BITS // 8), "big"))

    def items(self) -> list[tuple[int, Fraction]]:
        """Return the cells that have mass, and their masses."""
        return [(self.first + j, Fraction(w, 1 << LATTICE_BITS)) for j, w in enumerate(self.weights) if w]


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
    """

    costs: tuple[Fraction, ...]
    first: int
    n_shifts: int
    epsilon: Fraction
    delta: Fraction
    pad: int = 0

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
        unit = max(self.costs) or Fraction(1)
        costs = tuple(cost / unit for cost in self.costs)
        program = CompactLP(costs, self.n_shifts, limits, self.pad, self.mirror)
        solution = solve_linear_program(program.program)
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
            law = rounded_law(self.solve(spare)[0], self)
            if law.excess <= self.delta:
                return law
        raise unsolved(f"the solver's law does not keep delta = {self.delta}")


def unsolved(text: str) -> InternalError:
    """Return the error of a program whose solution does not pass the exact checks (X055)."""
    fix = "a larger delta or epsilon, or fewer cells, makes the program easier"
    return InternalError(text, code="X055", fix=fix)


def whole_masses(masses: Sequence[Fraction], bits: int) -> tuple[int, ...]:
    """Return weights that add up to 2^bits exactly, by a law's distribution function rounded down."""
    total = sum(masses)
    ends = [int((1 << bits) * s / total) for s in accumulate([Fraction(0), *masses])]
    return tuple(b - a for a, b in pairwise(ends))


def rounded_law(masses: Sequence[float], line: CellProgram) -> LatticeLaw:
    """Round masses to weights over 2^64 that add up exactly, mirrored where the line is, and measure their excess.

    Args:
        masses: of the cells of the line.
        line: where they stand, and what is asked of them.
    """
    exact = [Fraction(max(0.0, m)) for m in masses]
    if line.mirror:
        half = [int((1 << LATTICE_BITS) * m / sum(exact)) for m in exact[: len(exact) // 2]]
        rest = (1 << LATTICE_BITS) - 2 * sum(half)
        middle = [rest] if len(exact) % 2 else []
        if not middle:
            half[-1] += rest // 2
        weights = (*half, *middle, *reversed(half))
    else:
        weights = whole_masses(exact, LATTICE_BITS)
    inside = [j for j, w in enumerate(weights) if w]
    kept = weights[inside[0] : inside[-1] + 1]
    return LatticeLaw(line.first + inside[0], kept, worst_delta(kept, line.n_shifts, line.epsilon))


MAX_EXCESSES = 60_000
MOST_SENSITIVITY = 10**100  # and one over it the least: floats find the noise that exact numbers check
_EMPTY = 1e-6  # share of delta that mass of the padding may come to
_GAP = Fraction(1, 10**4)  # of the upper end, for the solver's tolerance and spare delta
LOSSES: dict[str, RealLoss] = {"l1": ABSOLUTE, "l2": SQUARE}


@final
@dataclass(frozen=True)
class RealQuestion:
    """Noise for a real query.

    Args:
        sensitivity: how far one record moves the answer at most; every smaller move must be possible too, or the
            lower bounds hold for additive noise that protects those as well. A rational above 0.
        cells: k, cell widths in the sensitivity, >= 1.

    Raises:
        ConfigError: C162 for a sensitivity or a number of cells that is none.
        TypeError: a float.
    """

    promise: Promise
    sensitivity: Fraction
    cells: int

    def __post_init__(self) -> None:
        if not isinstance(self.sensitivity, int | Fraction):
            raise TypeError(f"{self.sensitivity!r} is not exact. Fix: Fraction(numerator, denominator).")
        if self.sensitivity <= 0:
            raise ConfigError(
                f"the sensitivity is {self.sensitivity}", code="C162", fix="give a number above 0"
            )
        if not 1 <= self.sensitivity * MOST_SENSITIVITY <= MOST_SENSITIVITY**2:
            raise ConfigError(
                "the sensitivity is not between 1e-100 and 1e100",
                code="C285",
                fix="measure the query in another unit, such as thousands of euros",
            )
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or self.cells < 1:
            text = f"the sensitivity has {self.cells!r} cells"
            raise ConfigError(text, code="C162", fix="give a whole number of 1 or more")
        if self.cells > MAX_EXCESSES:
            raise ConfigError(
                f"the sensitivity has {self.cells} cells, more than {MAX_EXCESSES}",
                code="C163",
                fix="give fewer cells to the sensitivity",
            )

    @property
    def width(self) -> Fraction:
        """The cell width b."""
        return Fraction(self.sensitivity) / self.cells

    def line(self, costs: Callable[[int], Fraction], inner: range, pad: int = 0) -> CellProgram:
        """Return the program on the cells `inner`, and `pad` more at either end.

        Raises:
            ConfigError: C163 if it is larger than a solver should be asked for.
        """
        if len(inner) * self.cells > MAX_EXCESSES:
            raise ConfigError(
                f"{len(inner)} cells and {self.cells} shifts make a program of {len(inner) * self.cells} rows, "
                f"more than {MAX_EXCESSES}",
                code="C163",
                fix="give fewer cells to the sensitivity, or a larger delta",
            )
        window = range(inner.start - pad, inner.stop + pad)
        promise = self.promise
        return CellProgram(
            tuple(map(costs, window)), window.start, self.cells, promise.epsilon, promise.delta, pad
        )


@final
@dataclass(frozen=True, repr=False)
class RealNoise:
    """An enclosure lower <= least expected loss of real noise <= upper, and the lattice law that gives `upper`.

    Args:
        question: what was asked.
        loss: l1 or l2.
        law: on multiples of the cell width; spread evenly over [-1/2, 1/2) of a width it costs `upper`.
        lower, upper: exact rationals, recomputed from integer weights and from the solver's multipliers.
    """

    question: RealQuestion
    loss: str
    law: LatticeLaw
    lower: Fraction
    upper: Fraction

    def __repr__(self) -> str:
        low, high = significant(self.lower, 6, up=False), significant(self.upper, 6, up=True)
        return f"RealNoise({self.loss} {low} .. {high}, {self.law})"

    @property
    def gap(self) -> Fraction:
        """The width of the enclosure, in parts of its lower end; 0 / 0 is 0."""
        if self.lower <= 0:
            return Fraction(0) if self.upper == self.lower else Fraction(1)
        return (self.upper - self.lower) / self.lower

    @property
    def on_lattice(self) -> Fraction:
        """The expected loss of the lattice law itself, for an answer that is a multiple of the width."""
        loss, width = LOSSES[self.loss], self.question.width
        return sum((p * loss.at(i * width) for i, p in self.law.items()), Fraction(0))


def sandwich(question: RealQuestion, loss: str) -> RealNoise:
    """Enclose the least expected |x| or x^2 of noise for a real query.

    From below: rounding X at random, without bias, to multiples of b commutes with moves by multiples of b, so it
    keeps the guarantee there; it keeps E|X| and adds at most b^2 / 4 to E X^2. From above: lattice noise plus a
    uniform of one cell width.

    Args:
        loss: l1 or l2.

    Raises:
        ConfigError: C163 for a program that is too large, C164 for another loss.
        NoSolutionError, InternalError: the solver failed; nothing is returned.
    """
    if loss not in LOSSES:
        raise ConfigError(f"there is no loss {loss!r} for real noise", code="C164", fix="give l1 or l2")
    kind, width, promise = LOSSES[loss], question.width, question.promise
    law, multipliers = _on_lattice(question, kind)

    def least(_: int, start: int | None, end: int | None) -> Fraction:
        """Return the least loss of the multiples of the width from start up to end - 1."""
        last = None if end is None else (end - 1) * width
        return kind.infimum(None if start is None else start * width, last)

    lower = lower_bound(multipliers, promise.delta, exp_bounds(promise.epsilon)[1], 1, least)
    half = width / 2
    upper = sum((p * kind.mean(i * width - half, i * width + half) for i, p in law.items()), Fraction(0))
    spread = width * law.mass(0) / 4 if loss == "l1" else width * width / 3
    if loss == "l2":
        lower -= width * width / 4
    if not 0 <= upper - lower <= spread + upper * _GAP:
        raise unsolved("the enclosure of the best noise is wider than its cells explain")
    return RealNoise(question, loss, law, max(lower, Fraction(0)), upper)


def _on_lattice(question: RealQuestion, loss: RealLoss) -> tuple[LatticeLaw, list[Multiplier]]:
    """Return a private law on multiples of the width, and multipliers that prove it nearly the best.

    The window is padded and grows until the solver leaves the padding empty; then less of delta is asked for until
    the law, rounded, keeps it.
    """
    cells, width = question.cells, question.width
    reach, spares = truncated_laplace_reach(question.promise, cells) + cells, list(SPARES)
    while spares:
        line = question.line(lambda i: loss.at(i * width), range(-reach, reach + 1), cells)
        masses, multipliers = line.solve(spares[0])
        law = rounded_law(masses, line)
        if law.excess <= question.promise.delta:
            return law, multipliers
        if sum(masses[:cells]) > _EMPTY * float(question.promise.delta):
            reach += reach // 2
        else:
            spares.pop(0)
    raise unsolved(f"the solver's law does not keep delta = {question.promise.delta}")


def upper_law(question: RealQuestion, loss: RealLoss, inner: range) -> tuple[LatticeLaw, Fraction]:
    """Return a law on the cells [i b, (i + 1) b), i in `inner`, that keeps the guarantee, and its expected loss.

    Raises:
        NoSolutionError: X050, no law on these cells keeps the guarantee: take more of them.
        ConfigError: C163.
    """
    width = question.width
    law = question.line(lambda i: loss.mean(i * width, (i + 1) * width), inner).law()
    value = sum((p * loss.mean(i * width, (i + 1) * width) for i, p in law.items()), Fraction(0))
    return law, value


def lower_by_cells(question: RealQuestion, loss: RealLoss, inner: range) -> Fraction:
    """Return a number that no private noise can cost less than; first order in the cell width.

    Events range over the cells `inner` only; the k cells beside them may hold mass, and so may everything beyond,
    at the least loss there. So it holds for a loss that falls outside the window, too.

    Raises:
        NoSolutionError, ConfigError: as `upper_law`.
    """
    width = question.width
    line = question.line(lambda i: loss.infimum(i * width, (i + 1) * width), inner, question.cells)
    _, multipliers = line.solve()

    def least(_: int, start: int | None, end: int | None) -> Fraction:
        return loss.infimum(*(None if x is None else x * width for x in (start, end)))

    growth = exp_bounds(question.promise.epsilon)[1]
    return max(Fraction(0), lower_bound(multipliers, question.promise.delta, growth, 1, least))
