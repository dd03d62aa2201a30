"""The best noise for a real query, enclosed: a law that keeps the guarantee, and a bound that none can beat.

Two enclosures. `sandwich` is second order in the cell width: noise on a lattice, spread over its cells, from
above; the best lattice noise, which rounding any real noise at random cannot beat, from below. `upper_law` and
`lower_by_cells` take any loss: mean costs of cells from above, least costs from below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from topdown.errors import ConfigError, InternalError
from topdown.noise.optimal.ask import Promise
from topdown.noise.optimal.cells import SPARES, CellProgram, LatticeLaw, rounded
from topdown.noise.optimal.multipliers import Multiplier, lower_bound
from topdown.noise.optimal.real_loss import ABSOLUTE, SQUARE, RealLoss
from topdown.noise.optimal.supports import truncated_laplace_reach
from topdown.noise.optimal.verify import exp_bounds

MAX_EXCESSES = 60_000
_EMPTY = 1e-6  # share of delta that mass of the padding may come to
_GAP = Fraction(1, 10**4)  # of the upper end, for the solver's tolerance and spare delta
LOSSES: dict[str, RealLoss] = {"l1": ABSOLUTE, "l2": SQUARE}


@final
@dataclass(frozen=True)
class RealQuestion:
    """Noise for a real query.

    Args:
        promise: epsilon and delta.
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
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or self.cells < 1:
            raise ConfigError(
                f"the sensitivity has {self.cells!r} cells",
                code="C162",
                fix="give a whole number of 1 or more",
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
        return CellProgram(
            tuple(costs(cell) for cell in window),
            window.start,
            self.cells,
            self.promise.epsilon,
            self.promise.delta,
            pad,
        )


@final
@dataclass(frozen=True)
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
        question: what is asked.
        loss: l1 or l2.

    Raises:
        ConfigError: C163 for a program that is too large, C164 for another loss.
        NoSolutionError, InternalError: the solver failed; nothing is returned.

    """
    if loss not in LOSSES:
        raise ConfigError(f"there is no loss {loss!r} for real noise", code="C164", fix="give l1 or l2")
    kind, width, promise = LOSSES[loss], question.width, question.promise
    law, multipliers = _on_lattice(question, kind)
    lower = lower_bound(
        multipliers,
        promise.delta,
        exp_bounds(promise.epsilon)[1],
        1,
        lambda _, start, end: _least_on_lattice(kind, width, start, end),
    )
    half = width / 2
    upper = sum((p * kind.mean(i * width - half, i * width + half) for i, p in law.items()), Fraction(0))
    spread = width * law.mass(0) / 4 if loss == "l1" else width * width / 3
    if loss == "l2":
        lower -= width * width / 4
    if not 0 <= upper - lower <= spread + upper * _GAP:
        raise InternalError(
            "the enclosure of the best noise is wider than its cells explain",
            code="X055",
            fix="a larger delta or epsilon, or fewer cells, makes the program easier",
        )
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
        law = rounded(masses, line)
        if law.excess <= question.promise.delta:
            return law, multipliers
        if sum(masses[:cells]) > _EMPTY * float(question.promise.delta):
            reach += reach // 2
        else:
            spares.pop(0)
    raise InternalError(
        f"the solver's law does not keep delta = {question.promise.delta}",
        code="X055",
        fix="a larger delta or epsilon, or fewer cells, makes the program easier",
    )


def released(found: RealNoise, answer: Fraction, noise: int) -> Fraction:
    """Return the answer, rounded to the nearest multiple of the width, halves up, plus noise widths.

    Rounding commutes with moves by multiples of the width, so answers at most a sensitivity apart stay so: the
    law's guarantee holds for what is returned. Rounding adds up to half a width to the error, which neither end of
    the enclosure counts.

    Args:
        found: whose law the noise was drawn from.
        answer: exact; a float must be turned into the rational that it is.
        noise: drawn from the law, in widths.

    Raises:
        TypeError: a float.

    """
    if not isinstance(answer, int | Fraction):
        raise TypeError(f"the answer is {type(answer).__name__}, not exact. Fix: Fraction(answer).")
    width = found.question.width
    return (int((answer / width + Fraction(1, 2)) // 1) + noise) * width


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
    width, pad = question.width, question.cells
    line = question.line(lambda i: loss.infimum(i * width, (i + 1) * width), inner, pad)
    beyond = min(
        loss.infimum(None, (inner.start - pad) * width), loss.infimum((inner.stop + pad) * width, None)
    )
    _, multipliers = replace(line, outside=beyond).solve()

    def least(_: int, start: int | None, end: int | None) -> Fraction:
        ends = [None if x is None else x * width for x in (start, end)]
        return loss.infimum(*ends)

    growth = exp_bounds(question.promise.epsilon)[1]
    return max(Fraction(0), lower_bound(multipliers, question.promise.delta, growth, 1, least))


def _least_on_lattice(loss: RealLoss, width: Fraction, start: int | None, end: int | None) -> Fraction:
    """Return the least loss of the multiples of the width from start up to end - 1."""
    last = None if end is None else (end - 1) * width
    return loss.infimum(None if start is None else start * width, last)
